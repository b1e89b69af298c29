"""`afx.migrate.for_lax` beside `jax.lax`: values and dtypes, gradients of windows, and implicit derivatives."""

import itertools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import ArgumentError
from afx.migrate import for_jax, for_jaxopt, for_lax, for_stax, migrate_source

jax: Any = pytest.importorskip("jax", reason="jax is no dependency")

RNG = np.random.default_rng(0)
X, K, K4 = [RNG.normal(size=s) for s in ((2, 9, 8, 4), (3, 2, 2, 6), (3, 2, 4, 5))]
M, SMALL = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4, 3, 2))
FRONT = X.transpose(0, 3, 1, 2)
AXES = ("NHWC", "HWIO", "NHWC")
CASES: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "conv": lambda o, a: o.conv(a(FRONT), a(SMALL), (2, 1), "SAME"),
    "padded": lambda o, a: o.conv_with_general_padding(
        a(FRONT), a(SMALL), (1, 1), ((2, 0), (1, -1)), (1, 2), (2, 1)
    ),
    "groups": lambda o, a: o.conv_general_dilated(
        a(X), a(K), (2, 1), "SAME", dimension_numbers=AXES, feature_group_count=2
    ),
    "same_lower": lambda o, a: o.conv_general_dilated(a(X), a(K4), (2, 3), "SAME_LOWER", dimension_numbers=AXES),
    "dilated": lambda o, a: o.conv_general_dilated(
        a(X), a(K4), (1, 2), ((1, -1), (2, 0)), (2, 1), (1, 2), o.conv_dimension_numbers(X.shape, K4.shape, AXES)
    ),
    "odd_axes": lambda o, a: o.conv_general_dilated(
        a(X.transpose(1, 2, 3, 0)), a(K4.transpose(3, 2, 1, 0)), (1, 1), "VALID", dimension_numbers=("HWCN", "OIWH", "CNHW")
    ),
    "line": lambda o, a: o.conv_general_dilated(a(FRONT[:, :, 0]), a(SMALL[..., 0]), (1,), "VALID"),
    "transpose_same": lambda o, a: o.conv_transpose(a(X), a(K4), (2, 2), "SAME"),
    "transpose_valid": lambda o, a: o.conv_transpose(a(X), a(K4), (2, 3), "VALID"),
    "transpose_kernel": lambda o, a: o.conv_transpose(
        a(X), a(K4.swapaxes(2, 3)), (1, 2), "SAME", transpose_kernel=True
    ),
    "transpose_pairs": lambda o, a: o.conv_transpose(a(X), a(K4), (1, 1), ((2, 0), (1, 1)), (2, 1), AXES),
    "max_window": lambda o, a: o.reduce_window(a(X), -np.inf, MAX(o), (1, 2, 3, 1), (1, 2, 1, 1), "SAME"),
    "sum_window": lambda o, a: o.reduce_window(
        a(X), 0.0, ADD(o), (1, 2, 3, 1), (1, 2, 1, 1), ((0, 0), (1, 0), (0, 2), (0, 0))
    ),
    "spread_window": lambda o, a: o.reduce_window(a(M), 1.0, MUL(o), (2, 2), (1, 1), "VALID", (2, 1)),
    "whole_window": lambda o, a: o.reduce_window(a(np.arange(6)), 0, ADD(o), (2,), (1,), "VALID"),
    "pad": lambda o, a: o.pad(a(M), 1.5, [(1, -1, 2), (-1, 2, 0)]),
    "pad_empty": lambda o, a: o.pad(a(np.zeros((0, 2))), 1.0, [(1, 1, 2), (0, 0, 0)]),
    "dot_general": lambda o, a: o.dot_general(a(X), a(X[:, ::-1]), (((2,), (2,)), ((0, 3), (0, 3)))),
    "dot_outer": lambda o, a: o.dot_general(a(M[0]), a(M[1]), (((), ()), ((), ()))),
    "div": lambda o, a: (
        o.div(a(np.array([7, -7, 8, -8])), a(np.array([2, 2, -3, -4]))), o.div(a(M), a(M + 9.0)), o.div(-7, 2),
    ),
    "complex": lambda o, a: o.complex(a(M), a(M[::-1])),
    "collapse": lambda o, a: (o.collapse(a(X), 1, 3), o.collapse(a(X), 1)),
    "broadcast": lambda o, a: (o.broadcast(a(M), (2,)), o.broadcast_in_dim(a(M), (2, 3, 5, 4), (1, 3))),
    "reduce": lambda o, a: (o.reduce(a(X), 0.5, ADD(o), (1, 3)), o.reduce(a(M), -np.inf, MAX(o), (0,))),
    "sort": lambda o, a: o.sort((a(np.array([2, 1, 2, 1])), a(np.array([4.0, 3, 1, 9])), a(np.arange(4))), num_keys=2),
    "sort_axis": lambda o, a: (o.sort(a(M), dimension=0), o.sort_key_val(a(M), a(-M), 0)),
    "slices": lambda o, a: (
        o.slice(a(X), (0, 1, 1, 0), (1, 7, 8, 4), (1, 2, 3, 1)), o.slice_in_dim(a(X), 1, 6, 2, 1),
        o.slice_in_dim(a(X), 0, -1, axis=1), o.index_in_dim(a(X), -1, 2), o.index_in_dim(a(X), 1, -1, False),
    ),
    "select_n": lambda o, a: (
        o.select_n(a(np.array([0, 2, 1])), *[a(np.full(3, v)) for v in (0.0, 1.0, 2.0)]), o.select_n(a(M > 0), a(M), a(-M)),
    ),
    "update": lambda o, a: (
        o.dynamic_update_index_in_dim(a(M), a(np.zeros(3)), 9, 1), o.dynamic_update_index_in_dim(a(M), a(M[:1]), 1, 0),
    ),
    "numbers": lambda o, a: (o.broadcasted_iota(np.int32, (2, 3), 0), o.iota(np.float32, 4), o.full((2,), 3.0)),
    "kinds": lambda o, a: (
        o.argmax(a(M), 1, np.int32), o.argmin(a(M), axis=0, index_dtype=np.int32), o.convert_element_type(a(M), np.int32),
        o.concatenate([a(M), a(M)], dimension=1),
    ),
    "bits": lambda o, a: o.population_count(a(np.array([-3, -1, 0, 2, 5]))),
    "precision": lambda o, a: o.reduce_precision(a(np.array([1.0 + 2**-11, -np.pi, 1e5, 1e-9, 0.0, -0.0, np.inf])), 5, 10),
}  # fmt: skip


