"""Array: the immutable array that users hold, and ``x.at[index]``, which makes changed copies of it."""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from afx.core.array.methods import Methods
from afx.core.array.operators import Operators, answers_itself
from afx.core.aval import Aval, Shape, aval_of, operand_values
from afx.core.dtypes import KEPT, NUMBERS, SUPPORTED, DType, data_dtype
from afx.core.numpy_dispatch import array_function, array_ufunc
from afx.core.numpy_names import CPU
from afx.core.registry import FUNCTIONS
from afx.errors import AfxError, ArgumentError, ImmutableError, MissingExtraError, OperandError
from afx.pytree.nodes import is_table

# --- Updates: ``x.at[index]`` makes changed copies of an immutable array


class At:
    """What ``x.at`` gives: index it, then name the update.

    >>> import afx
    >>> afx.zeros(3).at[1].set(5.0)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._x, index)


class AtIndex:
    """An array and an index into it, waiting for the update.

    Indices may repeat: `set` keeps the last value, all others accumulate one after the other. Every index of NumPy
    works; one out of range raises `IndexError`. Values broadcast to the shape of ``x[index]`` and take x's dtype.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Any, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"<{self._x.aval}.at[{self._index!r}]: call .set(values), .add(values) …>"

    def get(self) -> Array:
        """Return ``x[index]``."""
        return FUNCTIONS.getitem(self._x, self._index)

    def set(self, values: ArrayLike) -> Array:
        """Return a copy of x with ``values`` at the index."""
        return FUNCTIONS.index_set(self._x, self._index, values)

    def add(self, values: ArrayLike) -> Array:
        """Return a copy of x with ``values`` added at the index, once per occurrence."""
        return FUNCTIONS.index_add(self._x, self._index, values)

    def subtract(self, values: ArrayLike) -> Array:
        """Return a copy of x with ``values`` subtracted at the index, once per occurrence."""
        return FUNCTIONS.index_add(self._x, self._index, FUNCTIONS.negative(values))

    def multiply(self, values: ArrayLike) -> Array:
        """Return a copy of x multiplied by ``values`` at the index, once per occurrence."""
        return FUNCTIONS.index_multiply(self._x, self._index, values)

    def divide(self, values: ArrayLike) -> Array:
        """Return a copy of x divided by ``values`` at the index, once per occurrence."""
        return FUNCTIONS.index_divide(self._x, self._index, values)

    def min(self, values: ArrayLike) -> Array:
        """Return a copy of x with the smaller of x and ``values`` at the index."""
        return FUNCTIONS.index_min(self._x, self._index, values)

    def max(self, values: ArrayLike) -> Array:
        """Return a copy of x with the larger of x and ``values`` at the index."""
        return FUNCTIONS.index_max(self._x, self._index, values)

    def apply(self, fn: Callable[[Array], ArrayLike]) -> Array:
        """Return a copy of x with ``fn(x[index])`` at the index; an index that repeats is applied once."""
        return self.set(fn(self.get()))


# --- `Array`: the immutable array that users hold

N = TypeVar("N")
Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


READ_ONLY = np.empty((2, 2))
READ_ONLY.setflags(write=False)


class Owned(np.ndarray[Any, np.dtype[Any]]):
    """Marks memory that afx allocated, on the base of the views it hands out: such a view is taken back uncopied."""


