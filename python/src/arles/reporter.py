"""When to report, and what to make of the outcome.

A `Reporter` is a small machine, `turn`, and a daemon thread that turns it. A report is sent at most every `every` seconds. After the k-th
failure in a row the next one waits

    max(every, min(5 · 2^(k-1), 300)) seconds

and the first success forgets them all.

The rate is measured from one end of a step to another, never from one report to the next: with steps of 12 s and reports every 5 s the
latter would say 0, 0, 0.2. After every report the training thread is asked to note the time and the count at the end of its next step (a
`Mark`); the rate is that between the marks of two reports. It is null where there is none to tell: while the count has not moved; across a
`resume`, where the difference of counts is not work done; over less than half of `every`; and with a checkpoint, whose time is in it.

Must never: raise into the training thread, keep the process alive, or block it longer than `LAST_SECONDS`, and that only at its end.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Set

from .wire import Answer, Failure

LOG = logging.getLogger("arles")

#: How long one report may take, in seconds. Nobody waits for it but the reporter's own thread.
REPORT_SECONDS = 10.0
#: How long the end of a job may wait for its last report, in seconds.
LAST_SECONDS = 2.0
BACKOFF_FIRST_SECONDS = 5.0
BACKOFF_MOST_SECONDS = 300.0

Post = Callable[[Dict[str, Any], float], Answer]


class Mark(NamedTuple):
    """A moment at which a step had just ended."""

    at: float
    steps: float
    origin: int


class Count(NamedTuple):
    """How far the job is. Counts of different origins are not comparable: there was a `resume` between them."""

    steps: float
    origin: int
    mark: Optional[Mark] = None


class Reporter:
    """Reports what ``count`` says through ``post``, and tells ``stop`` when the answer asks to make room."""

    def __init__(
        self,
        post: Post,
        count: Callable[[], Count],
        stop: Callable[[Optional[float]], None],
        every: float,
        clock: Callable[[], float] = time.monotonic,
        ask_mark: Callable[[], None] = lambda: None,
    ) -> None:
        self.every = every
        self._post = post
        self._count = count
        self._stop = stop
        self._clock = clock
        self._next = -math.inf
        self._failures = 0
        self._ask_mark = ask_mark
        self._delivered: Optional[Count] = None
        self._since: Optional[Mark] = None
        self._saved: Optional[Count] = None
        self._over = False
        self._closing = False
        self._logged: Set[str] = set()
        self._wake = threading.Event()
        self._done = threading.Event()
        self._busy = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Starts the thread. Where no thread can be had (limits, shutdown) nothing is reported."""
        thread = threading.Thread(target=self._run, name="arles", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._over = True
            self._warn("thread", "no thread could be started, so nothing is reported")
            return
        self._thread = thread

    def turn(self) -> Optional[float]:
        """Reports if it is time; says in how many seconds to ask again, or ``None`` when there is nothing left to do."""
        if self._over:
            return None
        now = self._clock()
        if now < self._next:
            return self._next - now
        with self._busy:
            if self._closing:
                return None
            got_through = self._send(now, checkpointed=False, timeout_seconds=REPORT_SECONDS)
        if self._over:
            return None
        # a slow answer counts towards the pause after a success; a failure is given its whole pause
        self._next = now + self.every if got_through else self._clock() + self.backoff()
        return max(self._next - self._clock(), 0.0)

    def backoff(self) -> float:
        """The pause after the failures so far, in seconds."""
        doublings = min(max(self._failures - 1, 0), 10)
        return max(self.every, min(BACKOFF_FIRST_SECONDS * 2.0**doublings, BACKOFF_MOST_SECONDS))

    def last(self, checkpointed: bool) -> None:
        """One more report, now, whatever the pace says; waits for it at most `LAST_SECONDS`.

        It has a thread of its own: the reporter's may hang in a request, and names are resolved without any timeout.
        """
        if self._over:
            return
        done = threading.Event()

        def send() -> None:
            try:
                got = self._busy.acquire(timeout=LAST_SECONDS / 4.0)
                try:
                    self._send(self._clock(), checkpointed, LAST_SECONDS)
                finally:
                    if got:
                        self._busy.release()
            except BaseException:  # nobody is there to hear of it
                pass
            finally:
                done.set()

        try:
            threading.Thread(target=send, name="arles-last", daemon=True).start()
            done.wait(LAST_SECONDS)
        except Exception:
            # no thread to be had; or a signal's handler raised here, as torch's does when its workers end before it
            pass

    def close(self) -> None:
        """Ends the thread after a last report, if the last one got through and there is news since; waits at most `LAST_SECONDS`.

        Unlike `last` it starts no thread, which an interpreter that is shutting down refuses.
        """
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            try:
                self._done.wait(LAST_SECONDS)
            except Exception:  # a signal's handler, as in `last`
                pass

    def discard(self) -> None:
        """Ends the thread without a word."""
        self._over = True
        self._wake.set()

    def _run(self) -> None:
        try:
            while not self._closing:
                pause = self.turn()
                if pause is None:
                    break
                self._wake.wait(pause)
                self._wake.clear()
            if self._closing and not self._over and self._failures == 0:
                known = self._delivered
                if known is None or known[:2] != self._count()[:2]:
                    self._send(self._clock(), checkpointed=False, timeout_seconds=LAST_SECONDS)
        except BaseException:  # a thread that dies loudly would print into the job's output
            pass
        finally:
            self._done.set()

    def _send(self, now: float, checkpointed: bool, timeout_seconds: float) -> bool:
        """Whether it got through. Raises nothing."""
        try:
            count = self._count()
            if not math.isfinite(count.steps):
                raise Failure("steps", "the count of steps is not a finite number, so it is not reported")
            # what was saved stays saved: a report that comes right behind must not take it back
            checkpointed = checkpointed or (self._saved is not None and count[:2] == self._saved[:2])
            rate = None if checkpointed else self._rate(count)
            answer = self._post({"steps": count.steps, "rate": rate, "checkpointed": checkpointed}, timeout_seconds)
            self._failures = 0
            self._delivered = count
            self._saved = count if checkpointed else None
            if checkpointed:
                self._since = None
            elif rate is not None or self._since is None or self._since.origin != count.origin:
                self._since = count.mark
            self._ask_mark()
            if answer.stop:
                self._stop(answer.grace_seconds)
            return True
        except Failure as failure:
            self._over = self._over or failure.final
            self._warn(failure.kind, failure.sentence)
        except Exception as error:
            self._warn("unexpected", f"a report failed ({type(error).__name__})")
        self._failures += 1
        return False

    def _rate(self, count: Count) -> Optional[float]:
        first, last = self._since, count.mark
        if first is None or last is None or first.origin != last.origin or last.origin != count.origin:
            return None
        seconds = last.at - first.at
        if seconds < self.every / 2.0 or last.steps <= first.steps:
            return None
        rate = (last.steps - first.steps) / seconds
        return rate if math.isfinite(rate) else None

    def _warn(self, kind: str, sentence: str) -> None:
        if kind in self._logged:
            return
        self._logged.add(kind)
        try:
            LOG.warning("%s; training goes on", sentence)
        except Exception:
            pass
