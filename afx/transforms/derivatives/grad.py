"""Reverse mode: `vjp`, and `grad` and `value_and_grad` of a scalar function in the type of its parameters."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Aval, Tracer, Value, aval_of, is_known, snapshot, to_array, to_lower_level
from afx.core.tracing.tape import OPEN_BLOCKS, LocatedTape, Tape, TapeTracer, at, debugging, has_nan
from afx.errors import AfxError, ArgumentError
from afx.ops import asarray
from afx.pytree.nodes import is_table
from afx.pytree.trees import check_matching, check_structure
from afx.transforms._arguments import (
    UNKNOWN,
    AnyOptions,
    AuxOptions,
    Function,
    Options,
    bound_position,
    check_callable,
    check_holomorphic,
    direction_aval,
    jitted_of,
    moving_leaves,
    name_argument,
    name_of,
    named,
    pair_of,
    result_tree,
    scalar_output,
    transformed,
    untraced,
)
from afx.transforms.derivatives.backward_pass import FAILED, backward, backward_with_masks
from afx.transforms.derivatives.nan_check import check_nan

# --- Differentiated arguments: which arguments of a call a transformation differentiates


def either_argnums(argnums: Any, argnum: Any, who: str) -> Any:
    """Return the positions of arguments, given by JAX's name or by autograd's."""
    if argnum is None:
        return argnums
    if argnums is not None:
        raise ArgumentError(
            f"{who}: positions are given twice: got argnums={argnums!r} and argnum={argnum!r}; drop one"
        )
    return argnum


class DiffArguments:
    """Which arguments are differentiated: takes them out of a call, and puts traced ones there instead."""

    def __init__(
        self, fn: Callable[..., Any], argnums: int | Sequence[int] | None, argnames: str | Sequence[str], who: str
    ) -> None:
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        self.fn = fn
        self.who = who
        self.fn_name: str = name_of(fn)
        self.title: str = f"{who} of {self.fn_name}"
        self.names = names
        self.single: bool = argnums is None or isinstance(argnums, (int, np.integer))
        if argnums is None:
            self.nums: tuple[int, ...] = () if names else (0,)
        else:
            self.nums = _positions(argnums, who)
        self.count: int = len(self.nums) + len(names)
        self.takes_first: bool = self.nums == (0,) and not names
        if not self.count:
            raise ArgumentError(f"{who}: nothing to differentiate: got argnums=(); name an argument")

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
        """Return the differentiated arguments (a tuple where there are several), and how to call with traced ones."""
        args, kwargs = _with_values(args, kwargs)
        if self.takes_first:
            if not args and kwargs:
                args, kwargs = self._first_by_name(kwargs)
            if args:
                return args[0], self._calls_with_first(args[1:], kwargs)
        for n in self.names:
            if n not in kwargs:
                raise ArgumentError(
                    f"{self.who}: argnames={n!r} was not given by name to {name_of(self.fn)}; pass it so"
                )
        nums = [bound_position(n, len(args), self.fn, self.who) for n in self.nums]
        if len(set(nums)) != len(nums):
            raise ArgumentError(f"{self.who}: an argument is named twice: got argnums={self.nums}; name each once")
        fixed = list(args)
        targets = [args[n] for n in nums] + [kwargs[n] for n in self.names]

        def call(traced: Any) -> Any:
            values = (traced,) if self.count == 1 else traced
            for n, value in zip(nums, values, strict=False):
                fixed[n] = value
            return self.fn(*fixed, **kwargs | dict(zip(self.names, values[len(nums) :], strict=True)))

        call.__qualname__ = self.fn_name
        return targets[0] if self.count == 1 else tuple(targets), call

    def _calls_with_first(self, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], Any]:
        fn = self.fn

        def call(traced: Any) -> Any:
            return fn(traced, *rest, **kwargs)

        call.__qualname__ = self.fn_name
        return call

    def label(self, path: str) -> str:
        """Return the name of a leaf of the differentiated arguments for messages."""
        labels = [f"argument {n}" for n in (*self.nums, *self.names)]
        return labels[0] + path if self.count == 1 else named(path, labels)

    def _first_by_name(self, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Let a call that names every argument differentiate the function's first one."""
        bound = inspect.signature(self.fn).bind(**kwargs)
        return bound.args, bound.kwargs

    def arrange(self, gradient: Any) -> Any:
        """Return the gradient as the caller chose it."""
        if not self.names:
            return (gradient,) if self.count == 1 and not self.single else gradient
        values = (gradient,) if self.count == 1 else gradient
        named_ones = dict(zip(self.names, values[len(self.nums) :], strict=True))
        if not self.nums:
            return named_ones
        return (values[0] if self.single else values[: len(self.nums)], named_ones)


