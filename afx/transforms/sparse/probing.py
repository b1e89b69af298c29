"""Probing: the pattern of a linear op, from runs on indices and noise.

An op that only moves data, run on the indices of its operand's elements, gives the source of each element of its
result. Run on noise too, it shows whether it does nothing else. The transpose of an op that adds elements up
is tried in the same way, and shows where each element of the operand goes to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afx.core.array.array import wrap
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.transforms.derivatives.vjp import vjp
from afx.transforms.vmap import vmap

__all__ = ["Edges", "by_kernel", "by_matrix", "probe_permutation", "probe_transpose"]

Ints = np.ndarray[Any, np.dtype[np.int64]]
Edges = tuple[Ints, Ints]  # elements of the result, and the elements of the operand that they read

FEW = 64  # elements of a kernel that are tried one by one


def noise(size: int) -> Any:
    """Return normal random numbers, the same at each call."""
    return np.random.default_rng(5).normal(size=size)


def _factor(aval: Aval) -> Any:
    """Return what makes a trial complex where the operand is: moving data keeps it, and parts and conjugates its real part."""
    return 1 + 1j if aval.dtype.kind == "c" else 1.0


def _trials(aval: Aval) -> tuple[Any, Any]:
    """Return the numbers of an array's elements, counted from 1, and noise."""
    numbers = np.arange(1.0, aval.size + 1).reshape(aval.shape)
    return numbers * _factor(aval), noise(aval.size).reshape(aval.shape) * _factor(aval)


def _run(p: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """Run an op on plain values; return the real parts of its outputs."""
    with np.errstate(all="ignore"):
        z = p.impl(*operands, **params)
    return [np.real(np.asarray(v)).reshape(-1) for v in (z if p.multiple_results else (z,))]


def _sources(numbers: Any, noisy: Any, size: int) -> Ints | None:
    """Return where each element came from, -1 for nowhere, if both trials tell the same."""
    if not np.isfinite(numbers).all():
        return None
    places = np.rint(numbers).astype(np.int64)
    if (places != numbers).any() or (places < 0).any() or (places > size).any():
        return None
    return places - 1 if (np.append(0.0, noise(size))[places] == noisy).all() else None


def probe_permutation(
    p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]
) -> list[Edges] | None:
    """Return what each output reads, if an op does nothing but move elements of operand k; ``operands`` are the others."""
    first, second = (_run(p, [*operands[:k], trial, *operands[k + 1 :]], params) for trial in _trials(aval))
    edges: list[Edges] = []
    for numbers, noisy in zip(first, second, strict=True):
        places = _sources(numbers, noisy, aval.size)
        if places is None:
            return None
        outs = np.flatnonzero(places >= 0)
        edges.append((outs, places[outs]))
    return edges


def probe_transpose(
    p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]
) -> Edges | None:
    """Return what the output reads, if each element of operand k goes to one output element at most."""

    def fn(x: Any) -> Any:
        return bind(p, *operands[:k], x, *operands[k + 1 :], **params)

    out, pullback = vjp(fn, wrap(np.zeros(aval.shape) * _factor(aval)))
    found = [np.real(np.asarray(pullback(wrap(t.astype(out.dtype)))[0])).reshape(-1) for t in _trials(out.aval)]
    places = _sources(found[0], found[1], out.size)
    if places is None:
        return None
    ins = np.flatnonzero(places >= 0)
    return places[ins], ins


def by_kernel(p: Primitive, k: int, other: Any, avals: Sequence[Aval], params: Mapping[str, Any]) -> list[Edges] | None:
    """Return what the output of a bilinear op reads of operand k, tried with each element of the other one.

    Args:
        p: the op.
        k: the operand.
        other: the value of the other operand, None where it is unknown.
        avals: of both.
        params: of the op.
    """
    aval = avals[1 - k]
    places = np.arange(aval.size) if other is None else np.flatnonzero(other)
    if len(places) > FEW:
        return None
    found: list[Edges] = []
    for place in places:
        kernel = np.zeros(aval.size)
        kernel[place] = 1
        edges = probe_permutation(p, k, [kernel.reshape(aval.shape)] * 2, avals[k], params)
        if edges is None:
            return None
        found += edges
    return found


def by_matrix(p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]) -> Edges:
    """Return what the output of a linear op reads of operand k, from its matrix in full."""

    def fn(x: Any) -> Any:
        return bind(p, *operands[:k], x, *operands[k + 1 :], **params)

    basis = (np.eye(aval.size) * _factor(aval)).reshape(aval.size, *aval.shape)
    columns = np.asarray(vmap(fn)(basis))
    ins, outs = np.nonzero(columns.reshape(aval.size, columns[0].size))
    return outs, ins
