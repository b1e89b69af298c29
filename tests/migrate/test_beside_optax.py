"""Optax's names in `afx.migrate.for_optax` move parameters as Optax does, with its arguments and defaults."""

import dataclasses
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx.migrate import for_jaxopt, for_optax, for_trees, optax_chains, optax_trees
from tests.jax_settings import optimized

RATED = {name for name, text in optax_chains.TABLE.items() if "learning_rate" in text.split()} - {"muon"}
NAMES = sorted(RATED | {"optimistic_gradient_descent", "sign_sgd"})


def _by_name(name: str) -> Callable[[Any], Any]:
    return lambda o: getattr(o, name)(0.05)


CASES: dict[str, Callable[[Any], Any]] = {
    **{name: _by_name(name) for name in NAMES},
    "centered": lambda o: o.rmsprop(0.05, centered=True, momentum=0.9),
    "nesterov": lambda o: o.sgd(0.05, 0.9, True),
    "clipped": lambda o: o.chain(o.clip(0.5), o.clip_by_global_norm(0.7), o.adamw(0.1, weight_decay=0.1)),
    "parts": lambda o: o.chain(o.scale_by_adam(), o.add_decayed_weights(0.1), o.scale(-0.1)),
    "masked": lambda o: o.chain(o.masked(o.add_decayed_weights(0.1), {"w": True, "b": False}), o.sgd(0.1)),
    "labels": lambda o: o.multi_transform({"a": o.adam(0.1), "b": o.set_to_zero()}, {"w": "a", "b": "b"}),
    "adafactor": lambda o: o.adafactor(0.05, min_dim_size_to_factor=2),
    "ademamix": lambda o: o.ademamix(0.05, b3=lambda _: 0.5, alpha=2.0, weight_decay=0.1),
    "adan": lambda o: o.adan(0.05, weight_decay=0.1),
    "agc": lambda o: o.chain(o.adaptive_grad_clip(0.1), o.trace(decay=0.9), o.scale_by_learning_rate(0.05)),
    "schedule downhill": lambda o: o.chain(o.trace(decay=0.9), o.scale_by_schedule(lambda count: -0.1 / (1 + count))),
    "rate by schedule": lambda o: o.chain(o.scale_by_adam(), o.scale_by_learning_rate(lambda count: 0.1 / (1 + count))),
    "optimistic": lambda o: o.optimistic_adam(0.05, 0.5),
    "frozen": lambda o: o.chain(
        o.selective_transform(o.adam(0.1), freeze_mask={"w": True, "b": False}), o.freeze(True)
    ),
    "of one length": lambda o: o.chain(o.normalize_by_update_norm(2.0, 1e-3), o.sgd(0.1)),
    "centralized": lambda o: o.chain(o.centralize(), o.sgd(0.1, 0.9)),
    "one's own": lambda o: o.chain(halved(o), o.adam(0.1)),
    **{
        name: lambda o, name=name: o.chain(getattr(o, name)(), o.scale(-0.05))
        for name in (
            "scale_by_adadelta",
            "scale_by_adamax",
            "scale_by_amsgrad",
            "scale_by_radam",
            "scale_by_yogi",
            "scale_by_trust_ratio",
            "scale_by_param_block_rms",
            "scale_by_sign",
        )
    },
    "kept positive": lambda o: o.chain(o.sgd(0.5), o.keep_params_nonnegative()),
    "leaf by leaf": lambda o: o.chain(o.stateless_with_tree_map(lambda u, p: u + 0.1 * p), o.sgd(0.1)),
    "finite": lambda o: o.apply_if_finite(o.adam(0.1), 2),
    "fromage": lambda o: o.fromage(0.05),
    "muon": lambda o: o.muon(0.05),
    "rprop": lambda o: o.rprop(0.05),
    "sm3": lambda o: o.sm3(0.05),
    "prodigy": lambda o: o.prodigy(0.5, estim_lr0=0.01, weight_decay=0.1),
    "guarded": lambda o: o.prodigy(o.constant_schedule(0.5), beta3=0.9, estim_lr0=0.02, safeguard_warmup=True),
    "free": lambda o: o.schedule_free_sgd(0.05, warmup_steps=3, weight_decay=0.1),
    "free adam": lambda o: o.schedule_free_adamw(0.05),
    "gathered": lambda o: o.MultiSteps(o.sgd(0.1), 3),
    "summed": lambda o: o.MultiSteps(o.adam(0.1), 2, use_grad_mean=False),
}


