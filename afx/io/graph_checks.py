"""Graph checks: parameters of equations in the form that traces give them, so that results are as their Avals say.

Rules of ops take parameters as public functions have made them: axes counted from the front, slices within their axis,
windows that fit. Machine code trusts the Avals that follow from them. A file may say anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np

from afx.compiler.control_flow import check_operands
from afx.core.aval import Aval
from afx.core.graph import Equation
from afx.core.primitive import lookup
from afx.errors import GraphError

__all__ = ["check_equation"]

Avals: TypeAlias = Sequence[Aval]
Params: TypeAlias = Mapping[str, Any]
_Rule: TypeAlias = Callable[[Any, Avals, str], bool]
FROM_THE_BACK: Final = frozenset(
    {"argmax", "argmin", "argsort", "fft", "ifft", "irfft", "nanargmax", "nanargmin", "rfft", "sort"}
)
WORDS: Final[Mapping[str, frozenset[str]]] = {
    "norm": frozenset({"backward", "forward", "ortho"}),
    "side": frozenset({"left", "right"}),
}


def check_equation(eq: Equation) -> None:
    """Verify an equation of a file beyond the Avals that its op gives.

    Raises:
        GraphError: parameters that no trace gives, or operands that do not fit them or the graphs they hold.
    """
    params, avals, control = eq.keywords, [atom.aval for atom in eq.inputs], eq.primitive.lowering.control
    if control is not None:
        check_operands(control(params), avals, str(eq))
        return
    if eq.primitive.name == "call":
        inputs = params["program"].graph.inputs
        _require([(a.shape, a.dtype) for a in avals] == [(v.aval.shape, v.aval.dtype) for v in inputs], "operands", eq)
        return
    for name, value in params.items():
        _require(name not in _PARAMETERS or _PARAMETERS[name](value, avals, eq.primitive.name), name, eq)
    fits = _FITS.get(eq.primitive.name)
    _require(fits is None or fits(params, avals), "operands", eq)


def _require(holds: bool, what: str, eq: Equation) -> None:
    if not holds:
        raise GraphError(f"check: {what} of `{eq}` are none that a trace gives; trace the function again")


# --- parameters, by their names


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _are_integers(value: Any, least: int) -> bool:
    return _is_tuple(value) and all(type(item) is int and item >= least for item in value)


def _is_axis(value: Any, avals: Avals, op: str) -> bool:
    axes = len(avals[0].shape) + (op == "stack")
    if _is_tuple(value):
        axes += len(value) if op == "put_into_window" else 0
        return _are_integers(value, 0) and list(value) == sorted({a for a in value if a < axes})
    if op in ("scatter", "scatter_unread"):
        return type(value) is int and value >= 0  # compared with the shape below
    return type(value) is int and (-axes <= value < 0 if op in FROM_THE_BACK else 0 <= value < axes)


def _are_pairs(value: Any, avals: Avals, op: str) -> bool:
    return _is_tuple(value) and all(_are_integers(pair, -(1 << 31)) and len(pair) == 2 for pair in value)


def _are_shifts(value: Any, avals: Avals, op: str) -> bool:
    return _are_pairs(value, avals, op) and all(0 <= axis < len(avals[0].shape) for axis, _ in value)


def _is_flag(value: Any, avals: Avals, op: str) -> bool:
    return type(value) is bool or (op == "solve_banded" and type(value) is int and 0 <= value < avals[0].shape[-2])


def _is_number(value: Any, avals: Avals, op: str) -> bool:
    return type(value) in (int, float)


def _is_word(words: frozenset[str]) -> _Rule:
    return lambda value, avals, op: value in words


_FLAGS: Final = ("full", "hermitian", "logarithm", "lower", "partial", "reverse", "unit", "upper")
_PARAMETERS: Final[Mapping[str, _Rule]] = {
    "axes": lambda v, avals, op: _are_integers(v, 0) and sorted(v) == list(range(len(avals[0].shape))),
    "axis": _is_axis,
    "dilation": lambda v, avals, op: _are_integers(v, 1),
    "dtype": lambda v, avals, op: isinstance(v, np.dtype),
    "groups": lambda v, avals, op: type(v) is int and v >= 1,
    "n": lambda v, avals, op: type(v) is int and v >= (op == "irfft"),
    "padding": _are_pairs,
    "purpose": lambda v, avals, op: type(v) is int and v >= 0,
    "shape": lambda v, avals, op: _are_integers(v, 0),
    "shifts": _are_shifts,
    "sizes": lambda v, avals, op: _are_integers(v, 0),
    "stride": lambda v, avals, op: _are_integers(v, 1),
    "window": lambda v, avals, op: _are_integers(v, 1),
    **dict.fromkeys(_FLAGS, _is_flag),
    **dict.fromkeys(("eps", "power", "rcond"), _is_number),
    **{name: _is_word(words) for name, words in WORDS.items()},
}


# --- operands, by op


def _is_index(index: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether an index has an integer or a slice within its axis for each of the first axes, and new axes between."""
    if not _is_tuple(index):
        return False
    items = [item for item in index if item is not None]
    return len(items) <= len(shape) and all(map(_is_within, items, shape))


def _is_within(item: Any, length: int) -> bool:
    if type(item) is int:
        return 0 <= item < length
    if not _are_integers(item, -(1 << 48)) or len(item) != 3 or item[2] == 0:
        return False
    places = range(*item)
    return not places or (0 <= places[0] < length and 0 <= places[-1] < length)


