"""Which job of arles this is, for code that Slurm started.

arles writes the number of its job into the job's admin comment in Slurm, so that ``sbatch`` scripts need no change: ``SLURM_JOB_ID`` is enough.

Must never: raise, or take longer than a few seconds.
"""

from __future__ import annotations

import re
import subprocess
from typing import Optional

#: Slurm's own commands give up after about this long when the controller is away.
TIMEOUT_SECONDS = 5.0

_MARK = re.compile(r"^\s*AdminComment=arles job=(\d+) ", re.MULTILINE)


def job_in(text: str) -> Optional[str]:
    """The number in what ``scontrol show job`` prints. The last such line counts: what users write stands before it."""
    found = _MARK.findall(text)
    return found[-1] if found else None


def job_of(slurm_job: str) -> Optional[str]:
    """The number that arles gave to a job of Slurm's; ``None`` if it has none, or Slurm cannot be asked."""
    if not slurm_job.isdigit():
        return None
    try:
        asked = subprocess.run(
            ["scontrol", "show", "job", slurm_job],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return job_in(asked.stdout.decode("utf-8", "replace"))
