"""SIGTERM as a wish to stop, for those who ask for it.

The handler only sets a flag, since it may interrupt anything, then calls the handler that was there before. A forked child (a data loader's
worker) gets the old handler back: its parent ends it by SIGTERM and would wait for ever if it did not listen. SIGTERM is held back from
before the fork until then; one that came in between would otherwise find our handler set and gone, and be lost.

Must never: replace a handler unasked, or take a lock.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Callable, List


class Sigterm:
    """Our handler and the one it replaced."""

    def __init__(self, wish: Callable[[], None]) -> None:
        self._wish = wish
        self._pid = os.getpid()
        self._before: Any = signal.SIG_DFL

    def install(self) -> bool:
        """Whether it could be done: Python lets only the main thread do it."""
        try:
            self._before = signal.signal(signal.SIGTERM, self._handle)
        except ValueError:
            return False
        _INSTALLED.append(self)
        return True

    def restore(self) -> None:
        """Puts the old handler back, unless somebody has put theirs over ours: then ours stays below it and only passes signals on."""
        self._wish = _nothing
        try:
            # `==`: each access to a method makes another object
            if self in _INSTALLED and signal.getsignal(signal.SIGTERM) == self._handle:
                # None stands for a handler that was not installed from Python and cannot be put back from it
                signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)
                _INSTALLED.remove(self)
        except ValueError:  # not the main thread
            pass

    def _handle(self, number: int, frame: Any) -> None:
        self._wish()
        if callable(self._before):
            self._before(number, frame)
        elif self._before is not signal.SIG_IGN and os.getpid() != self._pid:
            # a child in which somebody else's handler calls ours: it should end, as it would have without us
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)


def _nothing() -> None:
    pass


_INSTALLED: List[Sigterm] = []  # the last one is called first
_FORKING = threading.local()  # threads may fork at once, each with a mask of its own


def _before_fork() -> None:
    if _INSTALLED:
        _FORKING.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _after_fork() -> None:
    mask = getattr(_FORKING, "mask", None)
    if mask is not None:
        _FORKING.mask = None
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    for handler in reversed(list(_INSTALLED)):
        handler.restore()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
