"""Which of a job's processes this one is, and how all of them come to one mind about stopping.

Only rank 0 reports. So only rank 0 hears that the job should stop; were it to leave alone, the others would wait for it in their next
all-reduce until they are killed. `any_rank` is the remedy: what one rank wishes, all do.

Must never: import torch. It is used only where the job has loaded it already.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping, Optional

#: Who says which rank this is, the innermost launcher first: torchrun under srun sets both, and both differ.
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def rank(environ: Optional[Mapping[str, str]] = None) -> int:
    """This process's rank in its job; 0 where nobody says."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_rank())
    env = os.environ if environ is None else environ
    for variable in RANK_VARIABLES:
        try:
            value = int(env.get(variable, ""))
        except ValueError:
            continue
        if value >= 0:  # some launchers say -1 for "not distributed"
            return value
    return 0


def any_rank(wish: bool) -> bool:
    """Whether any rank of ``torch.distributed`` wishes it. Every rank must call this at the same step; alone, it is ``wish``."""
    distributed = _distributed()
    if distributed is None or distributed.get_world_size() < 2:
        return wish
    torch = sys.modules["torch"]
    device = "cuda" if str(distributed.get_backend()) == "nccl" else "cpu"
    flag = torch.tensor([1.0 if wish else 0.0], device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item() > 0.0)


def _distributed() -> Any:
    """``torch.distributed`` if it is loaded and its processes have met, else ``None``."""
    module: Any = sys.modules.get("torch.distributed")
    try:
        if module is not None and module.is_available() and module.is_initialized():
            return module
    except Exception:  # half imported, or another thing by that name
        pass
    return None
