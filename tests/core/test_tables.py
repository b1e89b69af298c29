"""Tables of pandas as data: they count as their values, in functions, losses, batches, solvers and transformations."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import data, nn, optim

pandas: Any = pytest.importorskip("pandas", reason="the neighbour is tested where it is installed")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
FRAME = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "count": np.arange(40)})
TARGET = 2.0 * FRAME["a"] - FRAME["b"] + 0.1 * FRAME["count"]
START = np.zeros(3)


def loss(w: Any, x: Any, y: Any) -> Any:
    """Return the mean squared error of a linear model, as one writes it for any arrays."""
    return afx.mean((x @ w - y) ** 2)


TRANSFORMED: dict[str, Any] = {
    "plain": loss,
    "grad": afx.grad(loss),
    "value_and_grad": afx.value_and_grad(loss),
    "jit": afx.jit(loss),
    "jit of grad": afx.jit(afx.grad(loss)),
    "grad of jit": afx.grad(afx.jit(loss)),
    "hessian": afx.hessian(loss),
    "jacfwd": afx.jacfwd(loss),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_tables_are_arguments(name: str) -> None:
    """A DataFrame and a Series give what their values give, in float64."""
    w = afx.asarray(START + 0.5)
    got = TRANSFORMED[name](w, FRAME, TARGET)
    want = TRANSFORMED[name](w, FRAME.to_numpy(), TARGET.to_numpy())
    for a, b in zip(afx.pytree.leaves(got), afx.pytree.leaves(want), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_by_name_too() -> None:
    """Arguments that are given by name count as well."""
    assert afx.grad(loss)(START, x=FRAME, y=TARGET).dtype == np.float64


OPERATORS: dict[str, Any] = {
    "array first": lambda p, s: afx.sum((p * s - s) ** 2),
    "table first": lambda p, s: afx.sum((s - s * p) ** 2),
    "NumPy's functions": lambda p, s: afx.sum(np.sin(s) * p + np.multiply(p, s)),
    "power, comparison": lambda p, s: afx.sum(afx.where(s > 0, s**2 * p, p / s)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_traced_values_are_ours(name: str) -> None:
    """A table that a function closes over meets traced values in any order, and the derivative is kept."""
    fn = OPERATORS[name]
    for transform in (afx.grad, lambda f: afx.jit(afx.grad(f))):
        got = transform(lambda p: fn(p, TARGET))(np.float64(1.5))
        want = transform(lambda p: fn(p, afx.asarray(TARGET)))(np.float64(1.5))
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_operators_with_plain_arrays_stay_pandas() -> None:
    """Outside of transformations a table keeps its index."""
    for found in (afx.ones(40) + TARGET, TARGET + afx.ones(40), afx.ones((2, 3)) @ FRAME.T):
        assert type(found).__module__.startswith("pandas")


def test_functions_and_losses_take_tables() -> None:
    """Functions of one array and of two, and losses, compute with the values."""
    assert afx.sum(TARGET) == pytest.approx(TARGET.sum())
    np.testing.assert_allclose(afx.maximum(afx.zeros(40), TARGET), np.maximum(0, TARGET))
    np.testing.assert_allclose(nn.mse(afx.asarray(TARGET), TARGET + 1.0), 1.0)
    labels = pandas.Series(np.arange(40) % 2)
    np.testing.assert_allclose(
        nn.softmax_cross_entropy(FRAME[["a", "b"]], labels), nn.softmax_cross_entropy(X, labels.to_numpy())
    )
    assert nn.Linear.create(0, 3, 2)(FRAME).shape == (40, 2)
    np.testing.assert_allclose(afx.stats.norm.logpdf(TARGET, 0.0, 1.0), afx.stats.norm.logpdf(TARGET.to_numpy()))


def test_solvers_and_batches_take_tables() -> None:
    """`minimize` and `least_squares` fit them, `data.batches`, `split` and `folds` cut them."""
    assert np.allclose(optim.minimize(loss, START, FRAME, TARGET).x, [2, -1, 0.1], atol=1e-4)
    assert np.allclose(optim.least_squares(lambda w, x, y: x @ w - y, START, FRAME, TARGET).x, [2, -1, 0.1], atol=1e-4)
    batches = data.batches((FRAME, TARGET), 8, key=afx.random.key(0))
    x, y = next(iter(batches.epoch(0)))
    assert (x.shape, x.dtype) == ((8, 3), np.float64)
    np.testing.assert_allclose(x @ np.array([2, -1, 0.1]), y)
    first, second = data.split({"x": FRAME, "y": TARGET}, (0.75, 0.25), key=afx.random.key(0))
    assert (first["x"].shape, second["y"].shape) == ((30, 3), (10,))
    assert afx.scan(lambda c, r: (c + r, None), 0.0, TARGET)[0] == pytest.approx(TARGET.sum())


def test_kinds_of_columns() -> None:
    """Nullable columns count with nan for what is missing; text is refused by its column's name."""
    nullable = pandas.Series([1.0, None, 3.0], dtype="Float64")
    np.testing.assert_array_equal(afx.asarray(afx.jit(lambda s: s * 2)(nullable)), [2.0, np.nan, 6.0])
    assert afx.jit(lambda s: s)(TARGET.astype("float32")).dtype == np.float32
    named = FRAME.assign(name="x")
    with pytest.raises(afx.errors.TreeError, match="got name; leave them out"):
        afx.jit(lambda x: x)(named)
    with pytest.raises(afx.errors.OperandError, match="columns"):
        afx.jit(lambda x: afx.sum(x["a"]))(FRAME)
