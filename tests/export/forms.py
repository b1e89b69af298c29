"""Whether functions have a form outside of Python."""

from collections.abc import Callable
from typing import Any
from unittest import mock

from afx import export
from afx.errors import AfxError
from afx.export import compiled

__all__ = ["has_c_form"]


def has_c_form(fn: Callable[..., Any], *xs: Any) -> bool:
    """Tell whether a function is written as machine code; LLVM, which takes most of the time, makes none of it."""
    with mock.patch.object(compiled, "_generate", return_value=b""):
        try:
            export.compile(fn, *xs, name="asked")
        except AfxError:
            return False
    return True
