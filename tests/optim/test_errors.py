"""Mistakes are refused at the border, with the path, what was given, and what to do."""

import inspect
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import errors, optim, pytree
from tests.every import together
from tests.optim.cases import OPTIMIZERS, model

FORGETFUL = {
    "plainest",
    "noisy",
    "sgd",
    "clipped sgd",
    "scaled sgd",
    "masked",
    "plateau",
    "projected",
}  # their states remember nothing of the parameters
every = pytest.mark.parametrize("name", OPTIMIZERS)


@every
def test_gradients_must_match_parameters(name: str, rng: np.random.Generator) -> None:
    """Gradients of another structure, shape or dtype are refused by path."""
    optimizer, params = OPTIMIZERS[name](), model(rng, np.float32)
    state = optimizer.init(params)

    def step(change: Any) -> None:
        grads = pytree.map_with_path(lambda path, p: change(p) if path == ".layers[1].bias" else p, params)
        optimizer.step(params, grads, state, value=1.0)

    with pytest.raises(errors.TreeError, match=r"grads\.layers\[1\]\.bias differs: got None for a leaf"):
        step(lambda p: None)
    with pytest.raises(errors.ShapeError, match=r"grads\.layers\[1\]\.bias differs: got float32\[1,1\] for"):
        step(lambda p: p[None])
    with pytest.raises(errors.DtypeError, match=r"dtype of grads\.layers\[1\]\.bias differs: got float64\[1\] for"):
        step(lambda p: p.astype(np.float64))


@every
@together("bad", [np.arange(3), np.array([True]), 3])
def test_parameters_without_a_trained_leaf_are_refused(name: str, bad: Any) -> None:
    """Parameters that hold integers or booleans alone are refused by path."""
    optimizer = OPTIMIZERS[name]()
    params = {"n": bad}
    with pytest.raises(errors.DtypeError, match=r"params\['n'\] = (int64|bool).* no leaf that is trained"):
        optimizer.step(params, params, optimizer.init(params), value=1.0)


@together("name", [name for name in OPTIMIZERS if name not in FORGETFUL])
def test_states_of_other_parameters_are_refused(name: str) -> None:
    """A state made for other shapes, other dtypes or another structure is refused; nothing is broadcast silently."""
    optimizer, x = OPTIMIZERS[name](), afx.ones(3)
    for other in (afx.ones(()), afx.ones((2, 3)), afx.ones(1)):
        with pytest.raises(errors.ShapeError, match=r"the state is of other parameters.*call init"):
            optimizer.step(x, x, optimizer.init(other), value=1.0)
    with pytest.raises(errors.DtypeError, match=r"differs: got float32\[3\] for float64\[3\]; the state is of other"):
        optimizer.step(x.astype(np.float64), x.astype(np.float64), optimizer.init(x), value=1.0)
    with pytest.raises(errors.TreeError, match="structure"):
        optimizer.step(x, x, optimizer.init((x, x)), value=1.0)


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop", "arrayflow", "clipped sgd", "scaled sgd", "frozen"])
def test_states_of_other_optimizers_are_refused(name: str) -> None:
    """A state of another optimizer is refused with the name of its type."""
    optimizer, x = OPTIMIZERS[name](), afx.ones(3)
    for other in {"sgd", "adam", "rmsprop", "arrayflow", "clipped sgd", "scaled sgd"} - {name, SAME.get(name)}:
        with pytest.raises(errors.TreeError, match="call init"):
            optimizer.step(x, x, OPTIMIZERS[other]().init(x), value=1.0)


SAME = {"frozen": "adam"}  # of which it is made, and whose state it has

