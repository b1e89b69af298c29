"""What a mask leaves out has derivative 0 through every op: loops, branches, compiled and custom functions, products."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, nn
from tests.every import together

V = np.array([[4.0, 9.0, 16.0], [-1.0, 0.0, -2.0], [1.0, 2.0, 3.0]])  # the second row is padding
ALIVE = np.array([True, False, True])
W = np.arange(6.0).reshape(3, 2) - 2.2
EYE = np.eye(3)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the forward pass, at the padding


def scanned(v: Array) -> Any:
    """Return the last of three steps."""
    return afx.scan(lambda c, _: (1.5 * afx.sqrt(c), None), v, None, length=3)[0]


def held(v: Array) -> Any:
    """Return whether a value that is unknown while compiling holds."""
    return afx.sum(afx.nan_to_num(afx.stop_gradient(v))) > -1000.0


def looped(v: Array) -> Any:
    """Return the state of a loop whose end depends on values."""
    return afx.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 1, 1.5 * afx.sqrt(s[1])), (0.0 * held(v), v))[1]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "scan": scanned,
    "fori_loop": lambda v: afx.fori_loop(0, 3, lambda _, c: 1.5 * afx.sqrt(c), v),
    "while_loop": looped,
    "cond": lambda v: afx.cond(held(v), afx.sqrt, afx.log, v),
    "switch": lambda v: afx.switch(afx.astype(held(v), np.int64), [afx.sin, afx.log], v),
    "custom_jvp": afx.custom_jvp(afx.sqrt, lambda x, t: (afx.sqrt(x[0]), t[0] / (2 * afx.sqrt(x[0])))),
    "jit": afx.jit(lambda v: afx.log(v)),
    "checkpoint": afx.checkpoint(lambda v: afx.log(v)),
    "compiled loop": afx.jit(afx.checkpoint(scanned)),
    "cumulative_sum": lambda v: afx.cumulative_sum(afx.log(v), axis=1),
    "cumulative_prod": lambda v: afx.cumulative_prod(afx.sqrt(v), axis=1),
    "fft": lambda v: afx.real(afx.fft.fft(afx.log(v), axis=1)),
    "softmax": lambda v: nn.softmax(afx.log(v), axis=1),
    "log_softmax": lambda v: nn.log_softmax(afx.log(v), axis=1),
    "logsumexp": lambda v: afx.logsumexp(afx.log(v), axis=1)[:, None] + 0 * v,
    "prod": lambda v: afx.prod(afx.sqrt(v), axis=1, keepdims=True) * v,
    "norm": lambda v: afx.linalg.norm(afx.sqrt(v), axis=1, keepdims=True) * v,
    "std": lambda v: afx.std(afx.sqrt(v), axis=1, keepdims=True) * v,
    "sort": lambda v: afx.sort(afx.sqrt(v), axis=1),
    "matmul": lambda v: afx.log(v) @ (W @ W.T),
    "einsum": lambda v: afx.einsum("ij,jk->ik", afx.log(v), W @ W.T),
    "conv": lambda v: nn.conv(afx.log(v)[:, :, None], W[:2].reshape(2, 1, 2), padding="same")[..., 0],
    "inv": lambda v: afx.linalg.inv(EYE * afx.log(v)[:, :, None] + 1.0)[:, 0],
    "solve": lambda v: afx.linalg.solve(EYE + 0.1 * afx.log(v)[:, :, None], v[:, :, None])[..., 0],
    "vmap": lambda v: afx.vmap(lambda r: afx.log(r) / afx.sum(afx.sqrt(r)))(v),
}
SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "where": lambda z: afx.where(ALIVE[:, None], z, 0.0),
    "slice": lambda z: z[::2],
}


def modes(loss: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """Return the gradient in every mode."""
    return {
        "eager": afx.grad(loss),
        "compiled": afx.jit(afx.grad(loss)),
        "of compiled": afx.grad(afx.jit(loss)),
        "mapped": lambda x: afx.vmap(afx.grad(loss))(x[None])[0],
        "of checkpointed": afx.grad(afx.checkpoint(loss)),
    }


@together("selection", SELECTIONS)
@together("function", FUNCTIONS)
def test_padding_has_derivative_zero(function: str, selection: str) -> None:
    """Where a mask or a slice leaves rows out, every mode gives what guarding the operand too gives."""
    fn, choose = FUNCTIONS[function], SELECTIONS[selection]
    loss = lambda v: afx.sum(choose(fn(v)) ** 2)
    guarded = lambda v: loss(afx.where(ALIVE[:, None], v, 2.5))
    want = np.asarray(afx.grad(guarded)(V))
    assert np.isfinite(want).all()
    for mode, gradient in modes(loss).items():
        np.testing.assert_allclose(np.asarray(gradient(V)), want, rtol=1e-9, atol=1e-12, err_msg=mode)


@pytest.mark.parametrize(
    "function", ["scan", "while_loop", "cond", "custom_jvp", "jit", "checkpoint", "matmul", "softmax", "solve"]
)
def test_second_derivatives(function: str) -> None:
    """So are second derivatives, forward over reverse and reverse over reverse, plain and compiled."""
    loss = lambda v: afx.sum(SELECTIONS["where"](FUNCTIONS[function](v)) ** 2)
    guarded = lambda v: loss(afx.where(ALIVE[:, None], v, 2.5))
    want = np.asarray(afx.hessian(guarded)(V))
    reverse = afx.jacrev(afx.grad(loss))
    for hessian in (afx.hessian(loss), afx.jit(afx.hessian(loss)), reverse, afx.jit(reverse)):
        np.testing.assert_allclose(np.asarray(hessian(V)), want, rtol=1e-8, atol=1e-10)


LAYERS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda w, x: x @ w,
    "compiled": afx.jit(lambda w, x: afx.tanh(x @ w)),
    "checkpointed": afx.checkpoint(lambda w, x: x @ w),
    "mapped": afx.jit(lambda w, x: afx.vmap(lambda row: row @ w)(x)),
    "deep": afx.jit(lambda w, x: nn.relu(x @ w) @ w.T),
    "einsum": lambda w, x: afx.einsum("ni,ij->nj", x, w),
    "convolution": lambda w, x: nn.conv(x[:, :, None], w[:, None, :], padding="same"),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_padded_batch_through_a_layer(layer: str) -> None:
    """The weights' gradient is that of the batch without its padding, though the padding holds nan."""
    fn = LAYERS[layer]
    x = V.copy()
    x[1] = np.nan
    want = np.asarray(afx.grad(lambda w: afx.sum(fn(w, V[::2]) ** 2))(W))

    def masked(w: Array) -> Any:
        z = fn(w, x)
        return afx.sum(afx.where(ALIVE.reshape(-1, *[1] * (z.ndim - 1)), z, 0.0) ** 2)

    for loss in (masked, lambda w: afx.sum(fn(w, x)[::2] ** 2)):
        for mode, gradient in modes(loss).items():
            np.testing.assert_allclose(np.asarray(gradient(W)), want, rtol=1e-10, err_msg=mode)