def halved(o: Any) -> Any:
    """Return a transformation as programs write their own."""
    return o.GradientTransformation(
        lambda _: o.EmptyState(), lambda u, s, p=None: ({k: x / 2 for k, x in u.items()}, s)
    )


class Names:
    """The names of two modules as one."""

    def __init__(self, *modules: Any) -> None:
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        return next(getattr(module, name) for module in self._modules if hasattr(module, name))


@pytest.mark.filterwarnings("ignore:.optimistic_adam. is deprecated:DeprecationWarning")  # Optax's
@pytest.mark.parametrize("case", CASES)
def test_optimizers_move_as_optaxs(case: str) -> None:
    """Twelve steps on a quadratic function, in float64, to 1e-12."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    rng = np.random.default_rng(0)
    root, target = rng.normal(size=(6, 6)), rng.normal(size=(6, 3))
    matrix, start = root @ root.T / 6 + np.eye(6), {"w": np.full((6, 3), 0.1), "b": np.full(3, 0.2)}

    def loss(params: Any) -> Any:
        gap = params["w"] - target
        return 0.5 * (gap * (matrix @ gap)).sum() + ((params["b"] - 1.0) ** 2).sum()

    def run(o: Any, params: Any, grad: Any, compiled: Callable[[Any], Any]) -> Any:
        opt = CASES[case](o)

        def step(params: Any, state: Any) -> Any:
            updates, state = opt.update(grad(params), state, params)
            return o.apply_updates(params, updates), state

        step, state = compiled(step), opt.init(params)
        for _ in range(12):
            params, state = step(params, state)
        return params

    with jax.enable_x64(True):
        first = {name: jax.numpy.asarray(x) for name, x in start.items()}
        wanted = run(Names(optax, optax.contrib), first, jax.grad(loss), jax.jit)
    found = run(for_optax, {name: afx.asarray(x) for name, x in start.items()}, afx.grad(loss), lambda step: step)
    close = 1e-8 if case == "adafactor" else 1e-12  # whose decay is float32 in Optax
    for name, value in found.items():
        np.testing.assert_allclose(value, np.asarray(wanted[name]), rtol=close, atol=close)


def test_losses_and_plateaus_are_optaxs() -> None:
    """Losses to 1e-14, and rates that shrink where values stay; a rate may be set by hand."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 3, 4))
    with jax.enable_x64(True):
        for name in ("log_cosh", "hinge_loss", "cosine_similarity", "cosine_distance"):
            wanted = getattr(optax, name)(jax.numpy.asarray(x), jax.numpy.asarray(y))
            np.testing.assert_allclose(getattr(for_optax, name)(x, y), np.asarray(wanted), rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(for_optax.smooth_labels(x, 0.1), np.asarray(optax.smooth_labels(x, 0.1)), rtol=1e-14)
        rates = []
        for o, names in ((optax, optax.contrib), (for_optax, for_optax)):
            opt = o.chain(o.sgd(0.5), names.reduce_on_plateau(patience=2, factor=0.5))
            state, steps = opt.init(np.ones(1)), []
            for _ in range(8):
                updates, state = opt.update(np.ones(1), state, np.ones(1), value=1.0)
                steps.append(float(updates[0]))
            rates.append(steps)
    np.testing.assert_allclose(*rates, rtol=1e-12)
    opt = for_optax.inject_hyperparams(for_optax.adam)(learning_rate=0.1)
    state = opt.init(np.ones(1))
    state.hyperparams["learning_rate"] = 0.25  # a number of Python's
    np.testing.assert_allclose(opt.update(np.ones(1), state, np.ones(1))[0], [-0.25], rtol=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "sgd", "lion", "clip"])