ARGUMENTS: dict[str, tuple[Any, str]] = {
    "sgd rate": (lambda: optim.sgd(0.0), r"sgd: learning_rate is above 0: got 0\.0"),
    "sgd nan": (lambda: optim.sgd(float("nan")), "real number: got"),
    "sgd momentum": (lambda: optim.sgd(0.1, momentum=1.0), r"momentum is from 0 up to, not including, 1: got 1\.0"),
    "sgd nesterov": (lambda: optim.sgd(0.1, nesterov=True), "got momentum=0"),
    "adam rate": (lambda: optim.adam(-1e-3), r"adam: learning_rate is above 0: got -0\.001"),
    "adam b1": (lambda: optim.adam(b1=1.5), r"adam: b1 is from 0 .*got 1\.5"),
    "adam b2": (lambda: optim.adam(b2=-0.1), r"adam: b2 is from 0 .*got -0\.1"),
    "adam eps": (lambda: optim.adam(eps=0.0), r"adam: eps is above 0: got 0\.0"),
    "adamw decay": (lambda: optim.adamw(weight_decay=-1.0), r"adamw: weight_decay is 0 or more: got -1\.0"),
    "rmsprop decay": (lambda: optim.rmsprop(0.1, decay=1.0), r"rmsprop: decay .*got 1\.0"),
    "rmsprop eps": (lambda: optim.rmsprop(0.1, eps=-1.0), r"rmsprop: eps is above 0"),
    "arrayflow step": (lambda: optim.arrayflow(0.0), "arrayflow: initial_step is above 0"),
    "arrayflow beta": (lambda: optim.arrayflow(beta=0.0), "beta is above 0, up to 1: got 0"),
    "arrayflow window": (lambda: optim.arrayflow(window=0), "window is a number of losses: got 0"),
    "clip norm": (lambda: optim.clip_by_global_norm(0.0), "clip_by_global_norm: limit is above 0"),
    "clip value": (lambda: optim.clip_by_value(-1.0), "clip_by_value: limit is above 0"),
    "decay": (lambda: optim.add_decayed_weights(-1.0), "strength is 0 or more"),
    "no rules": (lambda: optim.chain(), "got no links"),
    "not called": (lambda: optim.chain(optim.adam), "got adam; call it"),
    "a class": (lambda: optim.chain(optim.Adam), "got Adam; call it"),
    "no rule": (lambda: optim.chain(3), "got int"),
}


@together("name", ARGUMENTS)
def test_arguments_out_of_range_are_refused(name: str) -> None:
    """Hyperparameters out of their range are refused when the optimizer is made."""
    make, message = ARGUMENTS[name]
    with pytest.raises(errors.ArgumentError, match=message):
        make()


def test_learning_rates_are_scalars() -> None:
    """A learning rate for each element is refused, with the way to have it."""
    with pytest.raises(errors.ShapeError, match=r"a scalar: got float32\[3\]; scale gradients"):
        optim.sgd(afx.ones(3))


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "rmsprop", "lars", "prodigy", "adafactor", "adjustable"])
def test_settings_that_are_replaced_are_checked(name: str) -> None:
    """`attrs.evolve` of an optimizer, or of the settings in a state, refuses what its function refuses."""
    optimizer: Any = OPTIMIZERS[name]()
    settings = optimizer.init(afx.ones(2)).settings if name == "adjustable" else optimizer
    wrong = "weight_decay" if hasattr(settings, "weight_decay") else "momentum"
    for field in ("learning_rate", wrong):
        with pytest.raises(errors.ArgumentError, match=f"{field} is .*: got -0.5"):
            attrs.evolve(settings, **{field: -0.5})


def list_numbers(value: Any) -> list[tuple[Any, str]]:
    """Return the rules in an optimizer that have fields which are numbers, with the names of these."""
    if isinstance(value, tuple):
        return [found for item in value for found in list_numbers(item)]
    if not attrs.has(type(value)):
        return []
    held = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    own = [(value, name) for name, x in held.items() if isinstance(x, (int, float)) and not isinstance(x, bool)]
    return own + [found for x in held.values() for found in list_numbers(x)]


@together("name", OPTIMIZERS)
def test_every_number_that_is_replaced_is_checked(name: str) -> None:
    """Wherever it stands in an optimizer: what is nan, negative or no number at all is refused by name."""
    for rule, field in list_numbers(OPTIMIZERS[name]()):
        for wrong in (float("nan"), "0.1", -1.0):
            with pytest.raises(errors.AfxError, match=r"number|or more|above 0|from 0|between 0|an integer"):
                attrs.evolve(rule, **{field: wrong})


STARTS = {"init", "bracket"}
SOLVERS = {name for name in optim.__all__ if STARTS & set(getattr(getattr(optim, name), "__annotations__", {}))}
NUMBERS = ("float", "int", "LearningRate")
NONSENSE = ["0.1", 1j, [0.1], float("nan"), np.ones(3), np.str_("a"), object(), np.float32("nan")]
EXAMPLES = {
    "fn": afx.sum,
    "key": afx.random.key(0),
    "optimizer": optim.sgd(0.1),
    "schedule": optim.constant(0.1),
    "steps": 10,
    "warmup": 2,
    "every": 2,
    "limit": 2,
    "factors": {5: 0.1},
}


