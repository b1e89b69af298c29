"""Custom derivatives: `custom_vjp` and `custom_jvp` take rules from the user."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import Aval, aval_of
from afx.core.tracing.tracer import Tracer
from afx.errors import TreeError
from afx.ops.creation.creation import asarray
from afx.ops.manipulation.shape import astype
from afx.pytree.compare import check_matching, check_structure
from afx.transforms._arguments import check_callable, name_of, pair_of
from afx.transforms.custom_call import custom_call
from afx.transforms.custom_rules import CustomRules, push_rules
from afx.transforms.flat_functions import Flattened

__all__ = ["custom_jvp", "custom_vjp"]

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")


def custom_vjp(
    fn: Callable[P, R], forward: Callable[P, tuple[R, K]], backward: Callable[[K, R], tuple[Any, ...]]
) -> Callable[P, R]:
    """Return ``fn`` with a reverse-mode rule of your own.

    Args:
        fn: a function of pytrees of arrays.
        forward: of the same arguments, returns ``(fn(...), residuals)``: what the backward pass needs, any pytree.
        backward: ``(residuals, ct)`` to a tuple with one cotangent tree per positional argument, of its structure;
            None stands for zero. ``ct`` has the structure of the result.

    Returns:
        A function that computes as ``fn`` and differentiates by these rules, under every transformation but forward
        mode (`custom_jvp` serves both). It may close over traced arrays, unless a derivative by those is wanted. Second
        derivatives are those of ``forward`` and ``backward`` as they are written: where ``forward`` gets its result from
        the returned function itself, that result follows the rule again.

    Raises:
        TreeError, ShapeError: ``backward`` returns another structure or shape than the arguments.

    >>> import afx
    >>> clipped = custom_vjp(lambda x: x, lambda x: (x, None), lambda _, ct: (afx.clip(ct, -1.0, 1.0),))
    >>> afx.grad(lambda x: 5.0 * clipped(x))(0.0)
    Array(1., dtype=float32)
    """
    for given in (fn, forward, backward):
        check_callable(given, "custom_vjp")
    name = f"custom_vjp of {name_of(fn)}"
    ahead: Callable[..., Any] = forward

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        places, names = _by_position(fn, args, kwargs)
        leaves, treedef = _flatten_call(places, names)
        # the backward pass must not hold the arguments
        count, kinds = len(leaves), [_kinds(a, n < len(args)) for n, a in enumerate(places)]
        plain = Flattened(fn, treedef)
        structure: list[Any] = [None]

        def forward_flat(xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            new_args, new_kwargs = pytree.unflatten(treedef, list(xs))
            out, residuals = pair_of(ahead(*new_args, **new_kwargs), "forward", "(result, residuals)", name)
            outs, plain.out_tree = pytree.flatten(out)
            kept, structure[0] = pytree.flatten(residuals)
            return outs, kept

        def backward_flat(kept: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            residuals = pytree.unflatten(structure[0], list(kept))
            found = backward(residuals, pytree.unflatten(plain.out_tree, list(cts)))
            return _aligned(found, kinds, count, name)

        outs = custom_call(CustomRules(name, plain, forward_flat, backward_flat, None), leaves)
        result: R = pytree.unflatten(plain.out_tree, outs)
        return result

    return run


def _by_position(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments by position where the function takes them so, since cotangents are given by position."""
    if not kwargs:
        return args, kwargs
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    return bound.args, bound.kwargs


