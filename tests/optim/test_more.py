"""Prodigy, limited-memory BFGS, noise, sharpness, clipped examples and projections; and that no optimizer stands untested."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import afx
from afx import errors, optim
from tests.every import together
from tests.optim import cases


def makers(method: str) -> set[str]:
    """Return what makes things with a method: functions, by what they say they return, and classes in lower case."""
    found = set[str]()
    for name in optim.__all__:
        make = inspect.unwrap(getattr(optim, name))
        if inspect.isclass(make) and name.islower() and hasattr(make, method):
            found.add(name)
        elif inspect.isfunction(make):
            kind = re.split(r"[\[ ]", str(make.__annotations__["return"]))[0]
            if hasattr(make.__globals__.get(kind), method):
                found.add(name)
    return found


def names_in(*files: Path) -> set[str]:
    """Return the names that files take from modules."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_no_optimizer_stands_untested() -> None:
    """Every optimizer of `optim.__all__` is in the table of cases; `set_to_zero`, which goes nowhere, in a test of masks."""
    table = Path(str(cases.__file__))
    assert len(makers("descend")) >= 30
    assert makers("descend") - names_in(table) - cases.OPTIMIZERS.keys() == {"set_to_zero"}
    assert "set_to_zero" in names_in(table.parent / "wrappers" / "test_masking.py")


def test_no_transformation_stands_untested() -> None:
    """Every transformation of `optim.__all__` is used by a test of optimizers."""
    assert len(makers("update")) >= 30
    assert (
        makers("update")
        <= names_in(*Path(str(cases.__file__)).parent.rglob("*.py")) | PAIRS.keys() | cases.OPTIMIZERS.keys()
    )


def pair(name: str) -> tuple[Any, Any]:
    """Return the transformation of an optimizer, and that without a decay of weights."""
    make = getattr(optim, name)
    plain = {"weight_decay": 0.0} if "weight_decay" in inspect.signature(make).parameters else {}
    return getattr(optim, f"scale_by_{name}")(), make(0.1, **plain)


PAIRS: dict[str, tuple[Any, Any]] = {
    **{f"scale_by_{name}": pair(name) for name in optim.__all__ if f"scale_by_{name}" in optim.__all__},
    "scale_by_adam with Nesterov's": (optim.scale_by_adam(nesterov=True), optim.adam(0.1, nesterov=True)),
    "scale_by_rms": (optim.scale_by_rms(centered=True), optim.rmsprop(0.1, centered=True)),
    "scale_by_rss": (optim.scale_by_rss(), optim.adagrad(0.1)),
    "scale_by_factored_rms": (
        optim.chain(optim.scale_by_factored_rms(), optim.clip_by_block_rms(1.0)),
        optim.adafactor(0.1, scale_by_parameters=False),
    ),
    "scale_by_param_block_rms": (
        optim.chain(optim.scale_by_factored_rms(), optim.clip_by_block_rms(1.0), optim.scale_by_param_block_rms()),
        optim.adafactor(0.1),
    ),
}


@together("name", PAIRS)
def test_transformations_are_what_their_optimizers_multiply(name: str, rng: np.random.Generator) -> None:
    """A chain of a transformation and a learning rate takes the steps of its optimizer."""
    transformation, optimizer = PAIRS[name]
    optimizers = [optim.chain(transformation, optim.scale_by_learning_rate(0.1)), optimizer]
    start = afx.asarray(rng.normal(size=(3, 2)))
    found = [start, start]
    states = [o.init(start) for o in optimizers]
    for grads in rng.normal(size=(4, 3, 2)):
        for k, o in enumerate(optimizers):
            found[k], states[k] = o.step(found[k], grads, states[k])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    assert not np.allclose(found[0], start)