def numeric_arguments() -> list[tuple[str, str]]:
    """Return every factory of `afx.optim` with each of its arguments that is a number."""
    makes = {name: getattr(optim, name) for name in optim.__all__ if name not in SOLVERS}
    return [
        (name, p.name)
        for name, make in makes.items()
        if inspect.isfunction(make) or (inspect.isclass(make) and name.islower())
        for p in inspect.signature(make).parameters.values()
        if str(p.annotation).split(" ")[0] in NUMBERS
    ]


@together(("name", "argument"), numeric_arguments())
def test_what_is_no_number_is_refused_when_made(name: str, argument: str) -> None:
    """Every hyperparameter of every optimizer, transformation and schedule is a number, or refused where it is made."""
    make = getattr(optim, name)
    needed = [
        p for p in inspect.signature(make).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL
    ]
    given = {p.name: EXAMPLES.get(p.name, 0.5) for p in needed}
    make(**given)
    for value in NONSENSE:
        with pytest.raises(errors.AfxError, match=r"number|scalar"):
            make(**{**given, argument: value})


def test_scalar_arrays_are_numbers() -> None:
    """NumPy's numbers, scalar arrays and traced ones are hyperparameters too, in the same range."""
    x = afx.ones(2)

    def after(rate: Any) -> Any:
        optimizer = optim.adam(rate, b1=np.float32(0.9))
        return optimizer.step(x, x, optimizer.init(x))[0]

    for rate in (np.float32(0.5), np.array(0.5), afx.asarray(0.5)):
        np.testing.assert_allclose(np.asarray(after(rate)), [0.5, 0.5], rtol=1e-6)
        with pytest.raises(errors.ArgumentError, match="above 0"):
            optim.adam(-rate)
    np.testing.assert_allclose(np.asarray(afx.jit(after)(0.5)), [0.5, 0.5], rtol=1e-6)
    assert np.isfinite(float(afx.grad(lambda r: after(r).sum())(0.5)))


def test_complex_gradients_have_no_order() -> None:
    """`clip_by_value` of a complex gradient names the rule that works."""
    optimizer = optim.chain(optim.clip_by_value(1.0), optim.sgd(0.1))
    z = afx.asarray(np.array([1j]))
    with pytest.raises(errors.DtypeError, match="use clip_by_global_norm"):
        optimizer.step(z, z, optimizer.init(z))


def test_errors_under_jit_are_the_same() -> None:
    """A mistake inside a compiled step raises while it is traced, with the same message."""
    optimizer, x = optim.adam(0.1), afx.ones(3)
    with pytest.raises(errors.ShapeError, match=r"grads differs: got float32\[2\] for float32\[3\]"):
        afx.jit(optimizer.step)(x, afx.ones(2), optimizer.init(x))


@attrs.frozen
class Line:
    """A model whose fields say that they hold numbers that are trained."""

    slope: float
    intercept: afx.Array
    degree: int = 1


def squared(line: Any) -> Any:
    """Return the squared residual of a line at 2."""
    slope, intercept = (line["slope"], line["intercept"]) if isinstance(line, dict) else (line.slope, line.intercept)
    return (2 * slope + intercept - 1) ** 2


@pytest.mark.parametrize("line", [{"slope": 0.5, "intercept": 0}, Line(0.5, 0)])  # the mistake
def test_integers_beside_trained_numbers_are_named(line: Any) -> None:
    """A Python integer where its siblings are trained is an error, which names it: it would stay as it is."""
    for run in (
        afx.grad(squared),
        afx.jit(afx.grad(squared)),
        afx.jacfwd(squared),
        lambda line: optim.minimize(squared, line),
        lambda line: optim.least_squares(lambda p: squared(p), line),
        optim.adam(0.1).init,
        optim.sgd(0.1).init,
    ):
        with pytest.raises(errors.DtypeError, match=r"a Python integer beside trained numbers.*intercept"):
            run(line)


def test_integers_that_are_meant_stay() -> None:
    """Integers of NumPy, arrays of integers, and integers in fields of integers stay as they are."""
    found = afx.grad(squared)(Line(0.5, 1.0))  # a float for an array
    assert found.degree == 1
    assert float(found.intercept) == 2.0
    kept = {"slope": 0.5, "intercept": np.int64(0), "labels": np.array([1, 2]), "flag": True}
    assert optim.minimize(squared, kept).x["intercept"] == 0
    assert float(afx.grad(lambda a, n: a * n, argnums=0)(2.0, 3)) == 3.0