X = np.array([0.0, 1.0, 4.0])


def guarded_cube(y: Any, x: Any) -> Any:
    """Return the cube where x is positive."""
    return afx.where(x > 0, y * y * y, 0.0)


INNER: dict[str, Callable[[Any, Any], Any]] = {
    "jit": afx.jit(guarded_cube),
    "checkpoint": afx.checkpoint(guarded_cube),
    "custom_jvp": afx.custom_jvp(guarded_cube, lambda x, t: afx.jvp(guarded_cube, x, t)),
    "elements": lambda y, x: afx.scan(lambda c, e: (c, guarded_cube(*e)), 0.0, (y, x))[1],
    "carry": lambda y, x: afx.scan(lambda c, e: (c + guarded_cube(*e), None), 0.0 * y[1], (y, x))[0],
    "constants": lambda y, x: afx.fori_loop(0, 3, lambda _, c: c * afx.where(x > 0, y, 1.0), afx.ones_like(x)),
    "while_loop": lambda y, x: afx.while_loop(
        lambda s: afx.sum(s) < 3.0 * afx.sum(x), lambda s: s + guarded_cube(y, x), 0.0 * x
    ),
    "cond": lambda y, x: afx.cond(afx.sum(x) > 0, lambda y: guarded_cube(y, x), lambda y: y, y),
}


