"""Carrying: the source of an implementation, and of all that it calls, as text that stands without afx."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from afx.core import Aval, Primitive, aval_of, get_default_dtype, promote
from afx.errors import AfxError
from afx.export.numpy_text.writer import Module, number_text
from afx.export.templates import NoTemplateError
from afx.ops._basic import numpy_of
from afx.ops._kinds.special import SciPyUfunc, scipy
from afx.ops.random.bits import check_key
from afx.runtime.control_register import run_as_caller
from afx.runtime.thread_pool import get_threads, run_blocks

# --- Sources of functions: their syntax trees, which names they read from outside, and how these are renamed

Definition = ast.FunctionDef | ast.ClassDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@functools.lru_cache(maxsize=64)
def _definitions_in(file: str) -> dict[str, list[Definition]]:
    """Return the definitions of a file by their names."""
    definitions: dict[str, list[Definition]] = {}
    for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            definitions.setdefault("<lambda>" if isinstance(node, ast.Lambda) else node.name, []).append(node)
    return definitions


@attrs.frozen
class Source:
    """A definition without types and decorators.

    Attributes:
        text: of the definition.
        name: under which it is defined in it.
        reads: the names that it reads and does not bind.
    """

    text: str
    name: str
    reads: tuple[str, ...]

    def rename(self, name: str, texts: Mapping[str, str]) -> str:
        """Return the text under another name, with texts in place of the outer names."""
        changed = {read: text for read, text in texts.items() if read != text}
        if not changed and name == self.name:
            return self.text
        tree = ast.parse(self.text)
        definition: Any = tree.body[0]
        definition.name = name
        return ast.unparse(ast.fix_missing_locations(_Resolver(changed).visit(definition)))


@functools.lru_cache(maxsize=2048)
def read_source(value: types.CodeType | type) -> Source:
    """Return the definition of a class, or of what code was compiled from, in its file.

    Raises:
        NoTemplateError: its source is not there.
    """
    if isinstance(value, type):
        name = value.__name__
        definitions = _definitions_in(sys.modules[value.__module__].__file__ or "").get(name, [])
    else:
        name = "f" if value.co_name == "<lambda>" else value.co_name
        definitions = list(_definitions(value))
    if len(definitions) != 1:
        raise NoTemplateError(f"the source of {value.__qualname__ if isinstance(value, type) else name} cannot be read")
    resolver = _Resolver({})
    node = resolver.strip(copy.deepcopy(definitions[0]), name)
    return Source(ast.unparse(ast.fix_missing_locations(node)), name, tuple(sorted(resolver.read)))


def _definitions(code: types.CodeType) -> Iterator[Definition]:
    """Yield the definitions that code was compiled from; a lambda's by the place of its result."""
    places = set(code.co_positions())
    for node in _definitions_in(code.co_filename).get(code.co_name, []):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places:
                yield node
        elif code.co_firstlineno == min([node.lineno, *[d.lineno for d in node.decorator_list]]):
            yield node


