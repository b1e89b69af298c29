"""Reverse mode: `vjp`, on which `grad` and the Jacobians stand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

import numpy as np

from afx import pytree
from afx.core.array.array import Array, snapshot
from afx.core.aval import Aval, aval_of
from afx.core.primitive import Value
from afx.core.tracing.debug_nans import OPEN_BLOCKS, LocatedTape, at, debugging, has_nan
from afx.core.tracing.tape import Tape, TapeTracer
from afx.core.tracing.tracer import Tracer, is_known, to_array, to_lower_level
from afx.pytree.compare import check_matching, check_structure
from afx.transforms._arguments import (
    check_callable,
    direction_aval,
    moving_leaves,
    name_of,
    pair_of,
    result_tree,
    untraced,
)
from afx.transforms.derivatives.backward_pass import FAILED, backward, backward_with_masks
from afx.transforms.derivatives.nan_check import check_nan

__all__ = ["vjp"]

NEEDS_MASKS: set[tuple[str, int]] = set()  # tapes, by name and length, whose choices left out what is not finite
MOST_NAMES = 256

R = TypeVar("R")
A = TypeVar("A")
Ts = TypeVarTuple("Ts")


def enter_tape(tape: Tape, leaves: list[Any], moving: list[bool] | None) -> list[Any]:
    """Return the leaves as inputs of a tape, those that are not differentiated (None: all are) as they are."""
    if moving is None:
        return [tape.input(x) for x in leaves]
    return [tape.input(x) if m else untraced(x) for x, m in zip(leaves, moving, strict=True)]


class Linearization:
    """A function's run on a tape: its outputs, and what pulls cotangents back through it."""

    __slots__ = ("again", "inputs", "moving", "tape")

    def __init__(self, name: str) -> None:
        self.tape: LocatedTape | Tape = LocatedTape(name) if OPEN_BLOCKS and debugging() else Tape(name)
        self.inputs: list[TapeTracer] = []
        self.moving: list[bool] | None = None
        self.again: Callable[[LocatedTape], object] | None = None

    def enter(self, leaves: list[Any], moving: list[bool] | None = None) -> list[Any]:
        """Enter the leaves that are differentiated (all, where ``moving`` is None); return all as the function gets them."""
        self.moving = moving
        entered = enter_tape(self.tape, leaves, moving)
        self.inputs = entered if moving is None else [x for x, m in zip(entered, moving, strict=True) if m]
        return entered

    def owns(self, x: Any) -> bool:
        """Tell whether an output depends on the inputs."""
        return isinstance(x, TapeTracer) and x._trace is self.tape

    def plain(self, x: Any) -> Any:
        """Return an output for the caller: the value of a tracer of this tape, everything else as it is."""
        return to_array(x._value) if self.owns(x) else x

    def pull(self, outputs: list[Any], cts: list[Value]) -> list[Value]:
        """Return the cotangents of all leaves (None for zero) from those of the outputs."""
        found = self._pull_inputs(outputs, cts)
        if self.moving is None:
            return found
        rest = iter(found)
        return [next(rest) if m else None for m in self.moving]

    def _pull_inputs(self, outputs: list[Any], cts: list[Value]) -> list[Value]:
        seeds: dict[int, Value] = {}
        for out, ct in zip(outputs, cts, strict=True):
            if isinstance(ct, Tracer):
                self.tape.is_ground = False
            index = out._index
            seeds[index] = seeds[index] + ct if index in seeds else ct
        found = self._pull_without_masks(seeds)
        if found is not None:
            return found
        try:
            cts = backward(self.tape, seeds)
            found = [cts[t._index] for t in self.inputs]
            if (
                isinstance(self.tape, LocatedTape)
                and any(map(has_nan, found))
                and not any(map(has_nan, seeds.values()))
            ):
                self.tape.checks = True  # the walk is repeated, and raises where the first nan arises
                backward(self.tape, seeds)
        except Exception as error:
            self._locate(error)
            raise
        return found

    def pull_masked(self, outputs: list[Any], cts: list[Value], masks: list[Value]) -> tuple[list[Value], list[Value]]:
        """Return the cotangents of the inputs, and where these are alive: None for everywhere, or without a cotangent."""
        seeds: dict[int, Value] = {}
        given: dict[int, Value] = {}
        self.tape.is_ground = self.tape.is_ground and not any(isinstance(x, Tracer) for x in (*cts, *masks))
        for out, ct, mask in zip(outputs, map(to_lower_level, cts), map(to_lower_level, masks), strict=True):
            index = out._index
            given[index] = given[index] | mask if index in seeds else mask
            seeds[index] = seeds[index] + ct if index in seeds else ct
        found, marks = backward_with_masks(self.tape, seeds, given)
        indices = [t._index for t in self.inputs]
        return [found[k] for k in indices], [
            marks[k].get() if k in marks and not marks[k].is_whole() else None for k in indices
        ]

    def _pull_without_masks(self, seeds: dict[int, Value]) -> list[Value] | None:
        """Return the cotangents of the inputs without masks, which cost; None where one could be nan.

        Only 0·inf and 0·nan need masks, and both show in the result: so the walk is repeated with them if they do, and
        where NumPy would warn, which the masks may forbid. A function that needed them is not tried again soon.
        """
        tape = self.tape
        asked = tape.has_selections or (tape.has_choices and (tape.name, len(tape.entries)) not in NEEDS_MASKS)
        if not asked or isinstance(tape, LocatedTape) or not all(is_known(t._value) for t in self.inputs):
            return None
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                cts = backward(tape, seeds, use_masks=False)
        except Exception:  # raised again by the walk that follows
            found = None
        else:
            found = [cts[t._index] for t in self.inputs]
            found = found if all(ct is None or _is_finite(ct) for ct in found) else None
        if found is None:
            if len(NEEDS_MASKS) >= MOST_NAMES:
                NEEDS_MASKS.clear()
            NEEDS_MASKS.add((tape.name, len(tape.entries)))
        return found

    def _locate(self, error: Exception) -> None:
        """Add the user's forward line to an error of the backward pass, by running the function once more."""
        index: int = error.__dict__.pop(FAILED, -1)
        if index < 0:
            return
        tape = LocatedTape(self.tape.name)
        if self.again is not None:
            with contextlib.suppress(Exception):
                self.again(tape)
        p = self.tape.entries[index].primitive
        source = tape.sources.get(index)
        error.add_note(f"{self.tape.name}: in the backward pass of {p.name if p else 'an input'}{at(source)}")