def _result(op: str, avals: Avals, **params: Any) -> tuple[int, ...]:
    found: Any = lookup(op).abstract_eval(*avals, **params)
    shape: tuple[int, ...] = found.shape
    return shape


def _slices(x: Aval, index: Any, part: Aval) -> bool:
    return _is_index(index, x.shape) and _result("slice", [x], index=index) == part.shape


def _gathers(x: Aval, axis: int, indices: Avals, part: Aval | None) -> bool:
    if not indices or axis + len(indices) > len(x.shape) or any(i.dtype.kind not in "iu" for i in indices):
        return False
    return part is None or _result("gather", [x, *indices], axis=axis) == part.shape


def _splits(p: Params, xs: Avals) -> bool:
    sizes: tuple[int, ...] = p["sizes"]
    axis: int = p["axis"]
    return sum(sizes) == xs[0].shape[axis]


def _joins(p: Params, xs: Avals) -> bool:
    k: int = p["axis"]
    rests = {(*x.shape[:k], *x.shape[k + 1 :]) for x in xs if len(x.shape) > k}
    return tuple([x.shape[k] for x in xs if len(x.shape) > k]) == p["sizes"] and len(rests) == 1


def _convolves(p: Params, x: Aval, kernel: Aval, result: Aval | None) -> bool:
    axes, groups = len(x.shape) - 2, p["groups"]
    lengths = {len(p[name]) for name in ("stride", "dilation", "padding")}
    if lengths != {axes} or len(kernel.shape) != len(x.shape) or x.shape[-1] != kernel.shape[-2] * groups:
        return False
    where = {name: p[name] for name in ("stride", "dilation", "padding", "groups")}
    shape = _result("conv", [x, kernel], **where)
    return kernel.shape[-1] % groups == 0 and min(shape) >= 0 and (result is None or shape == result.shape)


def _columns(p: Params, x: Aval, columns: Aval | None) -> bool:
    where = {name: p[name] for name in ("window", "stride", "dilation", "padding")}
    if {len(value) for value in where.values()} != {len(x.shape) - 2}:
        return False
    shape = _result("im2col", [x], **where)
    return min(shape) >= 0 and (columns is None or shape == columns.shape)


def _is_reduced(x: Aval, axis: tuple[int, ...], z: Aval) -> bool:
    return tuple([n for k, n in enumerate(x.shape) if k not in axis]) == z.shape


def _like(shape: Sequence[int], x: Aval) -> Aval:
    return Aval(tuple(shape), x.dtype)


_FITS: Final[Mapping[str, Callable[[Params, Avals], bool]]] = {
    "slice": lambda p, xs: _is_index(p["index"], xs[0].shape),
    "slice_set": lambda p, xs: _slices(xs[0], p["index"], xs[1]),
    "slice_add": lambda p, xs: _slices(xs[0], p["index"], xs[1]),
    "embed": lambda p, xs: _slices(_like(p["shape"], xs[0]), p["index"], xs[0]),
    "gather": lambda p, xs: _gathers(xs[0], p["axis"], xs[1:], None),
    "select": lambda p, xs: _gathers(xs[0], p["axis"], xs[1:], None),
    "scatter": lambda p, xs: _gathers(_like(p["shape"], xs[0]), p["axis"], xs[1:], xs[0]),
    "scatter_unread": lambda p, xs: _gathers(_like(p["shape"], xs[0]), p["axis"], xs[1:], xs[0]),
    **dict.fromkeys(
        ("index_add", "index_max", "index_min", "index_multiply", "index_set"),
        lambda p, xs: _gathers(xs[0], p["axis"], xs[2:], xs[1]),
    ),
    "split": _splits,
    "concat": _joins,
    "stack": lambda p, xs: len({x.shape for x in xs}) == 1,
    "reshape": lambda p, xs: _like(p["shape"], xs[0]).size == xs[0].size,
    "broadcast_to": lambda p, xs: np.broadcast_shapes(p["shape"], xs[0].shape) == p["shape"],
    "conv": lambda p, xs: _convolves(p, xs[0], xs[1], None),
    "conv_input": lambda p, xs: _convolves(p, _like(p["shape"], xs[0]), xs[1], xs[0]),
    "conv_kernel": lambda p, xs: _convolves(
        p, xs[0], _like((*p["window"], xs[0].shape[-1] // p["groups"], xs[1].shape[-1]), xs[0]), xs[1]
    ),
    "im2col": lambda p, xs: _columns(p, xs[0], None),
    "col2im": lambda p, xs: _columns(p, _like(p["shape"], xs[0]), xs[0]),
    "correlate": lambda p, xs: (
        len(xs[0].shape) == len(xs[1].shape) == 1 and (p["full"] or xs[0].size >= xs[1].size) and xs[1].size > 0
    ),
    "first_of_window": lambda p, xs: _is_reduced(xs[0], p["axis"], xs[1]),
    "pick_from_window": lambda p, xs: _is_reduced(xs[0], p["axis"], xs[1]) and xs[1].dtype.kind in "iu",
    "put_into_window": lambda p, xs: (
        xs[0].shape == xs[1].shape and xs[1].dtype.kind in "iu" and len(p["axis"]) == len(p["window"])
    ),
    "hermitian_function": lambda p, xs: len({x.shape for x in xs}) == 1,
    "random_orthogonal": lambda p, xs: len(p["shape"]) >= 2 and p["shape"][-1] == p["shape"][-2],
}
