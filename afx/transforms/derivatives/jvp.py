"""Forward mode: `jvp`, `linearize`, and derivatives of functions of leaves in both modes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from afx import pytree
from afx.core import Array, aval_of, is_inexact, to_array, to_lower_level, wrap
from afx.core.tracing.traces import JVPTrace, JVPTracer
from afx.errors import DtypeError, OperandError
from afx.ops import asarray, astype
from afx.pytree import Tree
from afx.pytree.trees import check_matching, check_structure
from afx.transforms._arguments import (
    check_callable,
    describe,
    direction_aval,
    moving_leaves,
    name_argument,
    name_of,
    run_of_trees,
    untraced,
    zero_like,
)
from afx.transforms.derivatives.backward_pass import leaves_out
from afx.transforms.derivatives.grad import Linearization, vjp
from afx.transforms.derivatives.nan_check import check_nan

# --- Forward mode: `jvp`

R = TypeVar("R")


def jvp(fn: Callable[..., R], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[R, R]:
    """Return ``fn(*primals)`` and its derivative along ``tangents``, in one forward pass.

    Args:
        fn: a function of pytrees of floating or complex arrays that returns such a pytree.
        primals: the arguments.
        tangents: the direction, of the same structure, shapes and dtypes, or integers for floats. Integers and booleans
            inside of a tree, and `non_trainable` fields, do not move: their tangents are not used.

    Returns:
        The result and its tangent, which has the result's structure.

    Raises:
        TreeError, ShapeError, DtypeError: a tangent does not match its argument; the message names its path.
        OperandError: primals or tangents are not a tuple.

    >>> import afx
    >>> jvp(afx.sin, (0.0,), (1.0,))
    (Array(0., dtype=float32), Array(1., dtype=float32))
    """
    pair: tuple[R, R] = run_of_trees(push, fn, primals, tangents)
    return pair


def push(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return what `jvp` does, by one pass of the function."""
    check_callable(fn, "jvp")
    for values, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(values, (tuple, list)):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
            raise OperandError(
                f"jvp: {what} are a tuple with one entry for each argument: got {describe(values)}; "
                "write jvp(fn, (x,), (t,))"
            )
    leaves, treedef = pytree.flatten(tuple(primals))
    directions, direction_tree = pytree.flatten(tuple(tangents))
    check_structure(direction_tree, treedef, "jvp", "tangents", "give them the structure of the primals")
    moving = moving_leaves(leaves, treedef, "jvp", name_argument, arguments=True) or [True] * len(leaves)
    check_tangents(leaves, directions, treedef, "jvp")
    trace = JVPTrace(f"jvp of {name_of(fn)}")
    try:
        given = zip(leaves, directions, moving, strict=True)
        inputs = [trace.input(x, _convert_tangent(t, x)) if m else untraced(x) for x, t, m in given]
        outputs, out_tree = pytree.flatten(fn(*pytree.unflatten(treedef, inputs)))
    finally:
        trace.finish()
    own = [isinstance(x, JVPTracer) and x._trace is trace for x in outputs]
    values = [to_array(x._value) if o else x for x, o in zip(outputs, own, strict=True)]
    slopes = [to_array(x._tangent) if o else wrap(zero_like(x)) for x, o in zip(outputs, own, strict=True)]
    check_nan(trace.name, lambda *xs: jvp(fn, *xs), (primals, tangents), {}, (values, slopes))
    return pytree.unflatten(out_tree, values), pytree.unflatten(out_tree, slopes)


def check_tangents(leaves: list[Any], directions: list[Any], treedef: Any, who: str) -> None:
    """Raise where a tangent has another shape or dtype than the leaf it belongs to, naming the path."""
    have, want = [direction_aval(t, who) for t in directions], [aval_of(x, who) for x in leaves]
    check_matching(have, want, treedef, who, "tangents", "give those of the primal", dtypes="weak")
    for k, (t, x) in enumerate(zip(have, want, strict=True)):
        if t.dtype.kind == "c" and x.dtype.kind != "c":
            path = pytree.paths(treedef)[k]
            raise DtypeError(f"{who}: the dtype of tangents{path} differs: got {t} for {x}; give a real number")


