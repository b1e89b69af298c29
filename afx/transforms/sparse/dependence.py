"""Dependence of a graph's outputs on its inputs: patterns that follow its equations, with ops tried where no rule tells."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afx.core import Aval, Primitive, bind, to_array, wrap
from afx.core.graph import Equation, Graph, Literal
from afx.core.tracing.traces import GraphTrace
from afx.ops import asarray
from afx.transforms._arguments import zero_like
from afx.transforms.derivatives.cotangent_masks import mixed_axes
from afx.transforms.derivatives.grad import vjp
from afx.transforms.sparse.pattern import Dependence, Ints, Pattern, joined
from afx.transforms.vmap import vmap

# --- Probing: the pattern of a linear op, from runs on indices and noise
#
# An op that only moves data, run on the indices of its operand's elements, gives the source of each element of its
# result. Run on noise too, it shows whether it does nothing else. The transpose of an op that adds elements up is
# tried in the same way, and shows where each element of the operand goes to.

Edges = tuple[Ints, Ints]  # elements of the result, and the elements of the operand that they read

FEW = 64  # elements of a kernel that are tried one by one


@functools.lru_cache(maxsize=4)
def noise(size: int) -> Any:
    """Return normal random numbers, the same at each call."""
    numbers = np.random.default_rng(5).normal(size=size)
    numbers.flags.writeable = False
    return numbers


def _factor(aval: Aval) -> Any:
    """Return the factor that makes a trial complex where the operand is: parts and conjugates keep its real part."""
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
    pulled = [np.real(np.asarray(pullback(wrap(t.astype(out.dtype)))[0])).reshape(-1) for t in _trials(out.aval)]
    places = _sources(pulled[0], pulled[1], out.size)
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
    all_edges: list[Edges] = []
    for place in places:
        kernel = np.zeros(aval.size)
        kernel[place] = 1
        edges = probe_permutation(p, k, [kernel.reshape(aval.shape)] * 2, avals[k], params)
        if edges is None:
            return None
        all_edges += edges
    return all_edges


def by_matrix(p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]) -> Edges:
    """Return what the output of a linear op reads of operand k, from its matrix in full."""

    def fn(x: Any) -> Any:
        return bind(p, *operands[:k], x, *operands[k + 1 :], **params)

    basis = (np.eye(aval.size) * _factor(aval)).reshape(aval.size, *aval.shape)
    columns = np.asarray(vmap(fn)(basis))
    ins, outs = np.nonzero(columns.reshape(aval.size, columns[0].size))
    return outs, ins


# --- Dependency propagation: the inputs that each output of a graph depends on, from the records of its primitives
#
# Nothing here names an op but the product of matrices. An elementwise op reads its operands at the same position.
# What a linear one reads is found out by running it (see `afx.transforms.sparse.pattern`). Ops of one operand with an
# ``axis`` mix along it. Loops are followed step by step, branches into each of them. What remains depends on
# everything that its operands depend on.

Found = Pattern | None

LONG = 5000  # equations in all the steps of a loop, up to which it is followed
SMALL = 1 << 22  # elements of a matrix that is computed in full to see its entries


def dependence(graph: Graph, known: Mapping[int, Pattern]) -> list[Found]:
    """Return the pattern of each output of a graph, given those of some inputs by their variables' numbers."""
    patterns = dict(known)
    values = {v.index: c.value for v, c in graph.constants}
    reads = Counter(a.index for eq in graph.equations for a in eq.inputs if not isinstance(a, Literal))
    reads.update(a.index for a in graph.outputs if not isinstance(a, Literal))
    for eq in graph.equations:
        if not any(not isinstance(a, Literal) and a.index in patterns for a in eq.inputs):
            _fold(eq, values)
            continue
        for var, pattern in zip(eq.outputs, _propagate(eq, patterns, values), strict=True):
            if pattern is not None and var.aval.dtype.kind in "fc":
                patterns[var.index] = pattern
        for atom in eq.inputs:
            if not isinstance(atom, Literal):
                reads[atom.index] -= 1
                if not reads[atom.index]:  # its sets may be forgotten
                    patterns.pop(atom.index, None)
    return [None if isinstance(a, Literal) else patterns.get(a.index) for a in graph.outputs]