def test_prodigy_is_its_paper(rng: np.random.Generator) -> None:
    """Mishchenko & Defazio 2024, Algorithm 4, of two arrays together, fifty compiled steps."""
    parts = {"w": rng.normal(size=(4, 3)), "b": rng.normal(size=3)}
    x = np.concatenate([parts[k].ravel() for k in ("b", "w")])
    x0, d, r = x, 1e-3, 0.0
    m = v = s = np.zeros_like(x)
    optimizer = optim.prodigy(0.5, distance=1e-3, weight_decay=0.1)
    step, params, state = afx.jit(optimizer.step), parts, optimizer.init(parts)
    for _ in range(50):
        g = rng.normal(size=x.shape) + 0.3 * x
        m, v = 0.9 * m + 0.1 * d * g, 0.999 * v + 0.001 * d**2 * g**2
        keep = np.sqrt(0.999)
        r = keep * r + (1 - keep) * 0.5 * d**2 * (g @ (x0 - x))
        s = keep * s + (1 - keep) * 0.5 * d**2 * g
        x = x - 0.5 * d * (m / (np.sqrt(v) + d * 1e-8) + 0.1 * x)
        params, state = step(params, {"b": g[:3], "w": g[3:].reshape(4, 3)}, state)
        d = max(d, r / np.abs(s).sum())
        found = np.concatenate([np.asarray(params[k]).ravel() for k in ("b", "w")])
        np.testing.assert_allclose(found, x, rtol=1e-11)
        assert float(state.distance) == pytest.approx(d, rel=1e-11)
    assert d > 1e-3


def test_lbfgs_steps_are_those_of_dense_bfgs(rng: np.random.Generator) -> None:
    """With a memory of all steps, directions are those of the inverse BFGS matrix from the scaled unit matrix."""
    a = rng.normal(size=(4, 4))
    a = a @ a.T + np.eye(4)
    optimizer = optim.lbfgs(0.5, memory=8)
    x = rng.normal(size=4)
    params: Any = {"u": x[:1], "v": x[1:]}
    state = optimizer.init(params)
    pairs: list[tuple[Any, Any]] = []
    for _ in range(6):
        g = a @ x
        params, state = optimizer.step(params, {"u": g[:1], "v": g[1:]}, state)
        h = np.eye(4) * min(1, 1 / np.linalg.norm(g))
        if pairs:
            s, y = pairs[-1]
            h = np.eye(4) * (s @ y) / (y @ y)
        for s, y in pairs:
            v = np.eye(4) - np.outer(s, y) / (s @ y)
            h = v @ h @ v.T + np.outer(s, s) / (s @ y)
        new = x - 0.5 * h @ g
        pairs.append((new - x, a @ (new - x)))
        x = new
        np.testing.assert_allclose(np.append(params["u"], params["v"]), x, rtol=1e-9, atol=1e-12)


def test_noise_has_the_variance_asked_for() -> None:
    """The first step has it whole, later ones less; the same key gives the same noise, leaves differ."""
    key, g = afx.random.key(1), {"a": np.zeros(20_000), "b": np.zeros(20_000)}
    rule = optim.add_noise(key, 0.25, decay=1.0)
    first, state = rule.update(g, rule.init(g), g, None)
    again, _ = rule.update(g, rule.init(g), g, None)
    second, _ = rule.update(g, state, g, None)
    assert first["a"].tolist() == again["a"].tolist()
    assert first["a"].tolist() != first["b"].tolist()
    assert np.var(first["a"]) == pytest.approx(0.25, rel=0.05)
    assert np.var(second["a"]) == pytest.approx(0.125, rel=0.05)