def _positions(argnums: Any, who: str) -> tuple[int, ...]:
    """Return argnums as a tuple, or raise where they are not integers."""
    positions = tuple(argnums) if isinstance(argnums, (tuple, list, range)) else (argnums,)  # pyright: ignore[reportUnknownArgumentType]  # a user's value
    if not all(isinstance(n, (int, np.integer)) for n in positions):
        raise ArgumentError(
            f"{who}: argnums are positions: got argnums={argnums!r}; give integers, and names with argnames="
        )
    return tuple(map(int, positions))


def _with_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with the values of pandas' tables, as compiled functions get them too; others as they are."""
    if any(is_table(x.__class__) for x in (*args, *kwargs.values())):
        args = tuple(map(_value_of, args))
        kwargs = {name: _value_of(x) for name, x in kwargs.items()}
    return args, kwargs


def _value_of(x: Any) -> Any:
    return asarray(x) if is_table(x.__class__) else x


# --- Reverse mode: `vjp`, on which `grad` and the Jacobians stand

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
        gradients = self._pull_inputs(outputs, cts)
        if self.moving is None:
            return gradients
        rest = iter(gradients)
        return [next(rest) if m else None for m in self.moving]

    def _pull_inputs(self, outputs: list[Any], cts: list[Value]) -> list[Value]:
        """Return the cotangents of the inputs; a nan that no seed had is searched for by a second walk."""
        seeds: dict[int, Value] = {}
        for out, ct in zip(outputs, cts, strict=True):
            if isinstance(ct, Tracer):
                self.tape.is_ground = False
            index = out._index
            seeds[index] = seeds[index] + ct if index in seeds else ct
        gradients = self._pull_without_masks(seeds)
        if gradients is not None:
            return gradients
        try:
            cts = backward(self.tape, seeds)
            gradients = [cts[t._index] for t in self.inputs]
            if (
                isinstance(self.tape, LocatedTape)
                and any(map(has_nan, gradients))
                and not any(map(has_nan, seeds.values()))
            ):
                self.tape.checks = True  # the walk is repeated, and raises where the first nan arises
                backward(self.tape, seeds)
        except Exception as error:
            self._locate(error)
            raise
        return gradients

    def pull_masked(self, outputs: list[Any], cts: list[Value], masks: list[Value]) -> tuple[list[Value], list[Value]]:
        """Return the cotangents of the inputs, and where these are alive: None for everywhere, or without a cotangent."""
        seeds: dict[int, Value] = {}
        given: dict[int, Value] = {}
        self.tape.is_ground = self.tape.is_ground and not any(isinstance(x, Tracer) for x in (*cts, *masks))
        for out, ct, mask in zip(outputs, map(to_lower_level, cts), map(to_lower_level, masks), strict=True):
            index = out._index
            given[index] = given[index] | mask if index in seeds else mask
            seeds[index] = seeds[index] + ct if index in seeds else ct
        gradients, marks = backward_with_masks(self.tape, seeds, given)
        indices = [t._index for t in self.inputs]
        return [gradients[k] for k in indices], [
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
            gradients = None
        else:
            gradients = [cts[t._index] for t in self.inputs]
            gradients = gradients if all(ct is None or _is_finite(ct) for ct in gradients) else None
        if gradients is None:
            if len(NEEDS_MASKS) >= MOST_NAMES:
                NEEDS_MASKS.clear()
            NEEDS_MASKS.add((tape.name, len(tape.entries)))
        return gradients

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
    found: tuple[Any, ...] = UNKNOWN
    jitted = None if OPEN_BLOCKS else jitted_of(fn)
    if jitted is not None:
        found = jitted.run_vjp(primals, has_aux=has_aux)
        if found is not UNKNOWN:
            return found
    check_callable(fn, "vjp")
    leaves, treedef = pytree.flatten(primals)
    moving = moving_leaves(leaves, treedef, "vjp", name_argument, arguments=True)
    if jitted is not None:
        with contextlib.suppress(AfxError):  # raised again below, in the transformation's name
            found = jitted.start_vjp(primals, leaves, treedef, moving, has_aux=has_aux)
        if found is not UNKNOWN:
            return found
    return _record_vjp(fn, primals, leaves, treedef, moving, has_aux)


def _record_vjp(
    fn: Callable[..., Any], primals: Any, leaves: list[Any], treedef: Any, moving: Any, has_aux: bool
) -> tuple[Any, ...]:
    """Return the result and pullback of a function that is run, and recorded on a tape."""
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
        cts = matching_leaves(ct, outputs, out_tree)
        own = [k for k, x in enumerate(outputs) if record.owns(x)]
        gradients = record.pull([outputs[k] for k in own], [cts[k] for k in own])
        return result_tree(treedef, gradients, leaves)

    result = pytree.unflatten(out_tree, [record.plain(x) for x in outputs])
    return (result, pullback, strip_tracers(record, aux)) if has_aux else (result, pullback)


def strip_tracers(record: Linearization, aux: Any) -> Any:
    """Return aux with the tracers of this call replaced by their values."""
    leaves, treedef = pytree.flatten(aux)
    return pytree.unflatten(treedef, [record.plain(x) for x in leaves])


def matching_leaves(ct: Any, outputs: list[Any], out_tree: Any) -> list[Value]:
    """Return the leaves of a cotangent, checked against the outputs they belong to."""
    cts, ct_tree = pytree.flatten(ct)
    check_structure(ct_tree, out_tree, "vjp", "the cotangent", "give it the result's structure")
    given, wanted = [direction_aval(c, "vjp") for c in cts], [_strong(x) for x in outputs]
    check_matching(given, wanted, out_tree, "vjp", "the cotangent", "give those of the result (astype)", dtypes="weak")
    return [
        to_lower_level(Array.astype(c, want.dtype))
        if isinstance(c, Array)
        else np.asarray(c).astype(want.dtype)[()]
        if have.weak
        else snapshot(c, "vjp")
        for c, have, want in zip(cts, given, wanted, strict=True)
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


# --- Gradients: `grad` and `value_and_grad` of a scalar function, in the type of its parameters

P = ParamSpec("P")
T = TypeVar("T")
T0 = TypeVar("T0")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
Q = ParamSpec("Q")


@overload
def value_and_grad(
    fn: Callable[Concatenate[ArrayLike, P], Array], **options: Unpack[Options]
) -> Function[Concatenate[ArrayLike, P], tuple[Array, Array]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T, P], Array], argnums: Literal[0] | None = None, **options: Unpack[Options]
) -> Function[Concatenate[T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T, P], tuple[Array, A]], argnums: Literal[0] | None = None, **options: Unpack[AuxOptions]
) -> Function[Concatenate[T, P], tuple[tuple[Array, A], T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T, P], Array], argnums: Literal[1], **options: Unpack[Options]
) -> Function[Concatenate[T0, T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, T, P], Array], argnums: Literal[2], **options: Unpack[Options]
) -> Function[Concatenate[T0, T1, T, P], tuple[Array, T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, P], Array], argnums: tuple[Literal[0], Literal[1]], **options: Unpack[Options]
) -> Function[Concatenate[T0, T1, P], tuple[Array, tuple[T0, T1]]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, T2, P], Array],
    argnums: tuple[Literal[0], Literal[1], Literal[2]],
    **options: Unpack[Options],
) -> Function[Concatenate[T0, T1, T2, P], tuple[Array, tuple[T0, T1, T2]]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T, P], tuple[Array, A]], argnums: Literal[1], **options: Unpack[AuxOptions]
) -> Function[Concatenate[T0, T, P], tuple[tuple[Array, A], T]]: ...
@overload
def value_and_grad(
    fn: Callable[Concatenate[T0, T1, P], tuple[Array, A]],
    argnums: tuple[Literal[0], Literal[1]],
    **options: Unpack[AuxOptions],
) -> Function[Concatenate[T0, T1, P], tuple[tuple[Array, A], tuple[T0, T1]]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Array], argnums: int | Sequence[int], argnames: str | Sequence[str] = (), **options: Unpack[Options]
) -> Function[Q, tuple[Array, Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Array], *, argnames: str | Sequence[str], **options: Unpack[Options]
) -> Function[Q, tuple[Array, Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, tuple[Array, A]],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    **options: Unpack[AuxOptions],
) -> Function[Q, tuple[tuple[Array, A], Any]]: ...
@overload
def value_and_grad(
    fn: Callable[Q, Any], *, argnum: int | Sequence[int], **options: Unpack[AnyOptions]
) -> Function[Q, tuple[Any, Any]]: ...
def value_and_grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes ``fn`` and its gradient together.

    Args:
        fn: returns a real scalar; traced with concrete values, so that Python control flow works.
        argnums: the positional arguments to differentiate, the first by default; a tuple of them gives a tuple of
            gradients. Each may be any pytree of floating or complex arrays.
        argnames: keyword arguments to differentiate; their gradients are in a dict by name. Together with ``argnums``
            the gradient is the pair of both.
        argnum: autograd's name of ``argnums``.
        has_aux: whether ``fn`` returns ``(scalar, aux)``; aux, any pytree, is passed on with plain values.
        holomorphic: whether ``fn`` is a complex-differentiable function of complex arguments with a complex result;
            the gradient is then its complex derivative. That it is one is the caller's promise.

    Returns:
        A function of the same arguments that returns ``(value, gradient)``, or ``((value, aux), gradient)``. The
        gradient has the structure, shapes and dtypes of what it belongs to; that of integers and booleans inside of a
        tree, and of fields marked with `non_trainable`, is zeros of their dtype. By complex numbers z = x + iy a real
        function f has the gradient ∂f/∂x - i·∂f/∂y: its conjugate is the direction of steepest ascent.

    Raises:
        ShapeError: ``fn`` does not return a scalar.
        DtypeError: what is differentiated is not floating or complex, or the result is not a real floating scalar; with
            ``holomorphic``, either is not complex.
        ArgumentError: an argument to differentiate was not given or holds no arrays, or ``fn`` is not a function.

    >>> import afx
    >>> value_and_grad(lambda x: afx.sum(x * x))(afx.ones(2))
    (Array(2., dtype=float32), Array([2., 2.], dtype=float32))
    """
    argnums = either_argnums(argnums, argnum, "value_and_grad")
    return differentiated(run_value_and_grad, fn, argnums, argnames, has_aux, holomorphic)


@overload
def grad(
    fn: Callable[Concatenate[ArrayLike, P], Array], **options: Unpack[Options]
) -> Function[Concatenate[ArrayLike, P], Array]: ...
@overload
def grad(
    fn: Callable[Concatenate[T, P], Array], argnums: Literal[0] | None = None, **options: Unpack[Options]
) -> Function[Concatenate[T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T, P], tuple[Array, A]], argnums: Literal[0] | None = None, **options: Unpack[AuxOptions]
) -> Function[Concatenate[T, P], tuple[T, A]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T, P], Array], argnums: Literal[1], **options: Unpack[Options]
) -> Function[Concatenate[T0, T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, T, P], Array], argnums: Literal[2], **options: Unpack[Options]
) -> Function[Concatenate[T0, T1, T, P], T]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, P], Array], argnums: tuple[Literal[0], Literal[1]], **options: Unpack[Options]
) -> Function[Concatenate[T0, T1, P], tuple[T0, T1]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, T2, P], Array],
    argnums: tuple[Literal[0], Literal[1], Literal[2]],
    **options: Unpack[Options],
) -> Function[Concatenate[T0, T1, T2, P], tuple[T0, T1, T2]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T, P], tuple[Array, A]], argnums: Literal[1], **options: Unpack[AuxOptions]
) -> Function[Concatenate[T0, T, P], tuple[T, A]]: ...
@overload
def grad(
    fn: Callable[Concatenate[T0, T1, P], tuple[Array, A]],
    argnums: tuple[Literal[0], Literal[1]],
    **options: Unpack[AuxOptions],
) -> Function[Concatenate[T0, T1, P], tuple[tuple[T0, T1], A]]: ...
@overload
def grad(
    fn: Callable[Q, Array], argnums: int | Sequence[int], argnames: str | Sequence[str] = (), **options: Unpack[Options]
) -> Function[Q, Any]: ...
@overload
def grad(fn: Callable[Q, Array], *, argnames: str | Sequence[str], **options: Unpack[Options]) -> Function[Q, Any]: ...
@overload
def grad(
    fn: Callable[Q, tuple[Array, A]],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    **options: Unpack[AuxOptions],
) -> Function[Q, tuple[Any, A]]: ...
@overload
def grad(fn: Callable[Q, Any], *, argnum: int | Sequence[int], **options: Unpack[AnyOptions]) -> Function[Q, Any]: ...
def grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return the function that computes the gradient of ``fn``.

    Arguments and errors are those of `value_and_grad`.

    Returns:
        A function of the same arguments that returns the gradient, or ``(gradient, aux)``.

    >>> import afx
    >>> grad(lambda x: afx.sum(x**3))(afx.asarray([1.0, 2.0]))
    Array([ 3., 12.], dtype=float32)
    >>> grad(lambda z: z**3, holomorphic=True)(afx.asarray(1.0 + 2.0j))
    Array(-9.+12.j, dtype=complex64)
    """
    argnums = either_argnums(argnums, argnum, "grad")
    return differentiated(run_grad, fn, argnums, argnames, has_aux, holomorphic)