def test_hyperparameters_stand_in_the_state(name: str) -> None:
    """Numbers given by place and defaults too, as Optax has them; a program's own factory has its own names."""
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    params, found = {"w": np.array([1.0, -2.0])}, []
    for o in (optax, for_optax):

        def make(size: Any, decay: Any = 0.1, o: Any = o) -> Any:
            return o.chain(o.add_decayed_weights(decay), o.scale(size))

        for factory in (getattr(o, name), make):
            opt = o.inject_hyperparams(factory, static_args="o" if factory is make else ())(0.25)
            state = opt.init(params)
            numbers = {k: float(v) for k, v in state.hyperparams.items() if k != "initial_scale"}  # which afx has not
            updates, _ = opt.update(params, state, params)
            found.append((numbers, np.asarray(updates["w"]).tolist()))
    for ours, theirs in zip(found[2:], found[:2], strict=True):
        assert ours[0] == pytest.approx(theirs[0], rel=1e-6)
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "clip", "masked", "partition", "gathered"])
def test_parameters_and_gradients_may_be_numbers(name: str) -> None:
    """Of Python's, as programs of two parameters write them, to float32's digits of Optax's moments."""
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    makes: dict[str, Callable[[Any], Any]] = {
        "clip": lambda o: o.chain(o.clip(0.5), o.scale(-0.1)),
        "masked": lambda o: o.masked(o.adamw(0.1), {"a": True, "b": False}),
        "partition": lambda o: o.partition({"x": o.adam(0.1), "y": o.set_to_zero()}, {"a": "x", "b": "y"}),
        "gathered": lambda o: o.MultiSteps(o.sgd(0.1), 2),
    }
    seen = []
    for o in (optax, for_optax):
        opt, params = makes.get(name, lambda o: getattr(o, name)(0.1))(o), {"a": 1.0, "b": 2.0}
        state = opt.init(params)
        for _ in range(2):
            updates, state = opt.update({"a": 1.5, "b": -0.25}, state, params)
            params = o.apply_updates(params, updates)
        seen.append([float(x) for x in params.values()])
    np.testing.assert_allclose(seen[1], seen[0], rtol=1e-5)


@attrs.frozen
class Pair:
    """A model of two parts."""

    w: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Registered:
    """A dataclass that a program registers."""

    w: Any
    b: Any


@pytest.mark.parametrize("kind", [Pair, for_trees.register_dataclass(Registered)])
def test_labels_may_stand_in_models_and_registered_classes(kind: Any) -> None:
    """And one for all that is below it."""
    params = kind(np.ones(2), kind(np.ones(3), 1.0))
    opt = for_optax.multi_transform({"a": for_optax.sgd(0.5), "b": for_optax.sgd(2.0)}, kind("a", "b"))
    updates, _ = opt.update(params, opt.init(params), params)
    assert [np.max(x) for x in for_trees.tree_leaves(updates)] == [-0.5, -2.0, -2.0]
    masked = for_optax.masked(for_optax.scale(3.0), kind(True, kind(False, True)))
    updates, _ = masked.update(params, masked.init(params))
    assert [np.max(x) for x in for_trees.tree_leaves(updates)] == [3.0, 1.0, 3.0]


def test_nans_become_zeros() -> None:
    """Updates and the state that tells of them, as Optax's."""
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    updates, seen = {"w": np.array([1.0, np.nan]), "b": np.array([np.inf])}, []
    for o in (optax, for_optax):
        opt = o.zero_nans()
        changed, state = opt.update(updates, opt.init(updates))
        seen.append([*map(np.asarray, (changed["w"], changed["b"], state.found_nan["w"], state.found_nan["b"]))])
    assert [x.tolist() for x in seen[0]] == [x.tolist() for x in seen[1]] == [[1.0, 0.0], [np.inf], True, False]


def test_counters_stop_at_the_largest_number() -> None:
    """A counter's dtype stays."""
    for start, after in ((3, 4), (2**31 - 1, 2**31 - 1)):
        count = np.asarray(for_optax.safe_increment(np.int32(start)))
        assert (int(count), count.dtype) == (after, np.int32)


