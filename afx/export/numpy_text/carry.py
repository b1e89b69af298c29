"""Carrying: the source of an implementation, and of all that it calls, as text that stands without afx.

An implementation is a function of NumPy values. Its text is taken from its file; names that it reads from its module or
from a function around it become names of the text's own module, and values that these hold are written down. So one
text serves whatever an implementation is made of, and gives its bits. What cannot be written down is refused.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from typing import Any

import numpy as np

from afx.core.aval import Aval, aval_of
from afx.core.dtypes import get_default_dtype, promote
from afx.core.primitive import Primitive
from afx.errors import AfxError
from afx.export.numpy_text.module import Module, number_text
from afx.export.numpy_text.sources import Source, read_source
from afx.export.templates.table import NoTemplateError
from afx.ops._basic import numpy_of
from afx.ops._kinds.special import SciPyUfunc
from afx.ops.random.bits import check_key
from afx.runtime.thread_pool import get_threads, run_blocks

__all__ = ["STAND_IN_NAMES", "carry_implementation"]

AVAL = """
class Aval:
    def __init__(self, shape, dtype, weak=False):
        self.shape, self.dtype, self.weak = tuple(shape), np.dtype(dtype), weak

    def __eq__(self, other):
        return (self.shape, self.dtype) == (other.shape, other.dtype)

    def __str__(self):
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
"""
PROMOTE = """
def promote(dtypes, weak=(), floating=False):
    dtype = np.result_type(*dtypes)
    return dtype if dtype.kind in "fc" or not floating else np.dtype(DEFAULT)
