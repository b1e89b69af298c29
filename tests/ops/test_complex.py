"""Complex numbers in every op that takes them: differences in complex directions, and the convention of cotangents.

A cotangent ``c`` of ``z`` stands for the real form ``t ↦ Re Σ c·t``: without conjugation. Reverse mode is right when it
keeps that number, ``Re Σ ct·(J t) = Re Σ (Jᵀ ct)·t``, for all complex directions ``t``.
"""

from typing import Any

import numpy as np
import pytest

import afx
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from tests.ops import samples as made
from tests.ops.domains import is_smooth
from tests.ops.samples import RNG, Sample, call, normal_like, outputs

EPS = 1e-6
# Vectors of these are unique up to a phase only; tests/ops/linalg/test_factorizations.py differentiates what does not show it.
PHASES = {"eig", "eigh", "svd"}
# The functions above these give all their operands one dtype.
ALIKE = {"conv", "conv_input", "conv_kernel", "correlate", "index_add", "index_multiply", "index_set", "slice_add"}
ALIKE |= {"hermitian_function", "slice_set", "solve_banded", "solve_sylvester", "sparse_solve"}


def _imaginary(x: Any, symmetric: bool) -> Any:
    """Return an operand with imaginary parts added, which keep a symmetric matrix Hermitian."""
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x
    t = RNG.uniform(0.2, 0.6, x.shape)
    return x + 1j * ((t - t.swapaxes(-1, -2)) / 2 if symmetric else t)


def _accepted(p: Primitive, sample: Sample) -> bool:
    try:
        outputs(p, p.abstract_eval(*[aval_of(x) for x in sample.operands], **sample.params))
    except afx.errors.AfxError:
        return False
    return True


def _cases() -> list[Any]:
    """Return each call of a differentiable op with its real operands, or one of them, made complex."""
    cases: list[Any] = []
    for p, k, sample in made.samples():
        moving = sample.moving
        if not p.is_differentiable or not is_smooth(p) or not moving or p.name in PHASES:
            continue
        for chosen in [moving, *([[m] for m in moving] if len(moving) > 1 and p.name not in ALIKE else [])]:
            xs = [_imaginary(x, sample.symmetric) if m in chosen else x for m, x in enumerate(sample.operands)]
            mixed = Sample(tuple(xs), sample.params, sample.symmetric)
            if _accepted(p, mixed):
                cases.append(pytest.param(p, mixed, id=f"{p.name}-{k}-{''.join(map(str, chosen))}"))
    return cases


each_case = made.each_sample(_cases())


def _directions(sample: Sample) -> tuple[np.ndarray, ...]:
    found = [normal_like(x) for x in sample.points]
    return tuple((t + np.conj(t.swapaxes(-1, -2))) / 2 for t in found) if sample.symmetric else tuple(found)


@each_case
def test_forward_mode_is_the_difference(p: Primitive, sample: Sample) -> None:
    """Along complex directions forward mode is the central difference, in the dtype of the result."""
    xs, ts = sample.points, _directions(sample)

    def fn(*values: Any) -> tuple[Any, ...]:
        return call(p, sample, *sample.at(values))

    zs, slopes = afx.jvp(fn, xs, ts)
    above, below = (fn(*[x + s * EPS * t for x, t in zip(xs, ts, strict=True)]) for s in (1, -1))
    for z, slope, up, down in zip(zs, slopes, above, below, strict=True):
        assert slope.dtype == z.dtype
        if z.dtype.kind in "fc":
            difference = (np.asarray(up) - np.asarray(down)) / (2 * EPS)
            np.testing.assert_allclose(np.asarray(slope), difference, rtol=1e-6, atol=1e-7)


@each_case
def test_reverse_mode_keeps_the_product(p: Primitive, sample: Sample) -> None:
    """Reverse mode is the transpose of forward mode without conjugation, and gives real operands real cotangents."""
    xs, ts = sample.points, _directions(sample)

    def fn(*values: Any) -> tuple[Any, ...]:
        return tuple(z for z in call(p, sample, *sample.at(values)) if z.dtype.kind in "fc")

    zs, slopes = afx.jvp(fn, xs, ts)
    cts = tuple(afx.asarray(normal_like(z)) for z in zs)
    forward = sum(np.sum(np.asarray(c) * np.asarray(s)) for c, s in zip(cts, slopes, strict=True))
    for run in (fn, afx.jit(fn)):
        back = afx.vjp(run, *xs)[1](cts)
        assert [(g.shape, g.dtype) for g in back] == [(x.shape, x.dtype) for x in xs]
        reverse = sum(np.sum(np.asarray(g) * t) for g, t in zip(back, ts, strict=True))
        np.testing.assert_allclose(np.real(forward), np.real(reverse), rtol=1e-9, atol=1e-10)


@each_case
def test_second_order(p: Primitive, sample: Sample) -> None:
    """The derivative of a gradient along a complex direction is the gradient's central difference."""
    xs, ts = sample.points, _directions(sample)
    cts = [normal_like(z) for z in call(p, sample, *sample.operands)]

    def total(values: Any) -> Any:
        found = zip(call(p, sample, *sample.at(values)), cts, strict=True)
        return sum(
            [afx.real(afx.sum(z * c)) for z, c in found if z.dtype.kind in "fc"], start=afx.asarray(np.float64(0))
        )

    slope = afx.hvp(total, (xs,), (ts,))
    above, below = (afx.grad(total)(tuple(x + s * EPS * t for x, t in zip(xs, ts, strict=True))) for s in (1, -1))
    for s, up, down in zip(slope, above, below, strict=True):
        np.testing.assert_allclose(np.asarray(s), (np.asarray(up) - np.asarray(down)) / (2 * EPS), rtol=2e-5, atol=1e-6)


@each_case
def test_batches_are_loops(p: Primitive, sample: Sample) -> None:
    """Mapping the derivative over complex operands is a loop."""
    xs, ts = sample.points, _directions(sample)

    def push(xs: Any, ts: Any) -> Any:
        return afx.jvp(lambda *v: call(p, sample, *sample.at(v)), xs, ts)[1]

    pairs = [(xs, ts), (xs, tuple(-2 * t for t in ts))]
    many = [tuple(np.stack(v) for v in zip(*part, strict=True)) for part in zip(*pairs, strict=True)]
    for i in range(2):
        for z, want in zip(afx.vmap(push)(*many), push(*pairs[i]), strict=True):
            np.testing.assert_allclose(np.asarray(z)[i], np.asarray(want), rtol=1e-11, atol=1e-11)