def _convert_tangent(tangent: Any, primal: Any) -> Any:
    """Return a tangent in its primal's dtype, where either is a Python number, or the tangent has integers."""
    have, want = aval_of(tangent), aval_of(primal)
    if have.weak and not isinstance(tangent, Array):
        return want.dtype.type(tangent)
    is_cast = have.weak or (have.dtype != want.dtype and (want.weak or have.dtype.kind in "biu"))
    return astype(tangent, want.dtype) if is_cast else tangent


# --- Linearization: a function's derivative at a point, as a function that is cheap to call again


def linearize(fn: Callable[..., R], *primals: Tree) -> tuple[R, Callable[..., R]]:
    """Return ``fn(*primals)`` and its derivative there, a linear function of tangents.

    The function runs once, on a tape. Its derivative is the transpose of its pullback, which is linear itself, so that
    each further call walks a tape and runs ``fn`` no more.

    Args:
        fn: a function of pytrees of floating arrays; integers and booleans in its result have tangents of 0.
        *primals: the point.

    Returns:
        The result, and ``push(*tangents)``: one tangent tree per argument to the tangent of the result.

    >>> import afx
    >>> y, push = linearize(afx.square, afx.asarray([1.0, 2.0]))
    >>> push(afx.ones(2))
    Array([2., 4.], dtype=float32)
    """
    check_callable(fn, "linearize")
    inputs, in_tree = pytree.flatten(primals)
    all_outputs: list[Any] = []

    @functools.wraps(fn, assigned=("__name__", "__qualname__"), updated=())
    def floating(*args: Any) -> list[Any]:
        leaves, treedef = pytree.flatten(fn(*args))
        all_outputs[:] = [treedef, leaves]
        return [x for x in leaves if is_inexact(aval_of(x).dtype)]

    values, pullback = vjp(floating, *primals)
    out_tree, outputs = all_outputs
    smooth = [is_inexact(aval_of(x).dtype) for x in outputs]
    transpose = vjp(pullback, [wrap(zero_like(x)) for x in values])[1] if values else None

    def push(*tangents: Any) -> R:
        directions, tree = pytree.flatten(tangents)
        check_structure(tree, in_tree, "linearize", "tangents", "give them the structure of the primals")
        check_tangents(inputs, directions, in_tree, "linearize")
        slopes: Any = iter(transpose(tangents)[0] if transpose else ())
        tangents_out = [
            to_array(next(slopes)) if s else wrap(zero_like(x)) for s, x in zip(smooth, outputs, strict=True)
        ]
        result: R = pytree.unflatten(out_tree, tangents_out)
        return result

    rest = iter(values)
    return pytree.unflatten(out_tree, [next(rest) if s else x for s, x in zip(smooth, outputs, strict=True)]), push


# --- Flat functions: functions of leaves, and their derivatives along all inexact leaves

Leaves = Sequence[Any]
Flat = Callable[..., Leaves]
Push = Callable[[Leaves, Leaves], tuple[Leaves, Leaves]]
Backward = Callable[[Leaves, Leaves], Leaves]
MaskedBackward = Callable[[Leaves, Leaves, Leaves], tuple[Leaves, Leaves]]


class Flattened:
    """A function of pytrees as a function of leaves; it remembers the structure of its last result.

    Attributes:
        fn: the function.
        treedef: the structure of its arguments, by position and by name.
        is_flat: whether these are its leaves: arrays, by position.
        out_tree: the structure of its last result.
    """

    __slots__ = ("fn", "is_flat", "out_tree", "treedef")

    def __init__(self, fn: Callable[..., Any], treedef: Any, *, flat: bool = False) -> None:
        self.fn: Callable[..., Any] = fn
        self.treedef: Any = treedef
        self.is_flat: bool = flat
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the leaves of the result."""
        args, kwargs = self.arguments(leaves)
        outs, self.out_tree = pytree.flatten(self.fn(*args, **kwargs))
        return outs

    def arguments(self, leaves: Leaves) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments by position and by name that have these leaves."""
        if self.is_flat:
            return tuple(leaves), {}
        arguments: tuple[tuple[Any, ...], dict[str, Any]] = pytree.unflatten(self.treedef, list(leaves))
        return arguments

    def result(self, outs: Leaves) -> Any:
        """Return the result that has these leaves."""
        return pytree.unflatten(self.out_tree, list(outs))