def test_sharpness_aware_gradients(rng: np.random.Generator) -> None:
    """The value is at the parameters, the gradient at the point uphill, over all leaves; complex ones, and at a minimum."""
    x, scale = {"u": rng.normal(size=3), "v": rng.normal(size=2)}, rng.uniform(1, 2, 5)

    def loss(p: Any, factor: float) -> Any:
        return factor * afx.sum(scale * afx.concat([p["u"], p["v"]]) ** 4)

    value, found = afx.jit(optim.sharpness_aware(loss, 0.1))(x, 2.0)
    flat = np.append(x["u"], x["v"])
    g = 8 * scale * flat**3
    moved = flat + 0.1 * g / np.linalg.norm(g)
    np.testing.assert_allclose(np.append(found["u"], found["v"]), 8 * scale * moved**3, rtol=1e-12)
    assert float(value) == pytest.approx(2 * (scale * flat**4).sum(), rel=1e-13)
    _, at_least = optim.sharpness_aware(loss)({"u": np.zeros(3), "v": np.zeros(2)}, 1.0)
    assert not np.append(at_least["u"], at_least["v"]).any()
    _, turned = optim.sharpness_aware(lambda z: afx.sum(afx.abs(z) ** 2), 1.0)(np.array([3.0 + 4.0j]))
    np.testing.assert_allclose(np.asarray(turned), 2 * 6 / 5 * np.array([3 - 4j]), rtol=1e-13)


def test_private_gradients(rng: np.random.Generator) -> None:
    """Each example's gradient is clipped over all parameters, then averaged; noise has the deviation of the paper."""
    params = {"w": rng.normal(size=3), "b": np.float64(0.5)}
    x, y = rng.normal(size=(6, 3)), rng.normal(size=6)

    def loss(p: Any, example: Any) -> Any:
        return (afx.sum(p["w"] * example[0]) + p["b"] - example[1]) ** 2

    value, found = optim.private_grad(loss, 0.7)(params, (x, y), afx.random.key(0))
    gap = x @ params["w"] + params["b"] - y
    each = 2 * gap[:, None] * np.column_stack([x, np.ones(6)])
    each = each * np.minimum(1, 0.7 / np.linalg.norm(each, axis=1))[:, None]
    np.testing.assert_allclose(np.append(found["w"], found["b"]), each.mean(0), rtol=1e-12)
    assert float(value) == pytest.approx((gap**2).mean(), rel=1e-13)
    wide, zeros = np.zeros(20_000), np.zeros((5, 1))
    noisy = optim.private_grad(lambda p, e: afx.sum(p) * e[0], 2.0, noise=3.0)
    _, drawn = afx.jit(noisy)(wide, zeros, afx.random.key(2))
    assert np.std(drawn) == pytest.approx(3.0 * 2.0 / 5, rel=0.03)


