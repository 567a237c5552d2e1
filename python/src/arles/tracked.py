"""A loader that counts what is taken from it.

Items come through unchanged and in order; everything else asked of the wrapper is asked of the loader. An item is a step done when the *next*
one is asked for. After a ``break`` the last item is therefore not counted: whether its step was done, nobody can tell.
"""

from __future__ import annotations

from typing import Any, Generic, Iterable, Iterator, TypeVar

from .tracker import Tracker

T = TypeVar("T")


class Tracked(Generic[T]):
    """What `arles.track` gives back."""

    __slots__ = ("_arles_loader", "_arles_tracker", "__weakref__")
    _arles_loader: Iterable[T]
    _arles_tracker: Tracker

    def __init__(self, loader: Iterable[T], tracker: Tracker) -> None:
        object.__setattr__(self, "_arles_loader", loader)
        object.__setattr__(self, "_arles_tracker", tracker)

    def __iter__(self) -> Iterator[T]:
        tracker = self._arles_tracker
        if tracker._attention and tracker._attend(stopping=True):
            return
        try:
            for item in self._arles_loader:
                yield item
                tracker._steps += 1
                if tracker._attention and tracker._attend(stopping=True):
                    return
        except Exception:
            # a SIGTERM to the whole process group ends the loader's workers too; that must not cost the checkpoint
            if not tracker._wished or tracker._stopped:
                raise
            tracker._attend(stopping=True)

    def __len__(self) -> int:
        return len(self._arles_loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._arles_loader)

    def __contains__(self, item: Any) -> bool:
        return item in self._arles_loader

    def __getitem__(self, key: Any) -> Any:
        return self._arles_loader[key]  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_arles_"):  # not there yet: asking the loader for it would ask for ever
            raise AttributeError(name)
        return getattr(self._arles_loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._arles_loader, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._arles_loader, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy, and what another process gets of it, is the plain loader: the steps of a job are counted once."""
        return _plain, (self._arles_loader,)

    def __repr__(self) -> str:
        return f"arles.track({self._arles_loader!r})"


class TrackedIterator(Tracked[T]):
    """A `Tracked` whose loader is an iterator (a generator, say), so that ``next`` works on it as before."""

    __slots__ = ("_arles_items",)
    _arles_items: Iterator[T]

    def __init__(self, loader: Iterable[T], tracker: Tracker) -> None:
        super().__init__(loader, tracker)
        object.__setattr__(self, "_arles_items", Tracked.__iter__(self))

    def __iter__(self) -> Iterator[T]:
        return self._arles_items

    def __next__(self) -> T:
        return next(self._arles_items)


def _plain(loader: Any) -> Any:
    return loader