def pull_through(fn: Flat, xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the inexact ones of ``xs`` through a flat function, None for the others.

    Outputs without a cotangent (None) count for nothing, and what they alone read has none either.
    """
    return _pull(*_recorded(fn, xs), cts)


def _pull(record: Linearization, outs: list[Array], moving: list[bool], cts: Sequence[Any]) -> list[Any]:
    own = [k for k, z in enumerate(outs) if cts[k] is not None and record.owns(z)]
    gradients = record.pull([outs[k] for k in own], [to_lower_level(cts[k]) for k in own])
    if len(gradients) == len(moving):
        return gradients
    rest = iter(gradients)
    return [next(rest) if m else None for m in moving]


def pull_masked(fn: Flat, xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return what `pull_through` does for cotangents with masks, and the masks of the inexact ones of ``xs``."""
    record, outs, moving = _recorded(fn, xs)
    own = [k for k, z in enumerate(outs) if record.owns(z)]
    gs, alive = record.pull_masked(*[[part[k] for k in own] for part in (outs, cts, masks)])
    gradients, marks = iter(gs), iter(alive)
    return [next(gradients) if m else None for m in moving], [next(marks) if m else None for m in moving]


def _recorded(fn: Flat, xs: Sequence[Any]) -> tuple[Linearization, list[Array], list[bool]]:
    """Return the record of a flat function's run, its outputs, and which of ``xs`` are inexact: the record's inputs."""
    moving = [x.dtype.kind in "fc" for x in xs]
    record = Linearization("backward pass")
    try:
        if all(moving):
            results = fn(*record.enter(list(xs)))
        else:
            entered = iter(record.enter([x for x, m in zip(xs, moving, strict=True) if m]))
            results = fn(*[next(entered) if m else x for x, m in zip(xs, moving, strict=True)])
        outs = [z if isinstance(z, Array) else asarray(z) for z in results]
    finally:
        record.tape.finish()
    return record, outs, moving


def push_through(fn: Flat, xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return outputs and tangents of a flat function along the tangents of its inexact inputs."""
    moving = [aval_of(x).dtype.kind in "fc" for x in xs]

    def of_moving(*ys: Any) -> list[Array]:
        values = iter(ys)
        return [asarray(z) for z in fn(*[next(values) if m else x for x, m in zip(xs, moving, strict=True)])]

    if not any(moving):
        outs = of_moving()
        return outs, [to_array(zero_like(z)) for z in outs]
    chosen = [(x, t) for x, t, m in zip(xs, ts, moving, strict=True) if m]
    return jvp(of_moving, tuple([x for x, _ in chosen]), tuple([t for _, t in chosen]))


class Transposed:
    """The backward rules, plain and with masks, of a forward rule: its pullback along the tangents.

    Args:
        push: (leaves, tangents) to (outputs, output tangents), linear in the tangents.
    """

    __slots__ = ("_left_out", "_push")

    def __init__(self, push: Push) -> None:
        self._push: Push = push
        self._left_out: bool = False

    def left_out(self) -> bool:
        """Tell whether the forward rule left elements of its operands out, by a choice or a selection, in any run."""
        return self._left_out

    def backward(self, xs: Leaves, cts: Leaves) -> Leaves:
        """Return the cotangents of the leaves; outputs without one (None) count for nothing."""
        record, outs, moving = _recorded(self._tangents(xs, cts), _zeros(xs))
        self._left_out = self._left_out or leaves_out(record.tape.entries)
        return _pull(record, outs, moving, cts)

    def masked(self, xs: Leaves, cts: Leaves, masks: Leaves) -> tuple[Leaves, Leaves]:
        """Return cotangents of the leaves and their masks from those of the outputs."""
        return pull_masked(self._tangents(xs, cts), _zeros(xs), cts, masks)

    def _tangents(self, xs: Leaves, cts: Leaves) -> Flat:
        return lambda *ts: [_alike(t, c) for t, c in zip(self._push(xs, ts)[1], cts, strict=True)]


def _zeros(xs: Leaves) -> list[Array]:
    return [to_array(zero_like(x)) for x in xs]


def _alike(tangent: Any, ct: Any) -> Any:
    """Return a tangent in the dtype of its cotangent: numbers that came as residuals are arrays now."""
    if ct is None or (isinstance(tangent, Array) and tangent.dtype is ct.dtype):
        return tangent
    return astype(tangent, aval_of(ct).dtype)
