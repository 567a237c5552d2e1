"""Tells arles how far a training job is, and tells the job when to make room for another.

    import arles

    for batch in arles.track(loader, on_stop=save):
        train(batch)

Without ``ARLES_URL`` and ``ARLES_JOB`` in the environment all of this does nothing (in a job of Slurm's, ``SLURM_JOB_ID`` will do instead of
``ARLES_JOB``). With them, it never breaks training: a daemon that
is away, slow or mad costs one line in the log (logger ``arles``) and nothing else.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Optional, TypeVar

from .ranks import any_rank
from .settings import EVERY_SECONDS, PREEMPTED_EXIT_CODE, from_environment
from .tracked import Tracked, TrackedIterator
from .tracker import Preempted, Tracker, checked_every

__all__ = [
    "PREEMPTED_EXIT_CODE",
    "Preempted",
    "Tracker",
    "any_rank",
    "report",
    "resume",
    "should_stop",
    "step",
    "track",
]
__version__ = "0.1.0"

I = TypeVar("I", bound=Iterable[Any])

#: One a job, so that `track` in every epoch goes on counting.
_trackers: Dict[str, Tracker] = {}


def track(
    loader: I,
    *,
    every: float = EVERY_SECONDS,
    on_stop: Optional[Callable[[], Any]] = None,
    job: Optional[str] = None,
    sigterm: bool = False,
    raise_on_stop: bool = True,
    agree: Optional[Callable[[bool], bool]] = None,
    exit_code: int = PREEMPTED_EXIT_CODE,
) -> I:
    """Wraps the loader so that every item taken from it is a step, reported at most every ``every`` seconds.

    Call it once an epoch or once in all: the count goes on. When the job must make room, ``on_stop()`` is called once, between two steps,
    and iteration ends with `Preempted`. The options are those of `Tracker`.
    """
    checked_every(every)
    settings = from_environment(job)
    if settings is None:
        return loader
    current = Tracker.current
    # inside `with Tracker()` of the same job, that one: a job has one count
    tracker = current if current is not None and current.job == settings.job else _trackers.get(settings.job)
    if tracker is None or tracker._closed:
        tracker = _trackers[settings.job] = Tracker(settings=settings, every=every)
        if current is not None and not current._begun:
            tracker.resume(current.steps)  # `resume` was called before anybody knew the job's name
    tracker.configure(every, on_stop, sigterm, raise_on_stop, agree, exit_code)
    Tracker.current = tracker
    wrapper = TrackedIterator if hasattr(type(loader), "__next__") else Tracked
    return wrapper(loader, tracker)  # type: ignore[return-value]


def step(n: float = 1) -> None:
    """``n`` more steps are done: for loops without a loader. Ask `should_stop` after it."""
    (Tracker.current or _default()).step(n)


def report(steps: Optional[float] = None, *, checkpointed: bool = False) -> None:
    """The job has done ``steps`` steps in all. ``checkpointed=True`` says so at once (waiting for at most 2 s): call it after saving."""
    (Tracker.current or _default()).report(steps, checkpointed=checkpointed)


def resume(steps: float) -> None:
    """The job goes on from a checkpoint that was saved after ``steps`` steps. Call it before the first step."""
    (Tracker.current or _default()).resume(steps)


def should_stop() -> bool:
    """Whether the job should save a checkpoint and end with exit code 85. Always false outside arles."""
    return (Tracker.current or _default()).should_stop()


def _default() -> Tracker:
    """The tracker of the job in the environment."""
    settings = from_environment()
    tracker = Tracker.current = Tracker(settings=settings)
    if settings is not None:
        _trackers[settings.job] = tracker
    return tracker
