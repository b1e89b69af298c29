"""What type checkers know of optimizers: parameters and states keep their types."""

from typing import Any, assert_type

import attrs

import afx
from afx import Array, optim


@attrs.frozen
class Line:
    slope: Array
    intercept: Array


def loss(line: Line, x: Array) -> Array:
    return afx.sum((line.slope * x + line.intercept) ** 2)


def adam(line: Line, x: Array) -> None:
    optimizer = optim.adam(1e-2)
    state = optimizer.init(line)
    assert_type(state, optim.AdamState[Line])
    grads = afx.grad(loss)(line, x)
    assert_type(optimizer.step(line, grads, state), tuple[Line, optim.AdamState[Line]])
    assert_type(state.mu, Line)


def step(line: Line, state: optim.AdamState[Line], x: Array) -> tuple[Line, optim.AdamState[Line], Array]:
    value, grads = afx.value_and_grad(loss)(line, x)
    line, state = optim.adam(1e-2).step(line, grads, state, value=value)
    return line, state, value


def compiled(line: Line, x: Array) -> None:
    state = optim.adam(1e-2).init(line)
    assert_type(afx.jit(step)(line, state, x), tuple[Line, optim.AdamState[Line], Array])


def plain(line: Line) -> None:
    assert_type(optim.sgd(0.1).init(line), optim.SgdState[Line])
    assert_type(optim.rmsprop(0.1).init(line).nu, Line)
    assert_type(optim.arrayflow().init(line), optim.ArrayflowState[Line])
    assert_type(optim.arrayflow().step(line, line, optim.arrayflow().init(line), value=1.0)[0], Line)


def chained(line: Line) -> None:
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(optim.cosine_decay(0.1, 100)))
    assert_type(optimizer, optim.Chain[tuple[optim.EmptyState, optim.AdamState[Any]]])
    state: tuple[optim.EmptyState, optim.AdamState[Line]] = optimizer.init(line)
    line, state = optimizer.step(line, line, state)
    assert_type(state[1].mu, Line)
    three = optim.chain(optim.scale(2.0), optim.sgd(0.1), optim.scale_by_schedule(lambda count: 1 / (1 + count)))
    assert_type(three.init(line)[2].factor, Array)
    moments = optim.scale_by_adam()
    assert_type(moments.init(line), optim.MomentsState[Line])
    assert_type(moments.update(line, moments.init(line), line)[0], Line)
    rules = optim.chain(optim.clip_by_value(1.0), moments)
    assert_type(rules, optim.TransformationChain[tuple[optim.EmptyState, optim.MomentsState[Any]]])
    recipe = optim.chain(rules, optim.add_decayed_weights(0.1), optim.scale_by_learning_rate(0.1))
    assert_type(recipe.init(line)[2], optim.LearningRateState)
    long = optim.chain(moments, moments, moments, moments, moments, optim.sgd(0.1))
    assert_type(long.step(line, line, long.init(line))[0], Line)


def constrained(line: Line) -> None:
    masked = optim.masked(optim.scale_by_adam(), Line(afx.asarray(True), afx.asarray(False)))
    groups = optim.partition(
        {"a": optim.adam(), "b": optim.set_to_zero()}, lambda path, leaf: "a" if leaf.ndim else "b"
    )
    assert_type(groups.step(line, line, groups.init(line)), tuple[Line, optim.PartitionState])
    frozen = optim.freeze(optim.adam(), lambda line: line.slope)
    projected = optim.projected(optim.adam(), non_negative)
    assert_type(masked, optim.Masked[optim.MomentsState[Any]])
    assert_type(frozen, optim.Frozen[optim.AdamState[Any]])
    by_path = optim.freeze(optim.sgd(0.1), lambda path, leaf: path == ".slope" and leaf.ndim == 0)
    assert_type(by_path.init(line), optim.SgdState[Any])
    assert_type(projected, optim.Projected[optim.AdamState[Any]])
    state: optim.AdamState[Line] = frozen.init(line)
    line, state = frozen.step(line, line, state)
    assert_type(projected.step(line, line, projected.init(line))[0], Line)


def non_negative(line: Line) -> Line:
    return Line(afx.maximum(line.slope, 0.0), line.intercept)


def any_of_them(optimizer: optim.Optimizer[Any], line: Line) -> None:
    assert_type(optimizer.step(line, line, optimizer.init(line))[0], Line)


def several(line: Line) -> None:
    for optimizer in (optim.sgd(0.1), optim.chain(optim.clip_by_value(1.0), optim.adam())):
        any_of_them(optimizer, line)


def schedules(count: Array) -> None:
    assert_type(optim.cosine_decay(0.1, 100)(count), Array)
    assert_type(optim.warmup_cosine(0.1, 10, 100)(5), Array)
    assert_type(optim.constant(0.1)(count), Array | float)
    optim.sgd(lambda count: 0.1 / (1.0 + count))
    optim.sgd(optim.join([optim.constant(0.1), optim.linear(0.1, 0.0, 10)], [5]))


def states_of_chains(line: Line) -> None:
    clipped = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1))
    assert_type(clipped.init(line)[0], optim.EmptyState)