SEARCHES: dict[str, Callable[[Any], Any]] = {
    "lbfgs": lambda o: o.lbfgs(memory_size=3),
    "lbfgs of a rate": lambda o: o.lbfgs(0.003, scale_init_precond=False, linesearch=None),
    "lbfgs that backtracks": lambda o: o.lbfgs(linesearch=o.scale_by_backtracking_linesearch(15, store_grad=True)),
    "backtracking": lambda o: o.chain(o.sgd(1.0), o.scale_by_backtracking_linesearch(40)),
    "zoom from far": lambda o: o.chain(o.sgd(1.0), o.scale_by_zoom_linesearch(12, curv_rtol=0.1)),
    "zoom that ends": lambda o: o.chain(o.sgd(0.01), o.scale_by_zoom_linesearch(3, approx_dec_rtol=None)),
    "zoom from near": lambda o: o.chain(o.sgd(1e-3), o.scale_by_zoom_linesearch(12, max_learning_rate=3.0)),
}


@pytest.mark.parametrize("case", SEARCHES)
def test_line_searches_are_optaxs(case: str) -> None:
    """Eight steps from Rosenbrock's start, by Optax's loop: values and counts, to 1e-9."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")

    def fn(w: Any, scale: Any = 1.0) -> Any:
        x, y, z = w["x"], w["y"][0], w["y"][1]
        return scale * (100.0 * ((y - x * x) ** 2 + (z - y * y) ** 2) + (1.0 - x) ** 2 + (1.0 - y) ** 2)

    def run(o: Any, get: Any, w: Any, slopes: Any) -> list[list[float]]:
        opt, seen = SEARCHES[case](o), list[list[float]]()
        keeps = get(opt.init(w), "grad") is not None
        read: Any = o.value_and_grad_from_state(fn) if keeps else lambda w, state, scale: slopes(fn)(w, scale)
        state = opt.init(w)
        for _ in range(8):
            value, grad = read(w, state=state, scale=2.0)
            updates, state = opt.update(grad, state, w, value=value, grad=grad, value_fn=fn, scale=2.0)
            w = o.apply_updates(w, updates)
            known = [get(state, name) for name in ("value", "num_linesearch_steps")]
            seen.append([float(w["x"]), float(fn(w)), *[float(z) for z in known if z is not None]])
        return seen

    start = {"x": np.array(-1.2), "y": np.array([1.0, 0.7])}
    found = run(for_optax, optax_trees.get, {name: afx.asarray(x) for name, x in start.items()}, afx.value_and_grad)
    with jax.enable_x64(True):
        first = {name: jax.numpy.asarray(x) for name, x in start.items()}
        wanted = run(optax, optax.tree_utils.tree_get, first, jax.value_and_grad)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_options_that_afx_has_not_are_refused() -> None:
    """Rather than left out."""
    with pytest.raises(TypeError, match="should_skip_update_fn"):
        for_optax.MultiSteps(for_optax.sgd(0.1), 2, should_skip_update_fn=lambda *_: None)


def test_states_have_optaxs_places() -> None:
    """``opt_state[0].count`` of an optimizer, and of one in a chain."""
    params = {"w": afx.ones(2)}
    for solver, place in (
        (for_optax.adam(0.1), lambda s: s[0]),
        (for_optax.chain(for_optax.clip(1.0), for_optax.adam(0.1)), lambda s: s[1][0]),
    ):
        _, state = solver.update(params, solver.init(params), params)
        assert (str(place(state).count), place(state).count.dtype) == ("1", np.int32)
        np.testing.assert_allclose(place(state).mu["w"], 0.1, rtol=1e-6)
    gathered = for_optax.MultiSteps(for_optax.sgd(0.1), 2)
    _, counts = gathered.update(params, gathered.init(params))
    assert [x.dtype for x in (counts.mini_step, counts.gradient_step)] == [np.int32] * 2


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "line": lambda o: o.linear_schedule(0.1, 0.01, 7),
    "power": lambda o: o.polynomial_schedule(0.1, 0.01, 2.0, 7, 3),
    "decay": lambda o: o.exponential_decay(0.1, 7, 0.9, 2, end_value=0.08),
    "stairs": lambda o: o.exponential_decay(0.1, 3, 0.9, staircase=True),
    "none": lambda o: o.exponential_decay(0.1, 0, 0.9),
    "joined": lambda o: o.join_schedules([o.linear_schedule(0.0, 0.1, 4), o.cosine_decay_schedule(0.1, 10)], [4]),
    "cosine": lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 5, 20, 0.2),
    "up and down": lambda o: o.warmup_exponential_decay_schedule(0.0, 0.1, 4, 5, 0.8),
    "onecycle": lambda o: o.cosine_onecycle_schedule(20, 0.3),
    "lines": lambda o: o.linear_onecycle_schedule(20, 0.3),
    "cosines": lambda o: o.piecewise_interpolate_schedule("cosine", 0.1, {4: 0.5, 9: 3.0}),
    "restarts": lambda o: o.sgdr_schedule(
        [{"init_value": 0.0, "peak_value": 0.1, "decay_steps": 8, "warmup_steps": 2, "end_value": 0.0}] * 2
    ),
    "warmup": lambda o: o.warmup_constant_schedule(0.1, 0.4, 5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_optaxs(name: str) -> None:
    """Every one of 25 steps: all digits by Python's numbers, and by arrays the float32 of JAX, in jitted steps and outside."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    with jax.enable_x64(True), optimized():
        plain, jitted = SCHEDULES[name](optax), jax.jit(SCHEDULES[name](optax))
        want = [float(plain(k)) for k in range(25)]
        rounded, apart = [[float(f(jax.numpy.asarray(k, "int32"))) for k in range(25)] for f in (jitted, plain)]
    own = SCHEDULES[name](for_optax)
    with afx.default_dtype(afx.float64):
        np.testing.assert_allclose([float(own(k)) for k in range(25)], want, rtol=1e-15, atol=1e-16)
        np.testing.assert_allclose(afx.jit(afx.vmap(own))(afx.arange(25)), rounded, rtol=1e-15, atol=1e-16)
        np.testing.assert_allclose([float(own(afx.asarray(k))) for k in range(25)], apart, rtol=1e-15, atol=1e-16)