def differentiated(
    run: Callable[..., Any],
    fn: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str],
    has_aux: bool,
    holomorphic: bool,
    who: str = "grad",
) -> Callable[..., Any]:
    """Return the function that differentiates ``fn`` by ``run``, for messages in the name of ``who``."""
    check_callable(fn, who)
    chosen = DiffArguments(fn, argnums, argnames, who)
    make = functools.partial(differentiated, run, fn, argnums, argnames, has_aux, holomorphic, who)
    derivative: Callable[..., Any] = transformed(
        functools.partial(run, chosen, has_aux, holomorphic), who, fn, make, whole=True
    )
    return derivative


def run_grad(chosen: DiffArguments, has_aux: bool, holomorphic: bool, /, *args: Any, **kwargs: Any) -> Any:
    """Return the gradient at given arguments, beside what the function gives along."""
    value, gradient = run_value_and_grad(chosen, has_aux, holomorphic, *args, **kwargs)
    return (gradient, value[1]) if has_aux else gradient


def run_value_and_grad(chosen: DiffArguments, has_aux: bool, holomorphic: bool, /, *args: Any, **kwargs: Any) -> Any:
    """Return the value and the gradient at given arguments."""
    who, fn = chosen.who, chosen.fn
    target, call = chosen.split(args, kwargs)
    leaves, treedef = pytree.flatten(target)
    moving = moving_leaves(leaves, treedef, who, chosen.label, arguments=chosen.count > 1)
    if holomorphic:
        check_holomorphic(leaves, treedef, who, chosen.label, moving)
    record = Linearization(chosen.title)
    record.again = lambda tape: call(pytree.unflatten(treedef, enter_tape(tape, leaves, moving)))
    try:
        out = call(pytree.unflatten(treedef, record.enter(leaves, moving)))
        out, aux = pair_of(out, name_of(fn), "(scalar, aux)", "grad with has_aux=True") if has_aux else (out, None)
    finally:
        record.tape.finish()
    value = scalar_output(out, fn, who, holomorphic)
    if OPEN_BLOCKS:
        check_nan(record.tape.name, fn, args, kwargs, record.plain(value))
    cts = [None] * len(leaves)
    if record.owns(value):
        cts = record.pull([value], [value.dtype.type(1)])
    gradient = chosen.arrange(result_tree(treedef, cts, leaves))
    plain = record.plain(value)
    plain = plain if isinstance(plain, Array) else asarray(plain)
    return ((plain, strip_tracers(record, aux)) if has_aux else plain), gradient