"""
RUN_BLOCKS = """
def run_blocks(fn, size, block, scratch, args):
    for k in range(-(-size // block)):
        fn(k, k * block, min(size, (k + 1) * block), scratch[0], *args)
"""
STAND_INS: dict[int, tuple[str, str]] = {
    id(Aval): ("Aval", AVAL),
    id(aval_of): ("aval_of", "def aval_of(x, who=''):\n    return Aval(np.shape(x), np.asarray(x).dtype)"),
    id(numpy_of): ("np.asarray", ""),
    id(promote): ("promote", PROMOTE),
    id(check_key): ("check_key", "def check_key(key, who=''):\n    assert key.shape[-1:] == (2,)"),
    id(get_threads): ("get_threads", "def get_threads():\n    return 1"),
    id(run_blocks): ("run_blocks", RUN_BLOCKS),
}
STAND_IN_NAMES = frozenset([name for name, source in STAND_INS.values() if source])
WRAPPERS = {  # functions that make implementations, and the name there of what computes on values of the right dtypes
    "elementwise_impl": "ufunc",
    "_unify_dtypes": "compute",
    "_check_first": "compute",
}
PLAIN = (bool, int, str, bytes, type(None), types.EllipsisType)


def carry_implementation(p: Primitive, module: Module) -> tuple[str, dict[str, Any]]:
    """Enter what computes a primitive into a module; return its name there, and parameters that it is always given.

    Raises:
        NoTemplateError: it uses what cannot be written down.
    """
    fn, params = p.impl, dict[str, Any]()
    while isinstance(fn, types.FunctionType):
        maker = fn.__qualname__.partition(".<locals>")[0]
        inner = _closure(fn)
        if maker == "parametric":
            params = dict(inner["defaults"])
            fn = inner["compute"]
        elif maker in WRAPPERS:
            fn = inner[WRAPPERS[maker]]
        else:
            break
    return Carrier(module).text_of(fn, p.name), params


def _closure(fn: types.FunctionType) -> dict[str, Any]:
    cells = fn.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(fn.__code__.co_freevars, cells, strict=True)}


class Carrier:
    """Values written down as text, each once in a module."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def text_of(self, value: Any, wish: str) -> str:
        """Return the text by which code of the module refers to a value."""
        known = self.module.known.get(id(value))
        if known is not None:
            return known[0]
        if id(value) in STAND_INS:
            return self._stand_in(value)
        return self._plain(value) or self._library(value) or self._defined(value, wish)

    def _stand_in(self, value: Any) -> str:
        name, source = STAND_INS[id(value)]
        if value is aval_of:
            self.text_of(Aval, "Aval")
        if value is Aval:
            self.module.imports.add("import math")
        source = source.replace("DEFAULT", repr(np.dtype(get_default_dtype()).name))
        return self.module.define(value, name, source) if source else name

    # -- values --
    def _plain(self, value: Any) -> str:
        """Return the text of a number, a dtype, a container of such; an empty one for other values."""
        kind: Any = value.__class__
        if kind in PLAIN:
            return repr(value)
        if kind in (float, complex):
            return number_text(value)
        if issubclass(kind, np.dtype):
            return f"np.dtype({value.name!r})"
        if issubclass(kind, np.generic):
            return f"np.{value.dtype.name}({number_text(value.item())})"
        if kind in (tuple, list, frozenset):
            items = [self.text_of(item, "item") for item in value]
            if kind is frozenset:
                return f"frozenset([{', '.join(sorted(items))}])"
            inside = ", ".join(items) + ("," if len(items) == 1 else "")
            return f"({inside})" if kind is tuple else f"[{inside}]"
        if kind is dict:
            pairs = [f"{self.text_of(k, 'key')}: {self.text_of(v, 'value')}" for k, v in value.items()]
            return f"{{{', '.join(pairs)}}}"
        return ""

    def _library(self, value: Any) -> str:
        """Return the name of what NumPy, SciPy, Python's library or Python has; an empty text where that is not it."""
        if isinstance(value, types.ModuleType):
            return self._module_name(value)
        if isinstance(value, SciPyUfunc):
            self.module.imports.add("import scipy.special")
            return f"scipy.special.{value.scipy_ufunc}"
        if is_error(value):
            base: Any = next(k for k in value.__mro__ if not k.__module__.startswith("afx"))
            return self.text_of(base, base.__name__)
        name = getattr(value, "__name__", "")
        if name and vars(builtins).get(name) is value:
            return str(name)
        for place in (np, np.linalg, np.fft, np.lib.stride_tricks, sys.modules.get(getattr(value, "__module__", ""))):
            if place is not None and not place.__name__.startswith("afx") and getattr(place, name, None) is value:
                return f"{self._module_name(place)}.{name}"
        return ""

    def _module_name(self, module: types.ModuleType) -> str:
        name = module.__name__
        root = name.partition(".")[0]
        if root == "numpy" and not any(part.startswith("_") for part in name.split(".")):
            return "np" + name.removeprefix("numpy")
        if root != "scipy" and root not in sys.stdlib_module_names:
            raise NoTemplateError(f"it is computed by {name}")
        self.module.imports.add(f"import {name}")
        return name

    # -- definitions --
    def _defined(self, value: Any, wish: str) -> str:
        kind: Any = value.__class__
        if (
            kind.__module__.startswith("afx.") and getattr(kind, "__slots__", None) == ()
        ):  # an object that holds nothing
            made = self.text_of(kind, kind.__name__)
            name = self.module.reserve(value, wish)
            self.module.write(f"{name} = {made}()")
            return name
        if value.__class__ is np.ndarray:
            return self.module.enter_array(value, self.module.names.make(wish))
        if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, np.ufunc):
            return f"{self.text_of(value.__self__, wish)}.{value.__name__}"
        if isinstance(value, functools.partial):
            self.module.imports.add("import functools")
            given = [self.text_of(x, "item") for x in value.args]
            given += [f"{key}={self.text_of(x, key)}" for key, x in value.keywords.items()]
            return f"functools.partial({', '.join([self.text_of(value.func, 'function'), *given])})"
        if isinstance(value, type) and value.__module__.startswith("afx."):
            return self._class(value)
        inner = getattr(value, "__wrapped__", value)
        if isinstance(inner, types.FunctionType) and inner.__module__.startswith("afx."):
            return self._function(value, inner, wish)
        raise NoTemplateError(f"it is computed by {getattr(value, '__qualname__', type(value).__qualname__)}")

    def _function(self, value: Any, fn: types.FunctionType, wish: str) -> str:
        stem = fn.__name__ if fn.__name__ not in {"<lambda>", "run", "compute", "_run"} else wish
        name = self.module.reserve(value, stem)
        cached = value is not fn
        if cached:
            self.module.imports.add("import functools")
        outside = fn.__globals__ | _closure(fn)
        return self._write(name, read_source(fn.__code__), outside, "@functools.cache\n" if cached else "")

    def _class(self, value: type) -> str:
        name = self.module.reserve(value, value.__name__)
        return self._write(name, read_source(value), vars(sys.modules[value.__module__]), "")

    def _write(self, name: str, source: Source, outside: dict[str, Any], head: str) -> str:
        texts = {read: self.text_of(outside[read], read) for read in source.reads if read in outside}
        self.module.write(head + source.rename(name, texts))
        return name


def is_error(value: Any) -> bool:
    """Tell whether a value is the class of an error of afx."""
    return isinstance(value, type) and issubclass(value, AfxError)