@pytest.mark.parametrize("inner", INNER)
def test_masks_made_inside_reach_what_stands_before(inner: str) -> None:
    """A choice inside of a loop, a branch or a held function guards the root that was taken before it."""
    loss = lambda x: afx.sum(INNER[inner](afx.sqrt(x), afx.stop_gradient(x)))
    guarded = lambda x: loss(afx.where(x > 0, x, 2.0))
    want, curvature = np.asarray(afx.grad(guarded)(X)), np.asarray(afx.hessian(guarded)(X))
    for mode, gradient in modes(loss).items():
        np.testing.assert_allclose(np.asarray(gradient(X)), want, rtol=1e-10, err_msg=mode)
    for hessian in (afx.hessian(loss), afx.jit(afx.jacrev(afx.grad(loss)))):
        np.testing.assert_allclose(np.asarray(hessian(X)), curvature, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("slope", [afx.sinc, afx.tanh, lambda x: afx.log(x * x), lambda x: afx.sqrt(x * x)])
def test_a_compiled_gradient_differentiates_again(slope: Callable[[Any], Any]) -> None:
    """The gradient of a loop that skips nan rows is compiled by itself, and its derivatives skip them too."""
    rows, alive = np.array([[0.5, -0.2, 0.9], [np.nan, np.nan, np.nan]]), np.array([True, False])
    v = np.array([1.0, 2.0, -0.5])

    def loss(y: Any) -> Any:
        step = lambda c, x: (afx.where(x[1], slope(x[0]) + 0.1 * c, c), None)
        return afx.sum(afx.scan(step, afx.ones(3, dtype=np.float64), (y, alive))[0] ** 2)

    product = lambda y: afx.sum(afx.jit(afx.grad(loss))(y)[0] * v)
    want = np.asarray(afx.grad(lambda y: afx.sum(afx.grad(lambda y: afx.sum((slope(y) + 0.1) ** 2))(y) * v))(rows[0]))
    for run in (afx.grad(product), afx.jit(afx.grad(product)), afx.grad(afx.jit(product))):
        np.testing.assert_allclose(np.asarray(run(rows)), [want, np.zeros(3)], rtol=1e-11)


def test_rules_of_the_user_are_cleaned_by_the_structure_of_the_function() -> None:
    """The backward rule of a custom_vjp is opaque; elements that no living result reads still get 0."""
    root = afx.custom_vjp(afx.sqrt, lambda x: (afx.sqrt(x), x), lambda x, ct: (ct / (2 * afx.sqrt(x)),))
    loss = lambda x: afx.sum(afx.where(x > 0, root(x), 0.0))
    for gradient in modes(loss).values():
        assert np.asarray(gradient(X)).tolist() == [0.0, 0.5, 0.25]


def test_a_straight_through_rule_keeps_its_derivative() -> None:
    """The structure counts, not the derivative of the function: one that is flat keeps the gradient of its rule."""
    rounded = afx.custom_vjp(afx.round, lambda x: (afx.round(x), None), lambda _, ct: (ct,))
    loss = lambda x: afx.sum(afx.where(x > 0, rounded(x) / x, 0.0))
    for gradient in modes(loss).values():
        np.testing.assert_allclose(np.asarray(gradient(np.array([0.0, 1.25, 4.0]))), [0.0, 0.16, 0.0], atol=1e-15)


def test_what_is_alive_keeps_nan() -> None:
    """Masks hide nothing that a living element reads."""
    x = np.array([[np.nan, 1.0], [2.0, 3.0]])
    for loss in (lambda w: afx.sum((x @ w)[0]), lambda w: afx.sum(afx.where(ALIVE[:2, None], x @ w, 0.0))):
        for gradient in modes(loss).values():
            assert np.isnan(np.asarray(gradient(np.ones((2, 2))))[0]).all()


def test_masked_padding_is_silent() -> None:
    """The backward pass does not warn of what a mask discards."""
    x = np.array([0.0, 1.0, 4.0])
    for gradient in modes(lambda x: afx.sum(afx.where(x > 0, scanned(x), 0.0))).values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.asarray(gradient(x))[0] == 0.0


def test_kinks_add_nothing_to_products() -> None:
    """Networks of relu layers carry no masks through their products."""
    loss = lambda w: afx.sum(nn.relu(nn.relu(V @ w) @ w.T) ** 2)
    counts = afx.jit(afx.grad(loss)).lower(W).graph.counts()
    assert counts["matmul"] <= 5
    assert "any" not in counts


def chosen_root(x: Any) -> Any:
    """Return a root whose slope is infinite at 0, where it is not chosen."""
    return afx.where(x > 0, afx.sqrt(x) * 3.0, x)


FORWARD_MODES: dict[str, Callable[[Any], Any]] = {
    "jvp": afx.jit(lambda x: afx.jvp(chosen_root, (x,), (x,))[1]),
    "jvp of a compiled function": lambda x: afx.jvp(afx.jit(chosen_root), (x,), (x,))[1],
    "jacfwd": afx.jit(afx.jacfwd(chosen_root)),
    "hessian": afx.jit(afx.hessian(lambda x: afx.sum(chosen_root(x) * x))),
    "loop": afx.jit(
        lambda x: afx.jvp(lambda x: afx.scan(lambda c, e: (c + chosen_root(e), None), 0.0, x)[0], (x,), (x,))[1]
    ),
}


def test_kinks_add_nothing_behind_norms_either() -> None:
    """Means, broadcasts and slices that leave nothing out hand a kink's mask on as that of a kink: no product more."""

    def norm(x: Any) -> Any:
        centred = x - afx.mean(x, axis=(0, 1), keepdims=True)
        return centred / afx.sqrt(afx.mean(centred * centred, axis=(0, 1), keepdims=True) + 1e-5)

    def loss(x: Any, a: Any, b: Any, y: Any) -> Any:
        z = afx.maximum(norm(nn.conv(x, a)), 0)
        scores = afx.mean(afx.maximum(norm(nn.conv(z, b)), 0), axis=1)
        return afx.sum(afx.take_along_axis(scores, y[:, None], axis=-1)[..., 0])

    shapes = ((4, 9, 2), (3, 2, 5), (3, 5, 6))
    args = [np.random.default_rng(k).normal(size=s) for k, s in enumerate(shapes)]
    graph = afx.jit(afx.grad(loss, argnums=(1, 2))).lower(*args, np.array([0, 3, 1, 5])).graph
    names = [equation.primitive.name for equation in graph.equations]
    assert [names.count(name) for name in ("conv", "conv_input", "conv_kernel")] == [2, 1, 2]


@pytest.mark.parametrize("compile_", [False, True])
@pytest.mark.parametrize("kink", [lambda x: x, nn.relu])
def test_what_a_gather_leaves_out_is_silent_behind_sums(kink: Callable[[Any], Any], compile_: bool) -> None:
    """A root at 0, in a row that no index names, has derivative 0, behind broadcasts too."""

    def picked(x: Any, i: Any) -> Any:
        y = kink(afx.sqrt(x)[:, None] * np.array([1.0, 2.0]))
        return afx.sum(y[i, np.array([0, 1])]) + afx.sum(afx.broadcast_to(afx.sqrt(x), (2, 3))[:, i])

    fn = afx.jit(afx.grad(picked)) if compile_ else afx.grad(picked)
    slopes = np.asarray(fn(np.array([4.0, 0.0, 1.0]), np.array([0, 2])))
    np.testing.assert_allclose(slopes, [0.25 * 3, 0.0, 0.5 * 4])


def test_masks_of_kinks_go_through_what_moves_or_adds_up_elements() -> None:
    """An infinite slope behind a unit that is off has derivative 0, behind padding, joints and broadcasts too."""

    def units(x: Any) -> Any:
        wide = nn.relu((-1 / x)[:, None] * np.array([1.0, 2.0]))
        return afx.sum(nn.relu(afx.concat([afx.pad(-1 / x, 1), x]).reshape(-1, 2))) + afx.sum(wide)

    x = np.array([0.0, 2.0, -4.0])
    for fn in (afx.grad(units), afx.jit(afx.grad(units))):
        np.testing.assert_array_equal(fn(x), [0.0, 1.0, 0.25])


@pytest.mark.parametrize("mode", FORWARD_MODES)
def test_tangents_that_a_choice_discards_do_not_warn_in_plans(mode: str) -> None:
    """NumPy has nothing to say about an infinite slope that no result reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(np.asarray(FORWARD_MODES[mode](np.array([0.0, 4.0])))).all()


def test_tangents_that_results_read_warn_in_plans() -> None:
    """Beside a choice, and behind it, an infinite slope is NumPy's warning as before."""
    beside = afx.jit(lambda x: afx.jvp(lambda x: (chosen_root(x), afx.sqrt(x)), (x,), (x + 1,))[1])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        beside(np.array([0.0, 4.0]))
    behind = afx.jit(lambda x: afx.jvp(lambda x: afx.sqrt(afx.where(x > 1, x, 0.0)), (x,), (x + 1,))[1])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        behind(np.array([0.0, 4.0]))


def test_operands_without_partials_have_no_masks() -> None:
    """Masks of long chains are computed as they come; operands that nothing flows to have none (an event of rodas)."""

    def fall(g: Any) -> Any:
        def slope(_: Array, s: Array, g: Array) -> Array:
            return afx.stack([s[1], -g * s[0]])

        def height(_: Array, s: Array, __: Array) -> Array:
            return s[0] + 0.3

        start = np.array([1.0, 0.0])
        return afx.integrate.odeint(slope, start, [0.0, 4.0], g, method="rodas", event=height).event_time

    formula = -0.5 * np.arccos(-0.3) / 2.0**1.5  # of arccos(-0.3) / sqrt(g)
    assert float(afx.grad(fall)(np.float64(2.0))) == pytest.approx(formula, rel=1e-3)


@pytest.mark.parametrize("take", [lambda z: z[::2], lambda z: z[np.array([1])], lambda z: z.T[:, 1:]])
def test_branches_of_one_value_add_up_behind_slices(take: Callable[[Any], Any]) -> None:
    """Where both operands of a choice are made of one value, a part of whose choice alone is read."""
    x = np.arange(1.0, 17.0).reshape(4, 4) / 7
    signs = np.array([1.0, -1.0, 1.0, -1.0])

    def chosen(x: Any) -> Any:
        y = afx.sin(x) / afx.sum(x)
        return afx.sum(take(afx.where(signs > 0, y, -y)) ** 2 + take(afx.where(signs > 0, y, -y)))

    def multiplied(x: Any) -> Any:
        y = afx.sin(x) / afx.sum(x) * signs
        return afx.sum(take(y) ** 2 + take(y))

    wanted = afx.grad(multiplied)(x)
    for fn in (afx.grad(chosen), afx.jit(afx.grad(chosen)), lambda x: afx.vmap(afx.grad(chosen))(x[None])[0]):
        np.testing.assert_allclose(fn(x), wanted, rtol=1e-13)
