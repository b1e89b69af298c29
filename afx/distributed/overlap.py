"""Overlap: messages that go on while this process computes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Overlap"]

POLL_SECONDS: Final = 0.0005  # a test takes some microseconds, and a piece of a message about a millisecond


class Overlap:
    """A thread that tests requests, as MPI moves large messages only inside of its calls.

    Attributes:
        pending: the requests that are not done.
    """

    def __init__(self, requests: Sequence[Any]) -> None:
        self.pending: list[Any] = list(requests)
        self._error: Exception | None = None
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="afx messages", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while self.pending and not self._is_ended.wait(POLL_SECONDS):
            try:
                self.pending = [request for request in self.pending if not request.Test()]
            except Exception as error:  # MPI's, which is raised again where it is known what it means
                self._error = error
                return

    def end(self) -> Exception | None:
        """Leave the requests to the caller; return the error that one of them met."""
        self._is_ended.set()
        self._thread.join()
        return self._error
