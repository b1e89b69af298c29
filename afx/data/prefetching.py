"""Prefetching: items of an iterator made ahead on a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import attrs

from afx.errors import ArgumentError

__all__ = ["prefetch"]

T = TypeVar("T")


@attrs.frozen
class _Raised:
    """An exception that the iterator raised, on its way to who waits for the next item."""

    error: BaseException


class _End:
    """The end of the iterator."""


class _Item(Generic[T]):
    """An item, distinguished from the end and from errors by its type."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value


def prefetch(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """Yield the items of an iterable, while a thread makes the next ones.

    Order and values stay. An exception of the iterable is raised instead of the item. The thread ends with the
    iteration, also when that is left early (``close``, ``break``, an exception); NumPy computes there without
    Python's lock, so that reading and cutting of the next batch overlaps the present step.

    Args:
        items: any iterable; it is iterated on one other thread.
        depth: how many items may wait, at least 1.

    Raises:
        ArgumentError: a depth below 1.

    >>> list(prefetch(range(3)))
    [0, 1, 2]
    """
    if depth < 1:
        raise ArgumentError(f"prefetch: at least one item waits: got depth={depth}; give a positive number")
    return _Prefetching(items, depth)


class _Prefetching(Iterator[T]):
    """The iterator of `prefetch`; its thread starts with the first item that is asked for."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        self._items = items
        self._waiting: queue.Queue[_Item[T] | _Raised | _End] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._direct: Iterator[T] | None = None  # where no thread can be started
        self._is_over = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._is_over:
            raise StopIteration
        if self._thread is None:
            self._start()
        if self._direct is not None:
            return next(self._direct)
        found = self._waiting.get()
        if isinstance(found, _Item):
            return found.value
        self.close()
        if isinstance(found, _Raised):
            raise found.error
        raise StopIteration

    def _start(self) -> None:
        """Start the thread; a system without threads makes each item when it is asked for."""
        self._thread = threading.Thread(
            target=_fill, args=(self._items, self._waiting, self._stopped), name="afx-prefetch", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:
            self._direct = iter(self._items)

    def close(self) -> None:
        """End the thread."""
        self._is_over = True
        self._stopped.set()

    def __del__(self) -> None:
        self._stopped.set()


def _fill(items: Iterable[T], waiting: queue.Queue[_Item[T] | _Raised | _End], stopped: threading.Event) -> None:
    """Put items into the queue until they end or nobody waits for them."""
    last: _Item[T] | _Raised | _End = _End()
    try:
        for item in items:
            if not _offer_item(_Item(item), waiting, stopped):
                return
    except BaseException as error:  # raised again where the item is asked for
        last = _Raised(error)
    _offer_item(last, waiting, stopped)


def _offer_item(
    item: _Item[T] | _Raised | _End, waiting: queue.Queue[_Item[T] | _Raised | _End], stopped: threading.Event
) -> bool:
    """Wait for room in the queue; tell whether anybody still asks for items."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
