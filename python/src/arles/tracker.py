"""Counts steps and ends training when the job must make room.

The training thread adds to a number and looks at one flag, `_attention`; all else happens in the reporter's thread, or on the rare step
at which the flag is up: the first one, the one after each report (whose end is noted, so that rates are measured between ends of steps), and
those after somebody wished to stop (the daemon, or SIGTERM). So a step costs tens of nanoseconds.

A wish is acted upon by the training thread, between two steps: `on_stop` sees a model that no half-done step has touched.

Must never: let a failure of reporting reach the caller. What `on_stop` and `agree` raise is the caller's own and does come out.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Optional

from .ranks import rank
from .settings import EVERY_SECONDS, PREEMPTED_EXIT_CODE, Settings, from_environment
from .sigterm import Sigterm

if TYPE_CHECKING:  # at run time they are imported where reporting is on, and nowhere else
    from .reporter import Count, Mark, Reporter

#: With `agree`, the ranks ask one another at every so many steps.
AGREE_EVERY_STEPS = 10


class Preempted(SystemExit):
    """The job was asked to make room, and has. Uncaught, it ends the process with the exit code arles knows (85)."""

    def __init__(self, code: int = PREEMPTED_EXIT_CODE) -> None:
        super().__init__(code)


class Tracker:
    """Counts the steps of one job and reports them from a thread of its own.

    Without ``ARLES_URL`` and ``ARLES_JOB`` in the environment it only counts; so it does in every process but rank 0.

    every: seconds between two reports, at least.
    on_stop: saves a checkpoint; called once, by the training thread, between two steps.
    job: the job's id, if it is not the one in ``ARLES_JOB``.
    sigterm: take SIGTERM as a wish to stop. An existing handler is called as well.
    raise_on_stop: end with `Preempted` after ``on_stop``; otherwise just stop iterating.
    agree: called by all ranks with this rank's wish to stop at every tenth step; returns that of all. `arles.any_rank` does for torch.
    exit_code: that of `Preempted`.
    """

    #: The one that the module's functions mean.
    current: ClassVar[Optional[Tracker]] = None

    def __init__(
        self,
        *,
        every: float = EVERY_SECONDS,
        on_stop: Optional[Callable[[], Any]] = None,
        job: Optional[str] = None,
        sigterm: bool = False,
        raise_on_stop: bool = True,
        agree: Optional[Callable[[bool], bool]] = None,
        exit_code: int = PREEMPTED_EXIT_CODE,
        settings: Optional[Settings] = None,
    ) -> None:
        self._settings = settings if settings is not None else from_environment(job)
        self._every = checked_every(every)
        self._steps: float = 0
        self._origin = 0
        self._counting = threading.Lock()
        self._mark: Optional[Mark] = None
        self._mark_wanted = False
        self._steps_when_asked: float = 0
        self._attention = self._settings is not None
        self._wished = False
        self._until: Optional[float] = None
        self._asked = False
        self._looks = 0
        self._stopped = False
        self._closed = False
        self._reporter: Optional[Reporter] = None
        self._begun = False
        self._sigterm: Optional[Sigterm] = None
        self._outer: Optional[Tracker] = None
        self._on_stop: Optional[Callable[[], Any]] = None
        self._agree: Optional[Callable[[bool], bool]] = None
        self.configure(every, on_stop, sigterm, raise_on_stop, agree, exit_code)
        if self._settings is not None:
            _ALIVE.add(self)

    def configure(
        self,
        every: float,
        on_stop: Optional[Callable[[], Any]],
        sigterm: bool,
        raise_on_stop: bool,
        agree: Optional[Callable[[bool], bool]],
        exit_code: int,
    ) -> None:
        """Takes the options of one more `track` of the same job: the latest word counts, and silence changes nothing."""
        self._every = checked_every(every)
        if self._reporter is not None:
            self._reporter.every = self._every
        self._on_stop = on_stop or self._on_stop
        self._raise_on_stop = raise_on_stop
        self._exit_code = exit_code
        if self._settings is None:
            return
        if agree is not None:
            if self._agree is None and self._wished and not self._stopped:  # a wish from before there was anybody to ask
                self._asked, self._wished = True, False
            self._agree = agree
            self._attention = True
        if sigterm and self._sigterm is None:
            self._sigterm = Sigterm(self.request_stop)
            if not self._sigterm.install():
                _warn("sigterm=True works in the main thread only, so SIGTERM is left as it was")

    @property
    def active(self) -> bool:
        """Whether arles started this job. If not, nothing here does anything."""
        return self._settings is not None

    @property
    def job(self) -> Optional[str]:
        """The job's id, if arles started it."""
        return None if self._settings is None else self._settings.job

    # Counting

    @property
    def steps(self) -> float:
        """How many steps the job has done, those before a `resume` included."""
        return self._steps

    def step(self, n: float = 1) -> None:
        """``n`` more steps are done. If there is an ``on_stop`` and the job must make room, this is where it happens.

        Call it from one thread only.
        """
        self._steps += n
        if self._attention:
            self._attend(stopping=self._on_stop is not None)

    def report(self, steps: Optional[float] = None, *, checkpointed: bool = False) -> None:
        """The job has done so many steps in all. Sent with the next report; with ``checkpointed`` now, waiting for at most 2 s."""
        if steps is not None:
            self._steps = float(steps)
        if self._attention:
            self._attend(stopping=False)
        if checkpointed and self._reporter is not None:
            self._reporter.last(checkpointed=True)

    def resume(self, steps: float) -> None:
        """The job goes on from a checkpoint of so many steps. The jump is not taken for speed."""
        with self._counting:
            self._steps = float(steps)
            self._origin += 1

    # Stopping

    def should_stop(self) -> bool:
        """Whether the job should save itself and end. Stays true once it is."""
        if self._attention:
            self._attend(stopping=False)
        return self._wished

    @property
    def grace_seconds(self) -> Optional[float]:
        """How long the job has left to save itself; ``None`` if nobody said."""
        return None if self._until is None else max(self._until - time.monotonic(), 0.0)

    def request_stop(self, grace_seconds: Optional[float] = None) -> None:
        """Wishes that training stops after this step. Safe in a signal handler and in any thread: it takes no lock."""
        if grace_seconds is not None:
            until = time.monotonic() + grace_seconds
            self._until = until if self._until is None else min(self._until, until)
        if self._agree is None:
            self._wished = True
        else:
            self._asked = True
        self._attention = True

    def _attend(self, stopping: bool) -> bool:
        """The rare step. Whether iteration must end."""
        # down before the wish is looked at: a wish that comes in between raises it again
        self._attention = self._agree is not None
        if not self._begun:
            self._begin()
        if self._mark_wanted:
            self._note_mark()
        if self._agree is not None and not self._wished:
            # by our own count, not by steps, which `resume` and `report` may have set on one rank alone
            if self._looks % AGREE_EVERY_STEPS == 0:
                self._wished = bool(self._agree(self._asked))
            self._looks += 1
        if not self._wished:
            return False
        self._attention = True
        if stopping:
            self._make_room()
        return True

    def _make_room(self) -> None:
        if not self._stopped:
            self._stopped = True
            if self._on_stop is not None:
                self._on_stop()
            if self._reporter is not None:
                self._reporter.last(checkpointed=self._on_stop is not None)
                if self._on_stop is not None:  # otherwise the caller may yet save, and say so
                    self._reporter.discard()
        if self._raise_on_stop:
            raise Preempted(self._exit_code)

    # Reporting

    def _begin(self) -> None:
        """Starts reporting at the first step rather than when made: by then a `resume` has been called."""
        self._begun = True
        if self._settings is None or self._closed:
            return
        try:
            if rank() != 0:
                return
            from .reporter import Reporter
            from .wire import post

            settings = self._settings
            reporter = Reporter(
                lambda body, timeout_seconds: post(settings, body, timeout_seconds),
                self._count,
                self.request_stop,
                self._every,
                ask_mark=self._ask_mark,
            )
            reporter.start()
            self._reporter = reporter
        except Exception as error:  # an interpreter without ssl, say
            _warn(f"nothing is reported ({type(error).__name__})")

    def _count(self) -> Count:
        from .reporter import Count

        with self._counting:
            return Count(float(self._steps), self._origin, self._mark)

    def _ask_mark(self) -> None:
        """The end of the next step is noted. From the reporter's thread."""
        self._steps_when_asked = self._steps
        self._mark_wanted = True
        self._attention = True

    def _note_mark(self) -> None:
        """Notes the time if a step has ended since the mark was asked for."""
        from .reporter import Mark

        if self._steps == self._steps_when_asked:
            self._attention = True  # somebody only looked: `should_stop`, or the start of an epoch
            return
        self._mark_wanted = False
        with self._counting:
            self._mark = Mark(time.monotonic(), float(self._steps), self._origin)

    def close(self) -> None:
        """Sends what has not been reported yet (waiting for at most 2 s), ends the thread and gives SIGTERM back. Twice is once."""
        if self._closed:
            return
        self._closed = True
        if self._sigterm is not None:
            self._sigterm.restore()
        if self._reporter is not None:
            self._reporter.close()

    def _forked(self) -> None:
        """In the child: threads are gone and locks may be held for ever. The child is not the job, so it keeps silent."""
        self._settings = None
        self._reporter = None
        self._begun = True
        self._closed = True
        self._agree = None
        self._attention = False
        self._counting = threading.Lock()

    def __enter__(self) -> Tracker:
        """Inside ``with``, `arles.step`, `arles.should_stop` and the like mean this tracker."""
        self._outer = Tracker.current
        Tracker.current = self
        return self

    def __exit__(self, *_: Any) -> None:
        if Tracker.current is self:
            Tracker.current = self._outer
        self._outer = None
        self.close()

    def __repr__(self) -> str:
        return f"Tracker(job={self.job!r}, steps={self._steps!r})"


def checked_every(every: float) -> float:
    """``every``, if it is a time to wait."""
    if isinstance(every, bool) or not isinstance(every, (int, float)) or not 0 < every < math.inf:
        raise ValueError(f"every={every!r}: expected seconds above 0, such as 5.0; leave it out if unsure")
    return float(every)


def _warn(sentence: str) -> None:
    import logging

    logging.getLogger("arles").warning("%s; training goes on", sentence)


_ALIVE: weakref.WeakSet[Tracker] = weakref.WeakSet()


def _close_all() -> None:
    for tracker in list(_ALIVE):
        try:
            tracker.close()
        except Exception:
            pass


def _forked() -> None:
    Tracker.current = None  # should training itself be in the child, it makes its own
    for tracker in list(_ALIVE):
        tracker._forked()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