def _fold(eq: Equation, values: dict[int, Any]) -> None:
    """Compute an equation of constants alone, so that masks and indices are known."""
    p = eq.primitive
    xs = [a.aval.dtype.type(a.value) if isinstance(a, Literal) else values.get(a.index) for a in eq.inputs]
    plain = p.kind in ("elementwise", "linear", "nondifferentiable")
    if plain and not p.multiple_results and all(x is not None for x in xs):
        with np.errstate(all="ignore"):
            values[eq.outputs[0].index] = np.asarray(p.impl(*xs, **eq.keywords))


class _Call:
    """An equation with what is known of its operands.

    Attributes:
        patterns: of each operand, None where it depends on nothing.
        values: of each operand, None where it is unknown.
    """

    def __init__(self, eq: Equation, patterns: Mapping[int, Pattern], values: Mapping[int, Any]) -> None:
        self.p = eq.primitive
        self.params = eq.keywords
        self.ins = eq.avals
        self.outs = [v.aval for v in eq.outputs]
        self.patterns = [None if isinstance(a, Literal) else patterns.get(a.index) for a in eq.inputs]
        self.values = [np.asarray(a.value) if isinstance(a, Literal) else values.get(a.index) for a in eq.inputs]

    @property
    def moving(self) -> list[int]:
        """The operands that depend on something."""
        return [k for k, p in enumerate(self.patterns) if p is not None]

    def pattern(self, k: int) -> Pattern:
        """Return the pattern of an operand that has one."""
        pattern = self.patterns[k]
        assert pattern is not None
        return pattern

    def part(self, k: int, edges: Edges) -> Dependence:
        """Return a way in which the result reads an operand: by edges from its elements to the operand's."""
        return Dependence(self.pattern(k), *edges)


def _propagate(eq: Equation, patterns: Mapping[int, Pattern], values: Mapping[int, Any]) -> list[Found]:
    """Return the patterns of an equation's outputs."""
    call = _Call(eq, patterns, values)
    p = call.p
    if not p.is_differentiable:
        return [None] * len(call.outs)
    if p.is_elementwise:
        return [_elementwise(call)]
    for name, rule in HOLDING.items():
        if name in call.params:
            return rule(call)
    linear = p.kind in ("linear", "bilinear") or p.masking.nonnegative_linear
    if not linear:
        return _dense_along_axis(call)
    by_operand = [_linear(call, k) for k in call.moving]
    return [_together(by_operand, n) for n in range(len(call.outs))]


def _together(by_operand: Sequence[Sequence[Found]], n: int) -> Found:
    """Return the pattern of an output that reads several operands."""
    each = [f[n] for f in by_operand]
    some = [p for p in each if p is not None]
    if len(some) < 2:
        return some[0] if some else None
    size = some[0].size
    return joined(size, [Dependence(p, np.arange(size), np.arange(size)) for p in some])


# -- elementwise --
def _elementwise(call: _Call) -> Found:
    """Return the pattern of an op that reads its operands at each position."""
    shape, parts = call.outs[0].shape, list[Dependence]()
    for k in call.moving:
        if k < call.p.condition_operands:  # its derivative is 0
            continue
        ins = np.broadcast_to(np.arange(call.ins[k].size).reshape(call.ins[k].shape), shape).reshape(-1)
        alive = _alive(call, k)
        if alive is None:
            parts.append(call.part(k, (np.arange(ins.size), ins)))
        else:
            outs = np.flatnonzero(np.broadcast_to(alive, shape))
            parts.append(call.part(k, (outs, ins[outs])))
    if len(parts) == 1 and len(parts[0].outs) == parts[0].pattern.size == call.outs[0].size:  # each reads its own
        return parts[0].pattern
    return joined(call.outs[0].size, parts)


def _alive(call: _Call, k: int) -> Any:
    """Return where a choice takes an operand, or a constant factor leaves it, None for everywhere."""
    if call.p.algebra.canonical == "select" and call.values[0] is not None:
        return np.asarray(call.values[0], bool) == (k == 1)
    if call.p.lowering.ufunc is np.multiply and call.values[1 - k] is not None:
        return call.values[1 - k] != 0
    return None


