"""Where to report, as whom, and whether at all: read once from the environment.

Must never: open a socket, or show the token in a ``repr`` or a message.
"""

from __future__ import annotations

import os
from typing import Mapping, Optional

from . import slurm

#: The exit code of a job that saved itself and made room. The engine starts such a job again; any other code but 0 is a failure.
PREEMPTED_EXIT_CODE = 85

#: Reports are at least so far apart, in seconds, unless told otherwise.
EVERY_SECONDS = 5.0


class Settings:
    """One job's address at the daemon. ``repr`` leaves the token out."""

    def __init__(
        self,
        url: str,
        job: str,
        *,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
    ) -> None:
        self.url = url
        self.job = job
        self.ca_file = ca_file
        self.token_file = token_file
        self._token = token

    def token(self) -> Optional[str]:
        """The bearer token. A token file is read anew each time, since whoever issues tokens may replace it.

        Raises ``OSError`` if there is a file and it cannot be read.
        """
        if self._token is not None:
            return self._token
        if self.token_file is None:
            return None
        with open(self.token_file, encoding="utf-8", errors="replace") as file:
            return file.read(65536).strip() or None

    def __repr__(self) -> str:
        return f"Settings(job={self.job!r})"


def from_environment(job: Optional[str] = None, environ: Optional[Mapping[str, str]] = None) -> Optional[Settings]:
    """What the environment says, or ``None`` where this process was not started by arles: then everything is a no-op."""
    env = os.environ if environ is None else environ
    url = env.get("ARLES_URL", "").strip()
    name = (job or env.get("ARLES_JOB", "")).strip()
    if url and not name:
        # A job of sbatch: Slurm knows which job of arles it is.
        name = slurm.job_of(env.get("SLURM_JOB_ID", "").strip()) or ""
    if not url or not name:
        return None
    return Settings(
        url,
        name,
        token=env.get("ARLES_TOKEN", "").strip() or None,
        token_file=env.get("ARLES_TOKEN_FILE", "").strip() or None,
        ca_file=env.get("ARLES_CA", "").strip() or None,
    )