def test_no_example_sways_private_gradients() -> None:
    """An example with inf or nan counts as 0; integers beside the parameters stay theirs; a step follows."""
    params = {"w": np.ones(2), "n": np.arange(3)}
    slope = optim.private_grad(lambda p, x: afx.sum(p["w"] * x))
    for bad in (np.nan, np.inf):
        value, found = slope(params, np.array([[3.0, 4.0], [bad, 1.0]]), afx.random.key(0))
        np.testing.assert_allclose(found["w"], [0.3, 0.4], rtol=1e-15)
        assert not np.isfinite(float(value))
    optimizer = optim.sgd(1.0)
    after, _ = optimizer.step(params, found, optimizer.init(params))
    np.testing.assert_allclose(after["w"], [0.7, 0.6], rtol=1e-15)
    assert after["n"].tolist() == [0, 1, 2]
    with pytest.raises(errors.ShapeError, match="averages over examples"):
        slope(params, np.zeros((0, 2)), afx.random.key(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projections_of_large_numbers_keep_the_total(dtype: Any) -> None:
    """Numbers beside which the total is less than their last digit are projected as all others."""
    x = np.array([1e18, 1e18, 0], dtype)
    assert np.asarray(optim.project_simplex(x)).tolist() == [0.5, 0.5, 0.0]
    assert np.asarray(optim.project_l1_ball(x * dtype(-1))).tolist() == [-0.5, -0.5, 0.0]
    assert np.asarray(optim.project_l1_ball(np.zeros(0, dtype))).tolist() == []


SETS: dict[str, tuple[Any, Any]] = {
    "simplex": (optim.project_simplex, [{"type": "eq", "fun": lambda x: x.sum() - 1}]),
    "l1": (optim.project_l1_ball, None),
    "l2": (optim.project_l2_ball, [{"type": "ineq", "fun": lambda x: 1 - x @ x}]),
    "box": (optim.project_box, []),
    "nonnegative": (optim.project_nonnegative, []),
}


@pytest.mark.parametrize("name", SETS)
def test_projections_are_the_nearest_points(name: str, rng: np.random.Generator) -> None:
    """SciPy's constrained minimum of the distance, of all leaves together; points inside stay; with derivatives."""
    project, constraints = SETS[name]
    for size in (0.2, 2.0):
        x = rng.normal(size=5) * size
        found = project({"a": x[:2], "b": x[2:].reshape(3, 1), "n": np.arange(2)})
        assert found["n"].tolist() == [0, 1]
        flat = np.append(found["a"], found["b"])
        if name == "l1":  # as differences of numbers of 0 or more
            split = scipy.optimize.minimize(
                lambda z, x=x: ((z[:5] - z[5:] - x) ** 2).sum(),
                np.full(10, 0.05),
                bounds=[(0, None)] * 10,
                constraints=[{"type": "ineq", "fun": lambda z: 1 - z.sum()}],
                tol=1e-14,
            )
            want = split.x[:5] - split.x[5:]
        else:
            bounds = None if name == "l2" else [(0, 1 if name == "box" else None)] * 5
            want = scipy.optimize.minimize(
                lambda z, x=x: ((z - x) ** 2).sum(), np.full(5, 0.2), bounds=bounds, constraints=constraints, tol=1e-14
            ).x
        np.testing.assert_allclose(flat, want, atol=1e-6)
        np.testing.assert_allclose(np.asarray(project(flat)), flat, atol=1e-15)
        afx.testing.check_grads(project, (x,))
        np.testing.assert_allclose(np.asarray(afx.jit(project)(x)), np.asarray(project(x)), rtol=1e-15)
    optimizer = optim.projected(optim.sgd(0.1), project)
    start = project(rng.normal(size=5))
    after, _ = optimizer.step(start, np.ones(5), optimizer.init(start))
    np.testing.assert_allclose(np.asarray(project(after)), np.asarray(after), atol=1e-15)


REFUSED: dict[str, tuple[Any, str]] = {
    "schedule": (lambda: optim.rprop(optim.constant(0.1)), "sizes follow the signs"),  # wrong on purpose
    "shrink": (lambda: optim.rprop(shrink=1.5), "shrink is below 1"),
    "every": (lambda: optim.lookahead(optim.sgd(0.1), 0), "got 0; give 1 or more"),
    "share": (lambda: optim.lookahead(optim.sgd(0.1), share=1.5), "share is above 0"),
    "memory": (lambda: optim.lbfgs(memory=0), "memory is a number of steps"),
    "radius": (lambda: optim.sharpness_aware(afx.sum, 0.0), "radius is above 0"),
    "limit": (lambda: optim.private_grad(lambda p, e: p, -1.0), "limit is above 0"),
    "complex": (lambda: optim.project_simplex(np.ones(2) * 1j), "needs real parameters"),
    "total": (lambda: optim.project_simplex(np.ones(2), -1.0), "total is 0 or more"),
    "l1 radius": (lambda: optim.project_l1_ball(np.ones(2), -1.0), "radius is 0 or more"),
    "l2 radius": (lambda: optim.project_l2_ball(np.ones(2), -1.0), "radius is 0 or more"),
    "nothing": (lambda: optim.project_simplex(np.ones(0)), "give one parameter or more"),
    "integers": (lambda: optim.project_simplex(np.arange(2)), "parameters are floating or complex"),
}


@together("name", REFUSED)
def test_settings_out_of_range_are_refused(name: str) -> None:
    """Settings out of their range are refused where they are given."""
    make, message = REFUSED[name]
    with pytest.raises(errors.AfxError, match=message):
        make()