class _Resolver(ast.NodeTransformer):
    """A walk that knows which names are bound where it stands."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.read: set[str] = set()
        self._bound: list[set[str]] = []

    def strip(self, node: Definition, name: str) -> ast.AST:
        """Return the definition, under another name."""
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.Return(node.body)]
            node = ast.FunctionDef(name=name, args=node.args, body=body, decorator_list=[], returns=None)
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []  # they have made what is looked at
        node.name = name
        return self.visit(node)  # type: ignore[no-any-return]  # ast leaves it open

    # -- scopes --
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave types out; arguments and what is assigned is bound."""
        node.returns = None
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self._defaults(node.args)
        self._inside({*_arguments(node.args), *_list_bindings(node.body)}, lambda: self._statements(node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep fields, of any type."""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.bases = [self.visit(b) for b in node.bases]
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                item.annotation = ast.Name("object", ast.Load())
                item.value = item.value and self.visit(item.value)
            elif isinstance(item, ast.FunctionDef):
                self.visit(item)
        node.body = [item for item in node.body if not _is_text(item)]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Bind the arguments."""
        self._defaults(node.args)
        self._inside(_arguments(node.args), lambda: setattr(node, "body", self.visit(node.body)))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Bind what a comprehension walks along."""
        if not isinstance(node, COMPREHENSIONS):
            return super().generic_visit(node)
        names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        visit = super().generic_visit
        self._inside(names, lambda: visit(node))
        return node

    def _inside(self, names: Iterable[str], visit: Callable[[], object]) -> None:
        self._bound.append(set(names))
        visit()
        self._bound.pop()

    def _statements(self, node: ast.FunctionDef) -> None:
        rest = [item for item in node.body if not _is_text(item)]
        node.body = [new for item in rest if (new := self.visit(item)) is not None] or [ast.Pass()]

    def _defaults(self, arguments: ast.arguments) -> None:
        for argument in [*_parameters(arguments), arguments.vararg, arguments.kwarg]:
            if argument is not None:
                argument.annotation = None
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [d and self.visit(d) for d in arguments.kw_defaults]

    # -- expressions --
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Leave the type out."""
        if node.value is None:
            return None
        return ast.Assign([self.visit(node.target)], self.visit(node.value), lineno=node.lineno)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave out what is said to type checkers alone: ``cast`` and the elements of an empty list."""
        if isinstance(node.func, ast.Name) and node.func.id == "cast" and len(node.args) == 2:
            return self.visit(node.args[1])  # type: ignore[no-any-return]  # ast leaves it open
        made = node.func.value if isinstance(node.func, ast.Subscript) else None
        if isinstance(made, ast.Name) and made.id in {"list", "dict", "set", "tuple"}:
            node.func = made
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace an outer name."""
        if any(node.id in names for names in self._bound):
            return node
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.id)
        text = self.texts.get(node.id)
        return node if text is None else ast.parse(text, mode="eval").body


def _is_text(item: ast.stmt) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _arguments(arguments: ast.arguments) -> set[str]:
    parameters = [*_parameters(arguments), arguments.vararg, arguments.kwarg]
    return {a.arg for a in parameters if a is not None}


def _list_bindings(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, but for those within functions of their own."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from [alias.asname or alias.name for alias in node.names]
        waiting += ast.iter_child_nodes(node)


# --- Carrying
#
# An implementation is a function of NumPy values. Its text is taken from its file; names that it reads from its
# module or from a function around it become names of the text's own module, and values that these hold are written
# down. So one text serves whatever an implementation is made of, and gives its bits. What cannot be written down is
# refused.

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
OF_SCIPY = """def of_scipy(name, message=''):
    import scipy.special

    return getattr(scipy.special, name)"""
STAND_INS: dict[int, tuple[str, str]] = {
    id(Aval): ("Aval", AVAL),
    id(aval_of): ("aval_of", "def aval_of(x, who=''):\n    return Aval(np.shape(x), np.asarray(x).dtype)"),
    id(numpy_of): ("np.asarray", ""),
    id(promote): ("promote", PROMOTE),
    id(check_key): ("check_key", "def check_key(key, who=''):\n    assert key.shape[-1:] == (2,)"),
    id(get_threads): ("get_threads", "def get_threads():\n    return 1"),
    id(run_blocks): ("run_blocks", RUN_BLOCKS),
    id(scipy): ("of_scipy", OF_SCIPY),
    id(run_as_caller): ("run_as_caller", "def run_as_caller(fn, *args):\n    return fn(*args)"),
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
        kind = value.__class__
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
            base = next(k for k in value.__mro__ if not k.__module__.startswith("afx"))
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
        """Return the text of an object that the module defines, imports or takes from an array file.

        Raises:
            NoTemplateError: it is of no kind that can be written.
        """
        kind = value.__class__
        # an object that holds nothing
        if kind.__module__.startswith("afx.") and getattr(kind, "__slots__", None) == ():
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