TREE_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, x: t.add(x, x), "sub": lambda t, x: t.sub(x, x), "mul": lambda t, x: t.mul(x, x),
    "div": lambda t, x: t.div(x, x), "scale": lambda t, x: t.scale(3.0, x), "add_scale": lambda t, x: t.add_scale(x, 2.0, x),
    "sum": lambda t, x: t.sum(x), "size": lambda t, x: t.size(x), "vdot": lambda t, x: t.vdot(x, x),
    "norm": lambda t, x: (t.norm(x), t.norm(x, squared=True), t.norm(x, 1), t.norm(x, np.inf)),
    "like": lambda t, x: (t.zeros_like(x), t.ones_like(x), t.full_like(x, 2.0)),
    "moment": lambda t, x: t.bias_correction(t.update_moment(x, t.scale(0.1, x), 0.9, 2), 0.9, 3),
    "where": lambda t, x: t.where(True, x, t.zeros_like(x)),
    "clip": lambda t, x: (t.clip(x, -1.0, 2.0), t.max(x), t.min(x), t.allclose(x, x), t.cast(x, np.float32), t.real(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", TREE_CALLS)
def test_trees_are_optaxs(name: str) -> None:
    """By the names of `optax.tree` and of `optax.tree_utils`, to 1e-12."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    tree = {"w": np.array([[1.0, -2.0], [0.5, 4.0]]), "b": [np.array(3.0)]}
    with jax.enable_x64(True):
        want = jax.tree.leaves(TREE_CALLS[name](optax.tree, jax.tree.map(jax.numpy.asarray, tree)))
    found = afx.pytree.leaves(TREE_CALLS[name](optax_trees, afx.pytree.map(afx.asarray, tree)))
    for z, w in zip(found, want, strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-12)
    last = {
        "norm": "l2_norm",
        "scale": "scalar_mul",
        "like": "zeros_like",
        "moment": "update_moment",
        "clip": "max",
    }.get(name, name)
    assert callable(getattr(optax_trees, f"tree_{last}"))


def test_states_are_looked_into_and_set() -> None:
    """By names of fields, wherever they stand."""
    state = for_optax.adam(0.1).init({"w": afx.ones(2)})
    moved = optax_trees.set(state, count=afx.asarray(7))
    assert int(optax_trees.get(moved, "count")) == 7
    assert int(optax_trees.get(state, "count")) == 0


ROWS = np.random.default_rng(0).dirichlet(np.ones(3), 4)
ROWS[0] = [0.0, 0.4, 0.6]
LOGITS, CLASSES, SIDES = np.random.default_rng(1).normal(size=(4, 3)), np.array([0, 2, 1, 1]), np.sign(ROWS - 0.3)
LOSS_CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **dict.fromkeys(
        ("l2_loss", "log_cosh", "squared_error", "cosine_distance", "cosine_similarity"), ((LOGITS, ROWS), {})
    ),
    **dict.fromkeys(("softmax_cross_entropy", "safe_softmax_cross_entropy"), ((LOGITS, ROWS), {})),
    **dict.fromkeys(("kl_divergence", "generalized_kl_divergence"), ((np.log(ROWS[::-1] + 0.1), ROWS), {})),
    "hinge_loss": ((LOGITS, SIDES), {}),
    "kl_divergence_with_log_targets": ((LOGITS, LOGITS[::-1]), {}),
    "huber_loss": ((LOGITS, ROWS), {"delta": 0.3}),
    "poly_loss_cross_entropy": ((LOGITS, ROWS), {"epsilon": 0.5}),
    "sigmoid_binary_cross_entropy": ((LOGITS, ROWS), {}),
    "sigmoid_focal_loss": ((LOGITS, (SIDES > 0) * 1.0), {"alpha": 0.3, "gamma": 1.5}),
    "smooth_labels": ((ROWS, 0.1), {}),
    "softmax_cross_entropy_with_integer_labels": ((LOGITS, CLASSES), {"axis": -1}),
    "ctc_loss": (
        (
            np.stack([LOGITS, LOGITS[::-1]]),
            np.array([[0, 0, 0, 0], [0, 0, 0, 1.0]]),
            np.array([[1, 2], [2, 0]]),
            np.array([[0, 0.0], [0, 1]]),
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", LOSS_CALLS)
def test_losses_are_optaxs(name: str) -> None:
    """Values and gradients by the first argument, to 1e-11."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    (x, *rest), options = LOSS_CALLS[name]
    theirs, own = getattr(optax.losses, name), getattr(for_optax, name)
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        want = jax.jit(jax.value_and_grad(lambda x: (theirs(x, *rest, **options) ** 2).sum()))(x)
        found = afx.value_and_grad(lambda x: (own(x, *rest, **options) ** 2).sum())(x)
    for z, w in zip(found, want, strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"axis": 1}, {"axis": 1, "keepdims": True}])