class DonatedBuffer:
    """Stands in an Array for memory that was given to a compiled function: whatever is asked of it raises."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise OperandError(
            "Array: its buffer was donated: got an argument of an earlier call of a function jitted with "
            "donate_argnums; use that call's results, or do not donate the argument"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions
            raise AttributeError(name)
        return self._refuse()

    __array__: Callable[..., Any] = _refuse
    __array_ufunc__: Callable[..., Any] = _refuse
    __array_function__: Callable[..., Any] = _refuse
    __len__: Callable[..., Any] = _refuse
    __float__: Callable[..., Any] = _refuse
    __int__: Callable[..., Any] = _refuse
    __index__: Callable[..., Any] = _refuse
    __bool__: Callable[..., Any] = _refuse


DONATED = DonatedBuffer()


class Array(Operators, Methods):
    """An immutable array: NumPy's values and manners, afx's derivatives.

    Made by `afx.asarray`, `afx.zeros` and the like, and by every operation; traced values are Arrays too. It reads
    as NumPy's (``x[1:3]``, ``x @ y``, ``np.asarray(x)``) and cannot be written: ``x.at[i].set(v)`` gives a new one.

    >>> import afx
    >>> x = afx.asarray([1.0, 2.0, 3.0])
    >>> x * 2
    Array([2., 4., 6.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_value")
    _value: Any

    __afx_leaf__ = True
    __array_priority__: float = 1000.0

    def __new__(cls) -> Array:
        """Refuse direct construction: `afx.asarray` makes arrays."""
        raise OperandError("Array: not constructed directly: got Array(...); call afx.asarray(values)")

    # -- what it is --
    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        shape: Shape = self._value.shape
        return shape

    @property
    def dtype(self) -> DType:
        """The NumPy dtype of the elements."""
        dtype: DType = self._value.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def nbytes(self) -> int:
        """The number of bytes the elements take."""
        return self.aval.nbytes

    @property
    def itemsize(self) -> int:
        """The number of bytes one element takes."""
        return self.dtype.itemsize

    @property
    def strides(self) -> Shape:
        """How many bytes lie between neighbours along each axis, where the memory is known."""
        strides: Shape = self.concrete("strides").strides
        return strides

    @property
    def aval(self) -> Aval:
        """The shape and dtype as one value."""
        value = self._value
        return Aval(value.shape, value.dtype)

    @property
    def device(self) -> str:
        """Where the elements are: ``"cpu"``."""
        return CPU

    @property
    def flags(self) -> Any:
        """NumPy's flags of a read-only array in row-major order, whatever lies in memory: ``x.flags.writeable`` is False."""
        return READ_ONLY.flags

    @property
    def at(self) -> At:
        """Functional updates: ``x.at[i].set(v)``, ``add``, ``multiply``, ``divide``, ``min``, ``max``, ``apply``."""
        return At(self)

    def __len__(self) -> int:
        if not self.shape:
            raise OperandError(f"len: an unsized object has no length: got {self.aval}; use x.size or x.item()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise OperandError(f"iter: iteration over a 0-d array: got {self.aval}; use x.item()")
        return iter(FUNCTIONS.unstack(self))

    def __contains__(self, x: object) -> bool:
        equal: Any = self == x
        return bool(equal.any() if isinstance(equal, Array) else equal)

    # -- plain Python values --
    def numpy(self, who: str = "np.asarray") -> Ndarray:
        """Return a read-only NumPy view of the elements, without copying."""
        return read_only_view(self.concrete(who))

    def concrete(self, who: str) -> Any:
        """Return the bare NumPy value for ``who``; traced arrays raise, naming it."""
        return self._value

    def item(self, *index: Any) -> Any:
        """Return the only element as a Python number, or the one at an index."""
        value = self.concrete("item")
        if index:
            return value.item(*index)
        if self.size != 1:
            raise OperandError(
                f"item: can only convert an array of size 1 to a Python scalar: got {self.aval}; index it first"
            )
        return value.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self.concrete("tolist").tolist()

    def tobytes(self, order: Literal["C", "F", "A"] = "C") -> bytes:
        """Return the bytes of the elements, by rows unless another order is asked for."""
        data: bytes = self.concrete("tobytes").tobytes(order)
        return data

    def view(self, dtype: Any) -> Array:
        """Return the bytes in another dtype, without a copy: NumPy's view in one like ``"V8"``; traced floats raise."""
        try:
            viewed: Any = np.asarray(self.concrete("view")).view(dtype)
            viewed.flags.writeable = False
            return wrap(viewed) if viewed.dtype.char in SUPPORTED else viewed
        except (TypeError, ValueError) as error:
            if isinstance(error, AfxError):
                raise
            raise OperandError(f"view: {error}: got {self.aval} as {dtype}; use astype for values") from error

    def __bool__(self) -> bool:
        value = self.concrete("bool")
        if self.size != 1:
            raise OperandError(
                f"bool: the truth value of an array with more than one element is ambiguous: got {self.aval}; call any() or all()"
            )
        return bool(value)

    def _scalar(self, who: str, convert: Callable[[Any], N]) -> N:
        value = self.concrete(who)
        if self.size != 1:
            raise OperandError(
                f"{who}: can only convert an array of size 1 to a Python scalar: got {self.aval}; index or reduce it first"
            )
        return convert(value.item())

    def __float__(self) -> float:
        return self._scalar("float", float)

    def __int__(self) -> int:
        return self._scalar("int", int)

    def __complex__(self) -> complex:
        return self._scalar("complex", complex)

    def __index__(self) -> int:
        return operator.index(self.concrete("index"))

    def __round__(self, ndigits: int | None = None) -> Any:
        return self._scalar("round", lambda v: round(v, ndigits))

    def __format__(self, spec: str) -> str:
        is_number = not self.ndim and (self.__class__ is Array or hasattr(self.__class__, "exact"))  # as NumPy's
        return format(self.item(), spec) if spec or is_number else str(self)

    # -- NumPy's protocols --
    # To type checkers ``np.sin(x)`` and ``ndarray * x`` are ndarrays: NumPy's stubs take whatever has `__array__` for one,
    # before they ask for `__array_ufunc__` (numpy/_typing/_ufunc.pyi), and know no `__array_priority__`. Without
    # `__array__` they refuse Arrays in `np.mean` and `np.concatenate`; with one of another dtype, what `np.asarray` gives.
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ndarray:
        view = self.numpy()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise OperandError(f"np.asarray: changing {view.dtype} to {np.dtype(dtype)} copies; drop copy=False")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        try:
            return array_ufunc(ufunc, method, inputs, kwargs)
        except OperandError:
            if any(map(answers_itself, inputs)):
                return NotImplemented
            raise

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        try:
            return array_function(func, args, kwargs)
        except OperandError:
            if all(issubclass(kind, (np.ndarray, Array)) for kind in types):
                raise
            return NotImplemented

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the afx module, as the Python array API standard asks, of any version up to afx's.

        Raises:
            ArgumentError: a later version, or no version.
        """
        module = sys.modules["afx"]
        if api_version not in (None, *(f"{year}.12" for year in range(2021, 2025)), module.__array_api_version__):
            raise ArgumentError(
                f"__array_namespace__: afx does not speak this version of the array API: got {api_version!r}; "
                f"it speaks {module.__array_api_version__}"
            )
        return module

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of a copy: who takes it may write into it, and ``copy=False`` cannot forbid that."""
        owned = np.array(self.concrete("__dlpack__"))
        if np.lib.NumpyVersion(np.__version__) < "2.1.0":  # which knows the older protocol alone
            return owned.__dlpack__(stream=stream)
        return owned.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __arrow_array__(self, type: Any = None) -> Any:
        """Return an array of pyarrow, which asks for it."""
        return importlib.import_module("pyarrow").array(self.concrete("__arrow_array__"), type)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a stream of Arrow's of the elements, a column: as polars, or else pyarrow, writes a NumPy array.

        Raises:
            MissingExtraError: neither is loaded.
        """
        values = self.concrete("__arrow_c_stream__")
        if polars := sys.modules.get("polars"):
            return polars.Series(values).__arrow_c_stream__(requested_schema)
        if pyarrow := sys.modules.get("pyarrow"):
            return pyarrow.chunked_array([values]).__arrow_c_stream__(requested_schema)
        raise MissingExtraError("__arrow_c_stream__: polars or pyarrow writes it: got neither; import one of them")

    # -- copies, pickles, pictures --
    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self

    def __reduce__(self) -> tuple[Callable[[Any], Array], tuple[Any]]:
        return (wrap, (np.asarray(self.concrete("pickle")),))

    def __repr__(self) -> str:
        return _repr(self._value)

    def __str__(self) -> str:
        return str(self._value)

    def _repr_html_(self) -> str:
        text = repr(self).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<div><code>{self.aval}</code><pre>{text}</pre></div>"

    if not TYPE_CHECKING:  # to a type checker there is nothing to call: it rejects the line

        def __setitem__(self, index: Any, value: Any) -> None:
            shown = _index_text(index)
            raise ImmutableError(
                f"Array: arrays cannot be written: got x[{shown}] = …; x = x.at[{shown}].set(…) makes a changed copy; "
                "libraries that write into arrays of their own: afx.interop.array_api(), examples/guides/array_api.md"
            )

        def __delitem__(self, index: Any) -> None:
            raise ImmutableError(
                "Array: elements cannot be deleted: got del x[…]; build a new array with concat or x[mask]"
            )


ArrayLike: TypeAlias = Array | np.ndarray[Any, np.dtype[Any]] | np.generic | bool | int | float | complex


def _repr(value: Any) -> str:
    if value is DONATED:
        return "Array(its buffer was donated)"
    body = np.array2string(np.asarray(value), separator=", ", prefix="Array(", suffix=")")
    shape = f", shape={value.shape}" if value.size == 0 and value.shape != (0,) else ""
    return f"Array({body}{shape}, dtype={value.dtype})"


def _index_text(index: Any) -> str:
    if isinstance(index, tuple):
        return ", ".join(_index_text(i) for i in index)  # pyright: ignore[reportUnknownVariableType]  # a user's tuple
    if type(index) is slice:
        bounds = [index.start, index.stop] if index.step is None else [index.start, index.stop, index.step]
        return ":".join(["" if b is None else str(b) for b in bounds])
    return "…" if index is Ellipsis else str(index) if isinstance(index, int) else "i"


_new = object.__new__


def wrap(value: Any) -> Array:
    """Make an Array of memory that afx owns: nothing else may write into it later."""
    x = _new(Array)
    x._value = value
    return x


def read_only_view(value: Any) -> Ndarray:
    """Return a read-only view of owned memory, marked so that afx takes it back without copying."""
    array: Ndarray = np.asarray(value)
    base: Any = array
    while type(base) is np.ndarray:
        base.flags.writeable = False
        base = base.base
    mark = array.view(Owned).view(Owned)  # twice, or NumPy would shorten the chain of bases to the unmarked one
    view: Ndarray = mark.view(np.ndarray)
    return view


def is_owned(x: Ndarray) -> bool:
    """Tell whether a NumPy array is a view of memory that afx owns, so that nobody can write into it."""
    base: Any = x
    while base is not None:
        if isinstance(base, Owned):
            return not x.flags.writeable
        base = getattr(base, "base", None)
    return False


def to_numpy_value(x: Any, who: str) -> Any:
    """Return the bare NumPy value or Python number behind an untraced operand, or raise `OperandError`.

    Memory of the caller is not copied: what keeps it beyond the call must.
    """
    kind = x.__class__
    if kind is Array:
        return x._value
    if kind is np.ndarray:
        if x.dtype.char in KEPT and x.dtype.isnative:
            return x
        return _in_own_dtype(x, who)
    if kind in NUMBERS:
        return x
    if hasattr(kind, "exact"):  # a weak array, by itself
        return x._value
    if is_table(kind):
        return to_numpy_value(operand_values(x, who), who)
    aval = aval_of(x, who)  # raises for what is not array-like
    if issubclass(kind, np.generic):
        return x if x.dtype.char in KEPT else _in_own_dtype(x, who)
    if issubclass(kind, np.ma.MaskedArray):
        raise OperandError(f"{who}: a masked array would lose its mask: got {aval}; call .filled() first")
    if issubclass(kind, np.ndarray):
        return to_numpy_value(np.asarray(x), who)
    return {"b": bool, "i": int, "f": float, "c": complex}[aval.dtype.kind](x)


def _in_own_dtype(x: Any, who: str) -> Any:
    """Return NumPy's values in the dtype that afx has for them."""
    with np.errstate(over="ignore"):
        return x.astype(data_dtype(x.dtype, who))


def snapshot(x: Any, who: str) -> Any:
    """Return a bare value that nobody else can change: the caller's memory is copied unless afx owns it."""
    value = to_numpy_value(x, who)
    return value.copy() if type(value) is np.ndarray and type(x) is not Array and not is_owned(value) else value


def capture(x: Any, who: str) -> Any:
    """Return a bare value for a graph, as `snapshot` does; one number broadcast, as in the gradient of a mean, stays that."""
    value = to_numpy_value(x, who)
    if type(value) is np.ndarray and value.size > 1 and not any(value.strides):
        return np.broadcast_to(value[(0,) * value.ndim].copy(), value.shape)
    return snapshot(x, who)