# -- linear --
def _linear(call: _Call, k: int) -> list[Found]:
    """Return the patterns of the outputs of a linear op as far as they read operand k."""
    if call.p.algebra.canonical == "cast":
        return [call.pattern(k)]
    if call.p.name == "matmul":
        return [_product(call, k)]
    if call.p.kind == "bilinear":
        kernel = by_kernel(call.p, k, call.values[1 - k], call.ins, call.params)
        if kernel is None:
            return _small_or_mixed(call, k)
        return [joined(call.outs[0].size, [call.part(k, e) for e in kernel])]
    operands = _others(call, k)
    if operands is None:
        return _dense(call)
    places = probe_permutation(call.p, k, operands, call.ins[k], call.params)
    if places is not None:
        return [joined(a.size, [call.part(k, e)]) for a, e in zip(call.outs, places, strict=True)]
    sums = None if call.p.multiple_results else probe_transpose(call.p, k, operands, call.ins[k], call.params)
    if sums is not None:
        return [joined(call.outs[0].size, [call.part(k, sums)])]
    return _small_or_mixed(call, k)


def _others(call: _Call, k: int) -> list[Any] | None:
    """Return operands for a trial: indices as they are known, zeros for other arrays; None where an index is not."""
    operands: list[Any] = []
    for j, (aval, value) in enumerate(zip(call.ins, call.values, strict=True)):
        if aval.dtype.kind in "fc":
            operands.append(np.zeros(aval.shape))
        elif value is None and j != k:
            return None
        else:
            operands.append(value)
    return operands


def _small_or_mixed(call: _Call, k: int) -> list[Found]:
    """Return the patterns of a linear op that adds elements up: from its matrix if that is small, else by its axis."""
    operands = _others(call, k)
    small = call.ins[k].size * call.outs[0].size <= SMALL
    if operands is None or call.p.multiple_results or len(call.moving) > 1 or not small:
        return _dense_along_axis(call)
    if call.p.kind == "bilinear":
        other, aval = call.values[1 - k], call.ins[1 - k]
        operands[1 - k] = noise(aval.size).reshape(aval.shape) if other is None else other
    edges = by_matrix(call.p, k, operands, call.ins[k], call.params)
    return [joined(call.outs[0].size, [call.part(k, edges)])]


def _product(call: _Call, k: int) -> Found:
    """Return the pattern of a product of matrices: rows meet columns, where a constant matrix has entries."""
    shapes = [a.shape for a in call.ins]
    full = (_as_matrix(shapes[0], True), _as_matrix(shapes[1], False))
    places = np.arange(call.ins[k].size).reshape(full[k])
    batch = np.broadcast_shapes(full[0][:-2], full[1][:-2])
    out = np.arange(call.outs[0].size).reshape(*batch, full[0][-2], full[1][-1])
    value = call.values[1 - k]
    if value is None or len(full[1 - k]) != 2:
        return _follow_contraction(call, k, places, out)
    first, last = np.nonzero(np.asarray(value).reshape(full[1 - k]))
    if k == 1:
        outs, ins = out[..., first, :], places[..., last, :]
    else:
        outs, ins = out[..., :, last], places[..., :, first]
    return joined(out.size, [call.part(k, (outs.reshape(-1), np.broadcast_to(ins, outs.shape).reshape(-1)))])


def _as_matrix(shape: tuple[int, ...], row: bool) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (1, *shape) if row else (*shape, 1)


def _follow_contraction(call: _Call, k: int, places: Ints, out: Ints) -> Found:
    """Return the pattern where each element of the product reads a whole row or column of operand k."""
    axis = places.ndim + (-2 if k == 1 else -1)
    with_ones = tuple([1 if a == axis else n for a, n in enumerate(places.shape)])
    lines = np.arange(int(np.prod(with_ones))).reshape(with_ones)
    lined = joined(lines.size, [call.part(k, (np.broadcast_to(lines, places.shape).reshape(-1), places.reshape(-1)))])
    if lined is None:
        return None
    return joined(out.size, [Dependence(lined, out.reshape(-1), np.broadcast_to(lines, out.shape).reshape(-1))])


