"""Derivative checks: of custom rules, or of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, Function, aval_of, complex128, float64
from afx.errors import ArgumentError, DtypeError
from afx.ops import asarray
from afx.transforms._arguments import name_of
from afx.transforms.derivatives.grad import vjp
from afx.transforms.derivatives.jvp import jvp

__all__ = ["check_grads"]


def __dir__() -> list[str]:
    return __all__


Mode: TypeAlias = Literal["fwd", "rev"]
Values: TypeAlias = tuple[Array, ...]
Flat: TypeAlias = Callable[..., Values]
EPS = float(np.finfo(np.float64).eps)
MODES: tuple[Mode, ...] = ("fwd", "rev")


def check_grads(
    fn: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[Mode] = MODES,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-9,
    step: float = 1e-4,
    seed: int = 0,
) -> None:
    """Check the derivatives of ``fn`` at ``args`` along random directions, in float64.

    Forward mode is compared with central differences of sixth order, reverse mode with forward mode, whose adjoint
    it is: ⟨ct, J t⟩ = ⟨Jᵀ ct, t⟩ (with central differences, where forward mode is not among ``modes``). The second order
    is the same check of both first derivatives, and so on. So a rule that computes in float32 somewhere is found: what
    differences themselves lose, by rounding and by their order, is estimated and allowed beside the tolerances.

    Args:
        fn: a function of pytrees that returns a pytree of arrays; smooth in a neighbourhood of ``args``.
        args: its positional arguments; floating and complex leaves are moved, the others are kept.
        order: up to which derivatives are checked.
        modes: ``"fwd"``, ``"rev"`` or both.
        rtol: largest relative difference; for functions that compute in float32 about 1e-4.
        atol: largest absolute difference.
        step: width of the differences.
        seed: of the random directions.

    Raises:
        AssertionError: derivatives disagree; the message says which, of what order, and by how much.
        ArgumentError: ``order`` is below 1, or ``modes`` names no mode or an unknown one.
        DtypeError: no argument is floating or complex, or no result.

    >>> import afx
    >>> check_grads(lambda x, y: afx.sin(x) * y, (0.5, afx.ones(3)))
    >>> wrong = afx.custom_vjp(afx.sin, lambda x: (afx.sin(x), x), lambda x, ct: (ct * x,))
    >>> check_grads(wrong, (0.5,), order=1, modes=["rev"])
    Traceback (most recent call last):
    ...
    AssertionError: check_grads: reverse mode of sin, order 1, is not the adjoint of central differences: ...
    """
    if order < 1:
        raise ArgumentError(f"check_grads: the order is a positive number: got {order}; take 1 or more")
    if not modes or not set(modes) <= set(MODES):
        raise ArgumentError(f"check_grads: the modes are 'fwd' and 'rev': got {list(modes)}; name one or both")
    flat, points = _flatten_function(fn, args)
    if not flat(*points):
        raise DtypeError(f"check_grads: {name_of(fn)} returns nothing that has a derivative; return a floating array")
    limits = Limits(rtol, atol, step, np.random.default_rng(seed), tuple(modes))
    _check(flat, points, limits, name_of(fn), 1, order)


@attrs.frozen
class Limits:
    """What a check compares, and how closely."""

    rtol: float
    atol: float
    step: float
    rng: np.random.Generator
    modes: tuple[Mode, ...]

    def like(self, xs: Values) -> Values:
        """Return random values of these shapes and dtypes."""
        return tuple([asarray(_normal(self.rng, x)) for x in xs])

    def compare(self, result: Any, want: Any, lost: Any, what: str) -> None:
        """Raise where two values differ by more than the limits, and what is lost in computing them."""
        x, y = np.asarray(result), np.asarray(want)
        if not np.all(np.isclose(x, y, self.rtol, self.atol + np.asarray(lost), equal_nan=True)):
            raise AssertionError(
                f"check_grads: {what}: got {x}, expected {y}; mend the derivative, or allow more by rtol and atol"
            )


def _normal(rng: np.random.Generator, x: Array) -> Any:
    t = rng.normal(size=x.shape)
    return np.asarray(t + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else t, x.dtype)


def _flatten_function(fn: Function, args: Sequence[Any]) -> tuple[Flat, Values]:
    """Return ``fn`` as a function of its floating and complex leaves to those of its result, and the leaves."""
    leaves, treedef = pytree.flatten(tuple(args))
    moving = [k for k, x in enumerate(leaves) if aval_of(x, "check_grads").dtype.kind in "fc"]
    if not moving:
        got = ", ".join([str(aval_of(x)) for x in leaves])
        raise DtypeError(f"check_grads: no argument has a derivative: got {got or 'no arrays'}; give a floating one")

    def flat(*xs: Array) -> Values:
        given = list(leaves)
        for k, x in zip(moving, xs, strict=True):
            given[k] = x
        outs = pytree.leaves(fn(*pytree.unflatten(treedef, given)))
        return tuple([asarray(z) for z in outs if aval_of(z, "check_grads").dtype.kind in "fc"])

    return flat, tuple([_double(leaves[k]) for k in moving])


def _double(x: Any) -> Array:
    return asarray(x).astype(complex128 if aval_of(x).dtype.kind == "c" else float64)


def _check(fn: Flat, points: Values, limits: Limits, name: str, order: int, last: int) -> None:
    """Check one order, and the next for both first derivatives."""
    ts = limits.like(points)
    slopes, lost = _differences(fn, points, ts, limits.step)
    cts = limits.like(slopes)
    source = "central differences"
    if "fwd" in limits.modes:
        rates = jvp(fn, points, ts)[1]
        for k, (t, want, error) in enumerate(zip(rates, slopes, lost, strict=True)):
            limits.compare(t, want, error, f"forward mode of {name}, order {order}, output {k}, differs from {source}")
        slopes, source = rates, "forward mode"
        lost = [1e3 * EPS * np.abs(t) for t in map(np.asarray, rates)]
    if "rev" in limits.modes:
        rates = vjp(fn, *points)[1](cts)
        what = f"reverse mode of {name}, order {order}, is not the adjoint of {source}"
        error = sum([float(np.sum(np.abs(np.asarray(ct)) * e)) for ct, e in zip(cts, lost, strict=True)])
        limits.compare(_take_inner_product(rates, ts), _take_inner_product(cts, slopes), error, what)
    if order < last:
        firsts: dict[str, Flat] = {"fwd": lambda *xs: jvp(fn, xs, ts)[1], "rev": lambda *xs: vjp(fn, *xs)[1](cts)}
        for mode in limits.modes:
            _check(firsts[mode], points, limits, name, order + 1, last)


def _differences(fn: Flat, points: Values, ts: Values, step: float) -> tuple[Values, list[Any]]:
    """Return the derivative of ``fn`` along ``ts`` by central differences of sixth order, and what they lose."""

    def at(steps: int) -> list[Any]:
        return [np.asarray(z) for z in fn(*[x + steps * step * t for x, t in zip(points, ts, strict=True)])]

    slopes: list[Array] = []
    lost: list[Any] = []
    for z, *around in zip(at(1), at(-1), at(2), at(-2), at(3), at(-3), strict=True):
        a, b, c = z - around[0], around[1] - around[2], around[3] - around[4]
        slope = (45.0 * a - 9.0 * b + c) / (60.0 * step)
        order_4 = (8.0 * a - b) / (12.0 * step)
        # at a kink the orders differ widely
        truncated = np.minimum(np.abs(slope - order_4), 1e-6 * (1 + np.abs(slope)))
        rounded = 16 * EPS * np.max(np.abs(z), initial=0.0) / step
        slopes.append(asarray(slope))
        lost.append(truncated + rounded)
    return tuple(slopes), lost


def _take_inner_product(xs: Values, ys: Values) -> float:
    """Return the real part of the sum of products."""
    return float(sum([np.sum(np.asarray(x) * np.asarray(y)) for x, y in zip(xs, ys, strict=True)]).real)