def MAX(o: Any) -> Any:
    """Return the function for the larger one."""
    return afx.maximum if o is for_lax else o.max


def ADD(o: Any) -> Any:
    """Return addition."""
    return afx.add if o is for_lax else o.add


def MUL(o: Any) -> Any:
    """Return multiplication."""
    return afx.multiply if o is for_lax else o.mul


@pytest.mark.parametrize("case", CASES)
def test_values_are_laxs(case: str) -> None:
    """In float64 to 1e-12, with the same dtypes and shapes."""
    with jax.enable_x64(True):
        wanted = [np.asarray(z) for z in jax.tree.leaves(CASES[case](jax.lax, jax.numpy.asarray))]
    with afx.default_dtype(afx.float64):
        found = [np.asarray(z) for z in afx.pytree.leaves(CASES[case](for_lax, afx.asarray))]
    for z, want in zip(found, wanted, strict=True):
        assert (z.dtype, z.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(z, want, rtol=1e-12, atol=1e-12)


GRADS = ["conv", "dilated", "transpose_same", "max_window", "sum_window", "pad", "dot_general", "sort_axis", "slices"]


@pytest.mark.parametrize("case", GRADS)
def test_derivatives_are_laxs(case: str) -> None:
    """Of the sum of squares of all results, compiled, by a number that multiplies all operands, some of which are equal."""

    def loss(o: Any, asarray: Any, tree: Any, s: Any) -> Any:
        parts = tree.leaves(CASES[case](o, lambda x: asarray(np.round(x, 1)) * s))
        return sum([(z * z).sum() for z in parts])

    with jax.enable_x64(True):
        want = float(jax.jit(jax.grad(lambda s: loss(jax.lax, jax.numpy.asarray, jax.tree, s)))(1.5))
    found = afx.jit(afx.grad(lambda s: loss(for_lax, afx.asarray, afx.pytree, s)))(np.float64(1.5))
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_window_gives_its_first_largest_element_the_derivative() -> None:
    """Element by element, where there are ties."""
    x = np.array([1.0, 3.0, 3.0, 0.0, 3.0])
    with jax.enable_x64(True):
        want = jax.grad(lambda v: jax.lax.reduce_window(v, -np.inf, jax.lax.max, (3,), (1,), "SAME").sum())(x)
    found = afx.grad(lambda v: for_lax.reduce_window(v, -np.inf, afx.maximum, (3,), (1,), "SAME").sum())(x)
    np.testing.assert_array_equal(found, np.asarray(want))


def solutions(o: Any, np_: Any, theta: Any, fori_loop: Any) -> Any:
    """Return what two solvers find, as functions of parameters."""

    def step(f: Any, x: Any) -> Any:
        return x - 0.5 * f(x)

    def iterate(f: Any, x: Any) -> Any:
        return fori_loop(0, 100, lambda _, x: step(f, x), x)

    def linear(g: Any, y: Any) -> Any:
        return np_.linalg.solve(np_.stack([g(e) for e in np_.eye(2)], axis=1), y)

    root = o.custom_root(lambda x: x - np_.tanh(theta @ x + 0.3), np_.zeros(2), iterate, linear)
    solved = o.custom_linear_solve(lambda x: theta @ x, root, linear, lambda mv, b: np_.linalg.solve(theta.T, b))
    return (solved * root).sum()


def test_solutions_have_implicit_derivatives() -> None:
    """First and second ones, to 1e-12."""
    theta = np.array([[0.5, -0.2], [0.1, 0.4]])
    with jax.enable_x64(True):
        j = jax.numpy
        want = jax.jit(jax.value_and_grad(lambda t: solutions(jax.lax, j, t, jax.lax.fori_loop)))(j.asarray(theta))
        second = jax.jit(jax.hessian(lambda t: solutions(jax.lax, j, t, jax.lax.fori_loop)))(j.asarray(theta))
    with afx.default_dtype(afx.float64):
        found = afx.value_and_grad(lambda t: solutions(for_lax, afx, t, afx.fori_loop))(afx.asarray(theta))
        twice = afx.hessian(lambda t: solutions(for_lax, afx, t, afx.fori_loop))(afx.asarray(theta))
    for z, w in zip((*found, twice), (*want, second), strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-10, atol=1e-12)


def test_what_cannot_be_had_is_an_error() -> None:
    """Names that JAX has and the tool has not, groups of the batch, and paddings of other names."""
    with pytest.raises(AttributeError, match="no attribute 'all_to_all'"):
        for_lax.all_to_all(1.0, "i", 0, 0)
    with pytest.raises(ArgumentError, match="groups of the batch"):
        for_lax.conv_general_dilated(X, K4, (1, 1), "SAME", dimension_numbers=AXES, batch_group_count=2)
    with pytest.raises(ArgumentError, match="padding: is VALID"):
        for_lax.conv(FRONT, SMALL, (1, 1), "CIRCULAR")


def test_as_many_places_as_are_asked_for() -> None:
    """``size=`` pads with a number, and cuts, as in `jax.numpy`."""
    x = np.array([[0, 2, 0], [3, 0, 1]])

    def places(o: Any, x: Any) -> dict[str, Any]:
        ways = itertools.product(("flatnonzero", "nonzero", "argwhere", "unique"), (1, 3, 8), (None, -1))
        return {f"{way}": getattr(o, way[0])(x, size=way[1], fill_value=way[2]) for way in ways}

    wanted = jax.jit(lambda x: places(jax.numpy, x))(x)
    for way, found in places(for_jax, x).items():
        for z, w in zip(afx.pytree.leaves(found), jax.tree.leaves(wanted[way]), strict=True):
            np.testing.assert_array_equal(z, np.asarray(w), way)


def test_convolutions_of_stax() -> None:
    """Shapes, values with stax's weights to 1e-12, and dropped elements."""
    stax: Any = pytest.importorskip("jax.example_libraries.stax", reason="the reference is stax's")

    def make(s: Any) -> Any:
        layers = (
            s.Conv(5, (3, 2), (2, 1), "SAME"),
            s.BatchNorm(),
            s.MaxPool((2, 2)),
            s.Conv(2, (2, 2)),
            s.BatchNorm((0, 1), 1e-3, center=False),
            s.AvgPool((2, 2), (2, 1), "SAME"),
        )
        return s.serial(*layers, s.Flatten, s.Dense(3))

    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        (init, apply), (own_init, own_apply) = make(stax), make(for_stax)
        shape, params = init(jax.random.key(0), (2, 9, 8, 4))
        own_shape, own = own_init(afx.random.key(0), (2, 9, 8, 4))
        assert own_shape == shape
        assert own_init(afx.random.key(0), (-1, 9, 8, 4))[0] == init(jax.random.key(0), (-1, 9, 8, 4))[0]
        assert afx.pytree.map(np.shape, own) == jax.tree.map(np.shape, params)
        weights = jax.tree.map(np.asarray, params)
        np.testing.assert_allclose(own_apply(weights, X), np.asarray(jax.jit(apply)(params, X)), rtol=1e-12, atol=1e-14)
    dropped = for_stax.Dropout(0.8)[1]((), np.ones(500), rng=afx.random.key(0))
    assert sorted(set(np.asarray(dropped).tolist())) == [0.0, 1.25]


def test_iterative_solvers_take_trees() -> None:
    """The unknowns of a linear system may be a tree of any shapes."""
    b = {"u": SMALL[0, 0], "v": SMALL[0, 1, 0]}
    x, _ = for_jaxopt.cg(lambda t: afx.pytree.map(lambda z: 2.0 * z, t), b, x0=b, tol=1e-12)
    np.testing.assert_allclose(x["u"], b["u"] / 2, rtol=1e-12)
    assert x["v"].shape == (2,)


@pytest.mark.parametrize("method", ["nearest", "linear", "bilinear", "trilinear", "cubic", "bicubic"])
def test_sizes_of_images(method: str) -> None:
    """Larger and smaller ones, with averages over what is left out or without, to 1e-12, and gradients."""
    with jax.enable_x64(True):
        for shape in ((2, 13, 5, 4), (2, 4, 11, 4), (2, 9, 8, 4), (1, 3, 16, 2)):
            for antialias in (True, False):
                want = jax.image.resize(jax.numpy.asarray(X), shape, method, antialias=antialias)
                np.testing.assert_allclose(
                    for_lax.resize(X, shape, method, antialias=antialias), np.asarray(want), rtol=1e-12, atol=1e-12
                )
        want = jax.grad(lambda x: (jax.image.resize(x, (5, 3), method) ** 3).sum())(jax.numpy.asarray(M))
    found = afx.grad(lambda x: (for_lax.resize(x, (5, 3), method) ** 3).sum())(afx.asarray(M))
    np.testing.assert_allclose(found, np.asarray(want), rtol=1e-11, atol=1e-12)
    with pytest.raises(ArgumentError, match="nearest, linear or cubic"):
        for_lax.resize(M, (2, 2), "lanczos3")


def test_schedules_and_initializers_are_jaxs() -> None:
    """Steps of rates, and draws of axes by their numbers."""
    theirs: Any = pytest.importorskip("jax.example_libraries.optimizers", reason="the reference is JAX's")
    for make in (
        lambda o: o.piecewise_constant([3, 6], [0.3, 0.2, 0.1]),
        lambda o: o.polynomial_decay(0.5, 6, 0.1, 2.0),
        lambda o: getattr(o, "make_schedule")(0.25),  # noqa: B009  # of two modules
    ):
        want, own = make(theirs), make(for_stax)
        np.testing.assert_allclose([float(own(k)) for k in range(9)], [float(want(k)) for k in range(9)], rtol=1e-6)
    key = afx.random.key(0)
    for axes in ((0, 1), (1, 0), (-1, 0)):
        draws = np.asarray(for_stax.glorot_normal(*axes)(key, (300, 200), np.float64))
        assert draws.shape == (300, 200)
        assert abs(draws.std() / np.sqrt(2 / 500) - 1) < 0.02
    assert abs(np.asarray(for_stax.he_normal(0, 1)(key, (400, 100))).std() / np.sqrt(2 / 400) - 1) < 0.02
    assert abs(np.asarray(for_stax.he_normal(1, 0)(key, (400, 100))).std() / np.sqrt(2 / 100) - 1) < 0.02
    with pytest.raises(ArgumentError, match="inputs and outputs are an axis each"):
        for_stax.he_normal((0, 1), 2)
    assert np.abs(for_stax.truncated_normal(1.0, lower=-1.0)(key, (99,))).max() <= 2.0


def test_norms_of_trees_keep_their_dtype() -> None:
    """Gradients that are cut to a norm are float32, as those of JAX, in a compiled step too."""
    tree = {"a": afx.asarray([3.0, 4.0]), "b": afx.asarray(12.0)}
    lines = "import optax", "from jax.example_libraries import optimizers"
    for text in ("optax.global_norm", "optimizers.l2_norm"):
        names: dict[str, Any] = {}
        exec(migrate_source("\n".join([*lines, f"norm = {text}"]), "jax")[0], names)
        size = afx.jit(names["norm"])(tree)
        assert (float(size), size.dtype) == (13.0, np.float32)
    for limit in (6.5, 26.0):
        cut = afx.jit(lambda tree, limit=limit: for_stax.clip_grads(tree, limit))(tree)
        np.testing.assert_allclose(cut["a"], np.minimum(limit / 13, 1) * np.array([3.0, 4.0]), rtol=1e-6)
        assert {x.dtype for x in afx.pytree.leaves(cut)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("numbers", [None, ("NHWC", "HWIO", "NHWC")])
def test_patches_are_jaxs(numbers: Any) -> None:
    """Channels of windows, with steps and zeros around."""
    x = np.arange(2.0 * 5 * 4 * 3).reshape(2, 5, 4, 3)
    options = {"rhs_dilation": (1, 2), "dimension_numbers": numbers}
    with jax.enable_x64(True):
        want = np.asarray(jax.lax.conv_general_dilated_patches(x, (2, 2), (2, 1), "SAME", **options))
    np.testing.assert_array_equal(for_lax.conv_general_dilated_patches(x, (2, 2), (2, 1), "SAME", **options), want)


def _standardize(lax: Any, np_: Any, x: Any) -> Any:
    rest = x - lax.pmean(x, "b")
    return rest / np_.sqrt(lax.pmean(rest**2, "b") + 0.1)


NAMED: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "mean": lambda lax, np_, whole, v: whole(lambda x: _standardize(lax, np_, x), axis_name="b")(v),
    "compiled": lambda lax, np_, whole, v: whole(np_.jit(lambda x: _standardize(lax, np_, x)), axis_name="b")(v),
    "compiled outside": lambda lax, np_, whole, v: np_.jit(whole(lambda x: _standardize(lax, np_, x), axis_name="b"))(v),
    "gradient outside": lambda lax, np_, whole, v: np_.grad(
        lambda z: np_.sin(whole(lambda x: _standardize(lax, np_, x), axis_name="b")(z)).sum()
    )(v),
    "gradient within": lambda lax, np_, whole, v: whole(
        np_.grad(lambda x: np_.sin(_standardize(lax, np_, x)).sum()), axis_name="b"
    )(v),
    "slope within": lambda lax, np_, whole, v: whole(
        lambda x: np_.jvp(lambda z: lax.psum(z * z, "b"), (x,), (np_.cos(x),)), axis_name="b"
    )(v),
    "other axes": lambda lax, np_, whole, v: whole(
        lambda x: np_.vmap(lambda e: (lax.pmax(e * 2, "b"), e - lax.pmin(e, "b")))(x), axis_name="b", out_axes=(None, 1)
    )(v),
    "place": lambda lax, np_, whole, v: whole(lambda x: lax.psum(x, "b") * lax.axis_index("b"), axis_name="b")(v),
    "length": lambda lax, np_, whole, v: whole(lambda x, k: x * lax.psum(1, "b") + k, (1, None), 1, axis_name="b")(v, 2.0),
    "gathered": lambda lax, np_, whole, v: whole(
        lambda x: (lax.all_gather(x, "b"), lax.all_gather(x, "b", axis=1), lax.all_gather(x, "b", tiled=True)),
        axis_name="b",
    )(v),
    "passed on": lambda lax, np_, whole, v: whole(
        lambda x: lax.ppermute({"x": x}, "b", [(0, 2), (1, 0), (2, 3), (3, 1)]), axis_name="b"
    )(v),
    "two axes": lambda lax, np_, whole, v: whole(
        whole(lambda e: lax.psum(e, "i") * e + lax.psum(e, ("i", "j")) * lax.axis_index("j"), axis_name="j"), axis_name="i"
    )(v),
    "steps": lambda lax, np_, whole, v: whole(
        lambda x: np_.scan(lambda c, e: (c + lax.pmean(c * e, "b"), c), x, np.arange(3.0)), axis_name="b"
    )(v),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_named_axes_are_jaxs(name: str) -> None:
    """Sums, means, extremes, places and gathered values along them, differentiated and compiled inside and outside."""
    v = RNG.normal(size=(4, 3))
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        theirs = {**vars(jax.numpy), "jit": jax.jit, "grad": jax.grad, "jvp": jax.jvp, "vmap": jax.vmap}
        np_ = types.SimpleNamespace(**theirs, scan=jax.lax.scan)
        want = jax.tree.leaves(NAMED[name](jax.lax, np_, jax.vmap, jax.numpy.asarray(v)))
        found = afx.pytree.leaves(NAMED[name](for_lax, afx, for_lax.vmap, afx.asarray(v)))
    for z, w in zip(found, want, strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-12, atol=1e-13)


def test_named_axes_end() -> None:
    """A compiled function meets along the axis of each call; outside of it there is none, and one device computes all."""
    compiled = afx.jit(lambda x: for_lax.psum(x, "b"))
    for n in (3, 2, 3):
        np.testing.assert_array_equal(for_lax.pmap(compiled, "b")(np.ones((n, 2))), np.full((n, 2), n))
    with pytest.raises(NameError, match="unbound axis name: b: give it to vmap as axis_name"):
        for_lax.psum(np.ones(2), "b")
    with pytest.raises(TypeError, match="axis_index_groups"):  # which would be other sums
        for_lax.psum(np.ones(2), "b", axis_index_groups=[[0], [1]])
    later: list[Any] = []
    for_lax.vmap(lambda x: later.append(lambda: for_lax.psum(x, "b")), axis_name="b", axis_size=2)(np.ones(2))
    with pytest.raises(NameError):
        later[0]()
    with for_lax.Placement((1,), ("x",)) as mesh:
        assert isinstance(mesh, for_lax.Placement)
    assert [for_lax.device_count(), for_lax.process_index(), for_lax.default_backend()] == [1, 0, "cpu"]
    assert repr(for_lax.devices()) == repr(jax.devices("cpu")[:1])