# -- everything else --
def _dense_along_axis(call: _Call) -> list[Found]:
    """Return the patterns of an op that mixes along its axes, if it says which."""
    axes = mixed_axes(call.ins, [a.shape for a in call.outs], call.params)
    if axes is None:
        return _dense(call)
    shape, out = call.ins[0].shape, call.outs[0]
    with_ones = tuple([1 if a in axes else n for a, n in enumerate(shape)])
    lines = np.arange(int(np.prod(with_ones))).reshape(with_ones)
    ins = np.broadcast_to(lines, shape).reshape(-1)
    lined = joined(lines.size, [call.part(0, (ins, np.arange(ins.size)))])
    goal = np.broadcast_to(lines, out.shape) if out.ndim == len(shape) else lines
    return [None if lined is None else joined(out.size, [Dependence(lined, np.arange(out.size), goal.reshape(-1))])]


def _dense(call: _Call) -> list[Found]:
    """Return the patterns of an op of which nothing is known."""
    parts = list[Dependence]()
    for k in call.moving:
        whole = call.pattern(k).everything(1)
        if whole is not None:
            parts.append(Dependence(whole, np.zeros(1, np.int64), np.zeros(1, np.int64)))
    one = joined(1, parts)
    return [None if one is None else one.everything(a.size) for a in call.outs]


def _follow_rule(call: _Call) -> list[Found]:
    """Return the patterns of a function with a derivative of its own: those of the tangents that its rule gives."""
    rules = call.params["rules"]
    if rules.push is None:
        return _dense(call)
    with GraphTrace(rules.name) as trace:
        xs = [trace.input(Aval(a.shape, a.dtype)) for a in call.ins]
        ts = [
            to_array(zero_like(x)) if p is None else trace.input(x.aval) for x, p in zip(xs, call.patterns, strict=True)
        ]
        graph = trace.finish([asarray(t) for t in rules.push(xs, ts)[1]])
    entered = [v.index for v in graph.inputs[len(xs) :]]
    return dependence(graph, dict(zip(entered, [p for p in call.patterns if p is not None], strict=False)))


def _follow_branches(call: _Call) -> list[Found]:
    """Return the patterns of a choice among programs: the joined ones of all of them."""
    each = [_follow_program(b.graph, call.patterns[1:]) for b in call.params["branches"]]
    return [_together(each, n) for n in range(len(call.outs))]


def _follow_program(graph: Graph, patterns: Sequence[Found]) -> list[Found]:
    known = {v.index: p for v, p in zip(graph.inputs, patterns, strict=True) if p is not None}
    return dependence(graph, known)


def _follow_steps(call: _Call) -> list[Found]:
    """Return the patterns of a loop of known length, step by step if these are not too many."""
    params = call.params
    graph, length = params["body"].graph, params.get("length", LONG)
    if length * (len(graph) + 1) > LONG:
        return _dense(call)
    first, count = params["counts"]
    consts, carry, xs = call.patterns[:first], call.patterns[first : first + count], call.patterns[first + count :]
    steps: list[list[Found]] = []
    for t in range(length)[:: -1 if params["reverse"] else 1]:
        rows = [None if x is None else x.part(t, length) for x in xs]
        patterns = _follow_program(graph, [*consts, *carry, *rows])
        carry = patterns[:count]
        steps.append(patterns[count:])
    columns = zip(*steps[:: -1 if params["reverse"] else 1], strict=True) if steps else [()] * len(call.outs[count:])
    return [*carry, *[_stack_rows(c, a.size) for c, a in zip(columns, call.outs[count:], strict=True)]]


def _stack_rows(rows: Sequence[Found], size: int) -> Found:
    """Return the pattern of rows behind one another."""
    each = size // max(len(rows), 1)
    parts = [Dependence(p, np.arange(each) + t * each, np.arange(each)) for t, p in enumerate(rows) if p is not None]
    return joined(size, parts)


# Ops that hold programs, by the parameter that holds them.
HOLDING = {"rules": _follow_rule, "branches": _follow_branches, "body": _follow_steps}