@overload
def vjp(
    fn: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False
) -> tuple[R, Callable[[R], tuple[*Ts]]]: ...
@overload
def vjp(
    fn: Callable[[*Ts], tuple[R, A]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[[R], tuple[*Ts]], A]: ...
def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:  # type: ignore[misc]  # mypy takes no *Any for *Ts
    """Return ``fn(*primals)`` and the function that pulls a cotangent of the result back to the arguments.

    Args:
        fn: a function of pytrees of floating or complex arrays that returns such a pytree.
        *primals: the point at which it is differentiated.
        has_aux: whether ``fn`` returns ``(result, aux)``; aux, any pytree, comes third, with plain values.

    Returns:
        The result, and ``pullback(ct)``, which takes a cotangent of the result's structure, shapes and dtypes, and
        gives a tuple with one cotangent tree per argument. It can be called any number of times. Integers, booleans
        and `non_trainable` fields inside of a tree are not differentiated: their cotangents are zeros of their dtype.

    Raises:
        DtypeError: an argument is an array of integers; the message names its path.
        ArgumentError: there are no arrays among the arguments, or ``fn`` is not a function.

    >>> import afx
    >>> y, pullback = vjp(afx.sin, afx.zeros(2))
    >>> pullback(afx.ones(2))
    (Array([1., 1.], dtype=float32),)
    """
    return pullback_of(fn, primals, has_aux)


def pullback_of(fn: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    """Return what `vjp` returns."""
    check_callable(fn, "vjp")
    leaves, treedef = pytree.flatten(primals)
    moving = moving_leaves(leaves, treedef, "vjp", _argument, arguments=True)
    record = Linearization(f"vjp of {name_of(fn)}")
    record.again = lambda tape: fn(*pytree.unflatten(treedef, enter_tape(tape, leaves, moving)))
    try:
        out = fn(*pytree.unflatten(treedef, record.enter(leaves, moving)))
        out, aux = pair_of(out, name_of(fn), "(result, aux)", "vjp with has_aux=True") if has_aux else (out, None)
    finally:
        record.tape.finish()
    outputs, out_tree = pytree.flatten(out)
    check_nan(f"vjp of {name_of(fn)}", fn, primals, {}, [record.plain(x) for x in outputs])

    def pullback(ct: Any) -> Any:
        cts = _matching(ct, outputs, out_tree)
        own = [k for k, x in enumerate(outputs) if record.owns(x)]
        found = record.pull([outputs[k] for k in own], [cts[k] for k in own])
        return result_tree(treedef, found, leaves)

    result = pytree.unflatten(out_tree, [record.plain(x) for x in outputs])
    return (result, pullback, strip_tracers(record, aux)) if has_aux else (result, pullback)


def strip_tracers(record: Linearization, aux: Any) -> Any:
    """Return aux with the tracers of this call replaced by their values."""
    leaves, treedef = pytree.flatten(aux)
    return pytree.unflatten(treedef, [record.plain(x) for x in leaves])


def _matching(ct: Any, outputs: list[Any], out_tree: Any) -> list[Value]:
    """Return the leaves of a cotangent, checked against the outputs they belong to."""
    cts, ct_tree = pytree.flatten(ct)
    check_structure(ct_tree, out_tree, "vjp", "the cotangent", "give it the result's structure")
    found, wanted = [direction_aval(c, "vjp") for c in cts], [_strong(x) for x in outputs]
    check_matching(found, wanted, out_tree, "vjp", "the cotangent", "give those of the result (astype)", dtypes="weak")
    return [
        to_lower_level(Array.astype(c, want.dtype))
        if isinstance(c, Array)
        else np.asarray(c).astype(want.dtype)[()]
        if have.weak
        else snapshot(c, "vjp")
        for c, have, want in zip(cts, found, wanted, strict=True)
    ]


def _strong(x: Any) -> Aval:
    aval = aval_of(x)
    return Aval(aval.shape, aval.dtype)


def _is_finite(ct: Value) -> bool:
    """Tell whether the elements of a cotangent, and their sum, are finite; unknown ones count as not."""
    if not is_known(ct):
        return False
    while isinstance(ct, Array):
        ct = ct._value
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.add.reduce(ct, None)))


def _argument(path: str) -> str:
    return f"argument {path[1:].replace(']', '', 1)}"