def test_norms_that_are_not_below_a_number_are_optaxs(options: dict[str, Any]) -> None:
    """Values and gradients, which are 0 where the number stands."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    for x in (np.array([[3.0, 4.0], [0.0, 0.0]]), np.zeros((2, 2))):
        with jax.enable_x64(True):
            want = jax.value_and_grad(lambda x: optax.safe_norm(x, 1e-3, **options).sum())(x)
        found = afx.value_and_grad(lambda x: for_optax.safe_norm(x, 1e-3, **options).sum())(x)
        for z, w in zip(found, want, strict=True):
            np.testing.assert_allclose(z, np.asarray(w), rtol=1e-12)


SETS: dict[str, tuple[Any, ...]] = {
    "box": (-0.1, 0.2), "halfspace": (np.arange(5.0), 0.3), "hypercube": (0.5,), "hyperplane": (np.arange(5.0), 0.3),
    "l1_ball": (1.5,), "l2_ball": (0.5,), "l2_sphere": (2.0,), "linf_ball": (0.5,), "non_negative": (), "simplex": (1.5,),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_projections_are_optaxs(name: str) -> None:
    """And jaxopt's, whose bounds and planes come in pairs."""
    jax: Any = pytest.importorskip("jax", reason="the reference is Optax's")
    optax: Any = pytest.importorskip("optax", reason="the reference is Optax's")
    x, extra, name = np.random.default_rng(3).normal(size=5), SETS[name], f"projection_{name}"
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        want = np.asarray(getattr(optax.projections, name)(x, *extra))
        np.testing.assert_allclose(getattr(optax_trees, name)(x, *extra), want, rtol=1e-11, atol=1e-13)
        extra = (extra,) if len(extra) > 1 else extra
        np.testing.assert_allclose(getattr(for_jaxopt, name)(x, *extra), want, rtol=1e-11, atol=1e-13)
