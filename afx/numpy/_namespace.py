"""Lookup: the value of a name of NumPy's in `afx.numpy`, by one rule, and its objects."""

from __future__ import annotations

import functools
import inspect
from abc import ABC
from collections.abc import Callable, Collection, Iterable
from types import ModuleType
from typing import Any

import numpy as np

from afx.core import Array, Tracer
from afx.core.dtypes import SUPPORTED, default_dtype, float64, get_default_dtype
from afx.core.numpy_dispatch import QUERIES, UntranslatedError, answer_function, array_ufunc, find_function, to_plain
from afx.core.numpy_names import WRITING
from afx.errors import AfxError, DtypeError, OperandError
from afx.numpy._dtypes import CONVERSIONS, call_ufunc, prepare
from afx.ops import arange, broadcast_to, c_, r_, reshape, stack
from afx.ops.creation.creation import SEQUENCES, array, asarray

# --- Lookup

Function = Callable[..., Any]

# Functions that look at the object itself, or take functions and names alone.
ASKING = frozenset(
    {"broadcast_shapes", "fromfunction", "frompyfunc", "isscalar", "issubdtype", "iterable", "promote_types"}
)
# NumPy's functions whose work another of its functions does, once arrays are immutable and in row-major order.
ALIASES: dict[str, Any] = {"asanyarray": np.asarray, "asfortranarray": np.asarray, "row_stack": np.vstack}
# called as afx's
DIRECT: dict[str, Function] = {"arange": arange, "ascontiguousarray": functools.partial(array, ndmin=1)}
NOT_ANSWERED = (UntranslatedError, DtypeError, OperandError)


def names(module: ModuleType) -> list[str]:
    """Return the public names of a module of NumPy."""
    return sorted(name for name in dir(module) if not name.startswith("_"))


def lookup(module: ModuleType, name: str, here: str) -> Any:
    """Return what a name of NumPy's is in afx's namespace.

    Args:
        module: NumPy's.
        name: the name.
        here: afx's module, where the value is found again.

    Raises:
        AttributeError: NumPy has no such name.
    """
    if name.startswith("_") or not hasattr(module, name):
        raise AttributeError(f"module {here!r} has no attribute {name!r}, as {module.__name__} has none")
    value = getattr(module, name)
    if isinstance(value, np.ufunc):
        return Ufunc(value, name, here)
    if isinstance(value, (type, ModuleType)) or not hasattr(value, "__name__") or name in ASKING:
        return value
    return _wrap_function(value, name, here)


def _wrap_function(func: Any, name: str, here: str) -> Any:
    """Return a function with NumPy's signature and documentation."""
    source = ALIASES.get(name, func)
    direct: Any = DIRECT.get(name)
    known = name in DIRECT or name in WRITING or name in QUERIES or _is_known(source)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plainly(func, args, kwargs, answered)

    def answered(*args: Any, **kwargs: Any) -> Any:
        if not known:
            return _numpys(func, args, kwargs)
        if direct is not None:
            return answer(lambda: direct(*args, **kwargs), func, args, kwargs)
        if name in CONVERSIONS:
            return answer(lambda: prepare(func, name, translated, args, kwargs), func, args, kwargs)
        return answer(lambda: answer_function(source, args, kwargs), func, args, kwargs)

    def translated(*args: Any, **kwargs: Any) -> Any:
        return answer_function(source, args, kwargs)

    wrapper.__module__, wrapper.__qualname__, wrapper.__name__ = here, name, name
    return wrapper


def plainly(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], answered: Function) -> Any:
    """Return NumPy's own result where no operand is an Array, and afx's where one is, or a called function brings one."""
    if not has_array(args) and not (kwargs and has_array(kwargs.values())):
        try:
            return func(*args, **kwargs)
        except AfxError:
            pass
    return answered(*args, **kwargs)


def has_array(values: Collection[Any]) -> bool:
    """Tell whether an Array, traced or not, is among values, or in lists, tuples and dictionaries of theirs."""
    kinds: set[Any] = set(map(type, values))
    if any([issubclass(kind, Array) for kind in kinds]):
        return True
    nested: tuple[Any, ...] = tuple([kind for kind in kinds if issubclass(kind, (list, tuple, dict))])
    return bool(nested) and any(has_array(_items(x)) for x in values if isinstance(x, nested))


def _items(x: Any) -> Collection[Any]:
    return x.values() if isinstance(x, dict) else x  # pyright: ignore[reportUnknownVariableType]  # a user's own


def _is_known(func: Function) -> bool:
    try:
        find_function(func.__name__, func.__module__, func.__name__)
    except UntranslatedError:
        return False
    return True


