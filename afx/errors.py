"""Exceptions: each is an `AfxError` and also the built-in error a caller would expect.

```
AfxError
├── ShapeError          (ValueError)   operands whose shapes do not fit
│   └── AxisError       (IndexError)   an axis that the array does not have
├── DtypeError          (TypeError)    a dtype the operation or transformation cannot take
├── ArgumentError       (ValueError)   any other argument out of its range
├── CopyError           (ValueError, BufferError)  memory that cannot be shared, though no copy may be made
├── OperandError        (TypeError)    a value that is not array-like where one is needed
├── IndexRangeError     (IndexError)   an index outside its axis
├── TreeError           (TypeError)    a pytree that is mutable, unhashable or of another structure
├── ImmutableError      (TypeError)    an attempt to write into an Array
├── TracerError         (TypeError)    a traced value used where only a plain value can be
│   ├── ConcreteValueError             its value is asked for (``bool(x)`` under jit, ``float(x)`` under grad)
│   └── EscapedTracerError             its trace has ended
├── GraphError          (ValueError)   a Graph that is not well formed
├── NestingError        (RecursionError)  loops and branches too deep within each other for Python's stack
├── ExportError         (ValueError)   a program that cannot leave Python in the form asked for
├── FileFormatError     (ValueError)   a file that is damaged, or not what `afx.io` wrote
├── NanError            (ArithmeticError)  the first nan, inside a `debug_nans` block
├── PeerLost            (ConnectionError)  another process of a distributed program did not answer
└── MissingExtraError   (ImportError)  an optional dependency that is not installed

RetraceWarning          (UserWarning)  a jitted function that is traced again and again for static values
```

Messages read ``<op>: <what is wrong>: got <operands>; <what to do>``.
"""

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

__all__ = [
    "AfxError",
    "ArgumentError",
    "AxisError",
    "ConcreteValueError",
    "CopyError",
    "DtypeError",
    "EscapedTracerError",
    "ExportError",
    "FileFormatError",
    "GraphError",
    "ImmutableError",
    "IndexRangeError",
    "MissingExtraError",
    "NanError",
    "NestingError",
    "OperandError",
    "PeerLost",
    "RetraceWarning",
    "ShapeError",
    "TracerError",
    "TreeError",
]


def __dir__() -> list[str]:
    return __all__


def refuse_names(module: str, *modules: str, homes: Mapping[str, str] | None = None) -> None:
    """Have a module show its public names alone, and refuse others: the error says what to write where another is meant.

    Without a list of them they are all that it imports, and of modules those that are named; or, of a family that loads its
    names when they are first asked for, those whose modules ``homes`` tells.

    Type checkers do not see it, and refuse others themselves.
    """
    names = vars(sys.modules[module])
    own = homes or {name for name, value in names.items() if name[0] != "_" and not isinstance(value, ModuleType)}
    names.setdefault("__all__", sorted({*own, *modules} - {"refuse_names"}))
    later = {**(homes or {}), **{name: f"{module}.{name}" for name in modules}}

    def __getattr__(name: str) -> Any:
        if name in later:
            home = importlib.import_module(later[name])
            value = names[name] = home if name in modules else getattr(home, name)
            return value
        from afx.other_names import missing_name

        raise missing_name(module, name)

    names.update(__getattr__=__getattr__, __dir__=lambda: names["__all__"])


class AfxError(Exception):
    """Base of every error that afx raises on purpose; see `afx.debug.show_whole_tracebacks`."""

    def __init__(self, *args: object, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        from afx.tracebacks import watch

        watch(AfxError)

    def _render_traceback_(self) -> list[str]:
        from afx.tracebacks import render_traceback

        return render_traceback(self)


class ShapeError(AfxError, ValueError):
    """Operands whose shapes do not fit the operation."""


class AxisError(ShapeError, IndexError):
    """An axis that the array does not have; as NumPy's, it is a `ValueError` and an `IndexError`."""


class DtypeError(AfxError, TypeError):
    """A dtype that the operation or transformation cannot take."""


class ArgumentError(AfxError, ValueError):
    """An argument out of its range, such as an axis or a mode."""


class CopyError(AfxError, ValueError, BufferError):
    """Memory that cannot be shared, because others could write into it, where a copy is forbidden."""


class OperandError(AfxError, TypeError):
    """A value that is not an array, a number or a NumPy array where one is needed."""


class IndexRangeError(AfxError, IndexError):
    """An index outside its axis."""


class TreeError(AfxError, TypeError):
    """A pytree that is mutable, has an unhashable static part, or differs in structure from another."""


class ImmutableError(AfxError, TypeError):
    """An attempt to write into an Array; `Array.at` holds the functional updates."""


class TracerError(AfxError, TypeError):
    """A traced value used where only a plain value can be."""


class ConcreteValueError(TracerError):
    """The value of a traced array is asked for where it is unknown or would detach the derivative."""


class EscapedTracerError(TracerError):
    """A traced array is used after the trace that made it has ended."""


class GraphError(AfxError, ValueError):
    """A Graph that is not well formed."""


class NestingError(AfxError, RecursionError):
    """Functions given to loops and branches that stand within each other more deeply than Python's stack allows."""


class ExportError(AfxError, ValueError):
    """A program that cannot leave Python in the form asked for; the message names the operation and the user's line."""


class FileFormatError(AfxError, ValueError):
    """A file that is damaged, is not of afx's format, or names what is not allowed."""


class NanError(AfxError, ArithmeticError):
    """An operation gave nan inside a `debug_nans` block."""


class MissingExtraError(AfxError, ImportError):
    """An optional dependency that is not installed; the message names the extra to install."""


class PeerLost(AfxError, ConnectionError):
    """Another process of a distributed program was lost, or did not answer within the deadline."""


class RetraceWarning(UserWarning):
    """A jitted function that was traced about ten times for arguments that differ in static values alone."""
