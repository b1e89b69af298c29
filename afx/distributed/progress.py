"""Progress: a bar over items, where tqdm is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

from afx.errors import MissingExtraError

__all__ = ["track"]

T = TypeVar("T")


def track(items: Iterable[T], label: str) -> Iterable[T]:
    """Return the items, with a bar on standard error that counts them.

    Raises:
        MissingExtraError: tqdm is not installed.
    """
    try:
        tqdm: Any = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        raise MissingExtraError(f'{label}: needs tqdm: got none; pip install "afx[progress]"') from error
    shown: Iterable[T] = tqdm(items, desc=label)
    return shown