def answer(call: Function, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a call gives where numbers are float64, or NumPy's result where afx has none and nothing is traced."""
    if get_default_dtype() is not float64:
        with default_dtype(float64):
            return answer(call, func, args, kwargs)
    try:
        result = call()
    except NOT_ANSWERED as error:
        if _is_traced((args, kwargs)):
            raise
        failure = error
    else:  # a dtype that would give way to others, which NumPy's results have not
        return asarray(result) if isinstance(result, Tracer) and result.aval.weak else result
    try:
        result = _numpys(func, args, kwargs)
    except Exception:  # afx's error says more than NumPy's
        raise failure from None
    return adopt(result)


def _numpys(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of NumPy's own function, of arrays that nothing traces."""
    try:
        plain = [to_plain(x) for x in args], {k: to_plain(v) for k, v in kwargs.items()}
    except AfxError as error:
        raise UntranslatedError(
            f"{func.__module__}.{func.__name__}: this is NumPy's own function, which has no derivative: got traced "
            "arrays; write it with afx's functions, or take afx.stop_gradient of what is not differentiated"
        ) from error
    return func(*plain[0], **plain[1])


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tracer) or (isinstance(x, (list, tuple, dict)) and any(map(_is_traced, _items(x))))


def adopt(value: Any) -> Any:
    """Return NumPy's arrays and scalars of numbers as Arrays, in tuples and lists too, and anything else as it is."""
    kind = value.__class__
    if issubclass(kind, (np.ndarray, np.generic)):
        return asarray(value) if value.dtype.char in SUPPORTED else value
    if hasattr(kind, "_make"):
        return kind._make(map(adopt, value))
    if kind not in SEQUENCES:
        return value
    sequence = value
    return kind(map(adopt, sequence))


class Ufunc:
    """A ufunc of NumPy's that afx answers: called, reduced, accumulated and in its outer form."""

    def __init__(self, ufunc: np.ufunc, name: str, here: str) -> None:
        self.ufunc = ufunc
        self.__name__ = self.__qualname__ = name
        self.__module__ = here
        self.__doc__ = ufunc.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return plainly(self.ufunc, args, kwargs, self._answered)

    def _answered(self, *args: Any, **kwargs: Any) -> Any:
        nin = self.ufunc.nin
        if len(args) > nin and "out" not in kwargs:
            args, kwargs = args[:nin], {"out": args[nin:], **kwargs}
        if kwargs:
            return self._answer("__call__", args, kwargs)
        return call_ufunc(self._call, self.ufunc, args)

    def _call(self, args: tuple[Any, ...]) -> Any:
        return self._answer("__call__", args, {})

    def reduce(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduce an array along axes by repeating the ufunc."""
        return self._answer("reduce", (array,), _bind_arguments(args, kwargs, ("axis", "dtype", "out", "keepdims")))

    def accumulate(self, array: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the results of repeating the ufunc along an axis."""
        return self._answer("accumulate", (array,), _bind_arguments(args, kwargs, ("axis", "dtype", "out")))

    def outer(self, x: Any, y: Any, /, **kwargs: Any) -> Any:
        """Apply the ufunc to all pairs of elements."""
        return self._answer("outer", (x, y), kwargs)

    def at(self, *args: Any) -> None:
        """Apply the ufunc in place: of NumPy's arrays alone."""
        self._answer("at", args, {})

    def reduceat(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce over slices of an axis, by NumPy."""
        return self._answer("reduceat", args, kwargs)

    def _answer(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        theirs = getattr(self.ufunc, method)

        def answered(*_args: Any, **_kwargs: Any) -> Any:
            return answer(lambda: array_ufunc(self.ufunc, method, args, kwargs), theirs, args, kwargs)

        return plainly(theirs, args, kwargs, answered)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.ufunc)

    def __getattr__(self, name: str) -> Any:
        if name == "ufunc":
            raise AttributeError(name)
        return getattr(self.ufunc, name)

    def __reduce__(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r} of {self.__module__}>"


def _bind_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return arguments by name."""
    return dict(zip(keys, args, strict=False)) | kwargs


# --- Objects: names of NumPy's that are neither functions nor constants, as `afx.numpy` has them


class ndarray(ABC):  # noqa: B024  # NumPy's name, and no method of its own
    """What `isinstance` asks: an `afx.Array`, traced or not, or an array of NumPy's."""


ndarray.register(Array)
ndarray.register(np.ndarray)
ndarray.__module__ = "afx.numpy"


class _Joining:
    """``r_`` and ``c_`` of NumPy."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.ours, self.theirs = ours, theirs
        self.__doc__ = theirs.__doc__

    def __getitem__(self, key: Any) -> Any:
        theirs = self.theirs.__getitem__

        def answered(key: Any) -> Any:
            return answer(lambda: self.ours[key], theirs, (key,), {})

        return plainly(theirs, (key,), {}, answered)


class vectorize:  # NumPy's name
    """A function of numbers, applied to each element: NumPy's where nothing is traced, else a loop that is differentiated.

    It calls Python for every element, as NumPy's does; `afx.vmap` calls it once.
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any],
        otypes: Any = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc: Callable[..., Any] = pyfunc
        names = None if excluded is None else set(excluded)
        self.theirs: Callable[..., Any] = np.vectorize(pyfunc, otypes, doc, names, cache, signature)
        self.plain: bool = not excluded and signature is None
        self.__doc__ = self.theirs.__doc__
        self.__name__: str = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return plainly(self.theirs, args, kwargs, self._answered)

    def _answered(self, *args: Any, **kwargs: Any) -> Any:
        if self.plain and not kwargs and (_is_traced(args) or not has_array(args)):
            return self._loop([asarray(x) for x in args])
        return adopt(self.theirs(*args, **kwargs))

    def _loop(self, operands: list[Array]) -> Any:
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        rows = [reshape(broadcast_to(x, shape), (-1,)) for x in operands]
        results = [self.pyfunc(*[row[i] for row in rows]) for i in range(rows[0].size)]
        if results and isinstance(results[0], tuple):
            return tuple([reshape(stack(list(parts)), shape) for parts in zip(*results, strict=True)])
        return reshape(stack(results), shape)


OBJECTS: dict[str, Any] = {
    "c_": _Joining(c_, np.c_),
    "ndarray": ndarray,
    "r_": _Joining(r_, np.r_),
    "vectorize": vectorize,
}