def _flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the leaves and the structure of ``(args, kwargs)``; quickly where each argument is an array."""
    if not kwargs and all(isinstance(x, (Array, np.ndarray)) for x in args):
        return list(args), _structure_of_arrays(len(args))
    return pytree.flatten(_any((args, kwargs)))


@functools.lru_cache(maxsize=64)
def _structure_of_arrays(count: int) -> Any:
    return pytree.structure(_any(((0.0,) * count, {})))


def _avals(xs: Sequence[Any]) -> list[Aval]:
    return [aval_of(x) for x in xs]


def _kinds(tree: Any, needed: bool) -> tuple[list[Aval], Any, bool]:
    """Return the leaves and the structure of an argument, and whether a rule has to give its cotangent."""
    leaves, treedef = pytree.flatten(tree)
    return _avals(leaves), treedef, needed or any(isinstance(x, Tracer) for x in leaves)


def _aligned(found: Any, kinds: Sequence[tuple[list[Aval], Any, bool]], count: int, name: str) -> list[Any]:
    """Return one cotangent or None per leaf of all arguments, from one tree per positional argument.

    Plain arguments that were passed by name need none, and None stands for those that were not passed at all.
    """
    if isinstance(found, tuple):
        absent = kinds[len(found) :]  # pyright: ignore[reportUnknownArgumentType]  # a user's value
        if not any(needed for *_, needed in absent):
            found = (*found, *[None] * len(absent))  # pyright: ignore[reportUnknownVariableType]  # a user's value
        if all(ct is None for ct in found[len(kinds) :]):  # pyright: ignore[reportUnknownVariableType]  # a user's value
            found = found[: len(kinds)]  # pyright: ignore[reportUnknownVariableType]  # a user's value
    if not isinstance(found, tuple) or len(found) != len(kinds):  # pyright: ignore[reportUnknownArgumentType]  # a user's value
        raise TreeError(
            f"{name}: backward returns one cotangent per argument: {len(kinds)} in a tuple: got {found!r}; "
            "return such a tuple"
        )
    flat: list[Any] = []
    for k, (ct, (avals, treedef, _)) in enumerate(zip(found, kinds, strict=True)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # a user's value
        if ct is None:
            flat += [None] * len(avals)
            continue
        cts, ct_tree = pytree.flatten(_any(ct))
        what, advice = f"the cotangent of argument {k}", "return that of the argument"
        check_structure(ct_tree, treedef, name, what, advice)
        check_matching(_avals(cts), avals, ct_tree, name, what, advice, dtypes="any")
        flat += [c if isinstance(c, Array) else asarray(c) for c in cts]
    return flat + [None] * (count - len(flat))


def _any(x: Any) -> Any:
    """Return x as a value of unknown type."""
    return x


def custom_jvp(
    fn: Callable[..., R], rule: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[R, R]]
) -> Callable[..., R]:
    """Return ``fn`` with a forward-mode rule of your own, from which reverse mode follows.

    Args:
        fn: a function of pytrees of floating arrays.
        rule: ``(primals, tangents)`` to ``(fn(*primals), tangent of the result)``; linear in the tangents. Whatever
            the rule computes its result by, every order of derivatives sees one that follows the rule.

    Returns:
        A function that computes as ``fn`` and differentiates by this rule, in every mode and order.

    >>> import afx
    >>> f = custom_jvp(afx.abs, lambda x, t: (afx.abs(x[0]), 7.0 * t[0]))
    >>> afx.grad(f)(2.0)
    Array(7., dtype=float32)
    >>> afx.grad(afx.grad(lambda x: f(x) ** 2))(2.0)
    Array(98., dtype=float32)
    """
    for given in (fn, rule):
        check_callable(given, "custom_jvp")
    name = f"custom_jvp of {name_of(fn)}"

    @functools.wraps(fn)
    def run(*args: Any) -> R:
        leaves, treedef = _flatten_call(args, {})
        plain = Flattened(fn, treedef)

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            primals, _ = pytree.unflatten(treedef, list(xs))
            tangents, _ = pytree.unflatten(treedef, list(ts))
            out, tangent = pair_of(rule(primals, tangents), "the rule", "(result, tangent)", name)
            outs, plain.out_tree = pytree.flatten(out)
            slopes, slope_tree = pytree.flatten(tangent)
            what, advice = "the tangent", "return that of the result"
            check_structure(slope_tree, plain.out_tree, name, what, advice)
            check_matching(_avals(slopes), _avals(outs), slope_tree, name, what, advice, dtypes="any")
            results = [z if isinstance(z, Array) else asarray(z) for z in outs]
            return results, [astype(t, z.dtype) for z, t in zip(results, slopes, strict=True)]

        outs = custom_call(push_rules(name, plain, push), leaves)
        result: R = pytree.unflatten(plain.out_tree, outs)
        return result

    return run
