"""Sparse derivatives: every entry of the dense one is listed, few derivatives give them all."""

import importlib
import itertools
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.core.primitive import Primitive
from afx.transforms.sparse import pattern as colouring, sparse_derivatives as sparsity
from tests.every import together
from tests.ops import samples as made
from tests.ops.samples import Sample, call

RNG = np.random.default_rng(12)
X = RNG.normal(size=12)
A = np.where(RNG.uniform(size=(9, 12)) < 0.2, RNG.normal(size=(9, 12)), 0.0)
CASES = [
    pytest.param(p, sample, id=f"{p.name}-{k}")
    for p, k, sample in made.samples()
    if p.is_differentiable and sample.moving and all(x.dtype.kind == "f" for x in sample.points)
]


def _dense(fn: Callable[..., Any], x: Any) -> np.ndarray:
    """Return the Jacobian of a function of flat arrays as one matrix."""
    sizes = [np.size(v) for v in afx.pytree.leaves(x)]
    heights = [np.size(z) for z in afx.pytree.leaves(fn(x))]
    if not sum(heights):
        return np.zeros((0, sum(sizes)))
    parts = iter(afx.pytree.leaves(afx.jacrev(fn)(x)))
    return np.block([[np.asarray(next(parts)).reshape(h, n) for n in sizes] for h in heights])


def _layout(fn: Callable[..., Any], *args: Any, mode: Any = None) -> sparsity.Compression:
    layouts = sparsity.Layouts(lambda i, j, s: sparsity._jacobian_layout(i, j, s, mode), "test")
    return layouts.of(fn, 0, args, {})


def _hessian_layout(fn: Callable[..., Any], *args: Any) -> sparsity.Compression:
    return sparsity.Layouts(sparsity._hessian_layout, "test").of(afx.grad(fn), 0, args, {})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # at the edge of a domain NumPy says so
@made.each_sample(CASES)
def test_no_op_loses_a_dependence(p: Primitive, sample: Sample) -> None:
    """Through every op, with its other operands constant or unknown, the sparse Jacobian is the dense one."""
    xs = sample.points
    everywhere = range(len(xs))
    for chosen in [list(everywhere), *([[k] for k in everywhere] if len(xs) > 1 else [])]:

        def fn(x: Any, others: Any, chosen: list[int] = chosen) -> Any:
            values = dict(zip(chosen, x, strict=True)) | others
            zs = call(p, sample, *sample.at(tuple(values[k] for k in everywhere)))
            return [z for z in zs if z.dtype.kind == "f"]

        others = {k: xs[k] for k in everywhere if k not in chosen}
        x = [xs[k] for k in chosen]
        if not fn(x, others):
            continue
        want = _dense(lambda v, fn=fn, others=others: fn(v, others), x)
        unknown = afx.sparse_jacobian(fn)(x, {k: afx.asarray(v) for k, v in others.items()})
        constant = afx.sparse_jacobian(lambda v, fn=fn, others=others: fn(v, others))(x)
        for found in (unknown, constant):
            assert found.shape == want.shape
            np.testing.assert_allclose(np.asarray(found.todense()), want, rtol=1e-12, atol=1e-12)


def _laplacian(x: Any) -> Array:
    padded = afx.pad(x, 1)
    return padded[2:] - 2 * x + padded[:-2] + afx.sin(x)


def _decay(x: Any) -> Any:
    """Carry a sum along two columns."""
    last, all_ = afx.scan(lambda c, v: (0.5 * c + v**2, c * v), afx.zeros(2, dtype=np.float64), x.reshape(6, 2))
    return [last, all_]


def _choice(x: Any) -> Array:
    return afx.cond(x[0] > 0, lambda v: v[1:] ** 2 * v[2], lambda v: v[:-1] * 2, x)


def _arrow(x: Any) -> Array:
    return afx.concat([afx.sum(x**2)[None], x[0] * x[1:] ** 2])


def _blocks(x: Any) -> Array:
    v = x.reshape(4, 3)
    return afx.sum(v[:, :, None] * v[:, None, :] ** 2, axis=1).reshape(-1)


# The function, the number of entries and the number of derivatives for 12 inputs.
JACOBIANS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "diagonal": (lambda x: afx.exp(x) * x, 12, 1),
    "tridiagonal": (_laplacian, 34, 3),
    "arrow": (_arrow, 34, 3),
    "blocks": (_blocks, 36, 3),
    "dense": (lambda x: afx.cumulative_sum(x) * afx.sum(x), 144, 12),
    "one row": (lambda x: afx.sum(x**2), 12, 1),
    "one column": (lambda x: x[3] * afx.ones(12), 12, 1),
    "constant": (lambda x: afx.ones(3) + afx.floor(x[:3]), 0, 0),
    "identity": (lambda x: x, 12, 1),
    "constant matrix": (lambda x: A @ x, int(np.count_nonzero(A)), -1),
    "matrix from the right": (lambda x: afx.tanh(x @ A.T), int(np.count_nonzero(A)), -1),
    "stencil": (lambda x: afx.convolve(x, np.array([1.0, -2.0, 1.0]), "same"), 34, 3),
    "long stencil": (lambda x: afx.convolve(x, np.arange(1.0, 100.0), "full"), 12 * 99, 12),
    "gather": (lambda x: x[np.array([3, 3, 0])] * x[np.array([1, 2, 0])], 5, 2),
    "scatter": (lambda x: afx.zeros(4, dtype=np.float64).at[np.array([1, 1, 3])].add(x[:3] ** 2), 3, 1),
    "mask": (lambda x: afx.where(np.arange(12) < 4, x**2, 0.0), 4, 1),
    "masked product": (lambda x: x[::-1] * (np.arange(12) < 4), 4, 1),
    "wrapped": (lambda x: afx.roll(x, 1) - afx.flip(x), 22, 2),
    "rows": (lambda x: afx.max(x.reshape(3, 4), axis=1), 12, 1),
    "sorted": (lambda x: afx.sort(x.reshape(3, 4), axis=0), 36, 3),
    "transform": (lambda x: afx.real(afx.fft.ifft(afx.fft.rfft(x.reshape(4, 3), axis=1), axis=1)), 24, 2),
    "split": (lambda x: [a * b for a, b in itertools.pairwise(afx.split(x, 4))], 18, 2),
    "jitted": (afx.jit(_laplacian), 34, 3),
    "checkpointed": (afx.checkpoint(_laplacian), 34, 3),
    "mapped": (lambda x: afx.vmap(afx.prod)(x.reshape(6, 2)), 12, 1),
    "gradient": (afx.grad(lambda x: afx.sum(x[1:] ** 2 * x[:-1])), 33, 3),
    "loop": (_decay, 2 * 6 + 2 * (1 + 2 + 3 + 4 + 5 + 6), -1),
    "choice": (_choice, 11 + 11 + 11 - 1 - 1, 3),
    "branch": (lambda x: afx.cond(True, lambda v: v**2, lambda v: 2 * v, x[:2]), 2, 1),
}


@together(("fn", "entries", "sweeps"), JACOBIANS.values(), ids=JACOBIANS.keys())
def test_jacobian(fn: Callable[[Any], Any], entries: int, sweeps: int) -> None:
    """The sparse Jacobian is the dense one, with as many entries and derivatives as the structure asks for."""
    want = _dense(fn, X)
    for mode in (None, "forward", "reverse"):
        found = afx.sparse_jacobian(fn, mode=mode)(X)  # one of its modes
        np.testing.assert_allclose(np.asarray(found.todense()), want, rtol=1e-12, atol=1e-12)
        assert found.nnz == entries
    layout = _layout(fn, X)
    assert sweeps in (-1, layout.sweeps)
    assert layout.sweeps <= min(_layout(fn, X, mode=m).sweeps for m in ("forward", "reverse"))


# The function, the number of entries and the number of products for 12 inputs.
HESSIANS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "diagonal": (lambda x: afx.sum(afx.sin(x)), 12, 1),
    "catenary": (lambda x: afx.sum((x[1:] + x[:-1]) * afx.hypot(x[1:] - x[:-1], 0.1)), 34, 3),
    "arrow": (lambda x: afx.sum(x[0] * x[1:] ** 3), 33, 2),
    "blocks": (lambda x: afx.sum(afx.prod(x.reshape(4, 3), axis=1) ** 2), 36, 3),
    "dense": (lambda x: afx.sum(x) ** 3, 144, 12),
    "linear": (lambda x: afx.sum(2 * x), 0, 0),
    "second neighbours": (lambda x: afx.sum(x[2:] ** 2 * x[:-2]), 30, 3),
}


@pytest.mark.parametrize(("fn", "entries", "sweeps"), HESSIANS.values(), ids=HESSIANS.keys())
def test_hessian(fn: Callable[[Any], Any], entries: int, sweeps: int) -> None:
    """The sparse Hessian is the dense one, with as many entries and products as the structure asks for."""
    found = afx.sparse_hessian(fn)(X)
    np.testing.assert_allclose(np.asarray(found.todense()), np.asarray(afx.hessian(fn)(X)), rtol=1e-10, atol=1e-12)
    assert found.nnz == entries
    assert _hessian_layout(fn, X).sweeps == sweeps


def test_grid() -> None:
    """The Hessian of an energy on a grid has five entries a point, from few products."""

    def energy(u: Any) -> Array:
        return afx.sum((u[1:] - u[:-1]) ** 4) + afx.sum((u[:, 1:] - u[:, :-1]) ** 4)

    u = RNG.normal(size=(7, 8))
    found = afx.sparse_hessian(energy)(u)
    want = np.asarray(afx.hessian(energy)(u)).reshape(56, 56)
    np.testing.assert_allclose(np.asarray(found.todense()), want, rtol=1e-10, atol=1e-12)
    assert found.nnz == np.count_nonzero(want)
    assert _hessian_layout(energy, u).sweeps <= 8


def test_ten_thousand_unknowns() -> None:
    """Ten thousand unknowns in a row need three derivatives, and no matrix of their square."""
    x = RNG.normal(size=10_000)
    found = afx.sparse_jacobian(_laplacian)(x)
    curved = afx.sparse_hessian(lambda x: afx.sum((x[1:] - x[:-1]) ** 4))(x)
    assert (found.nnz, curved.nnz) == (29_998, 29_998)
    assert _layout(_laplacian, x).sweeps == 3
    np.testing.assert_allclose(np.asarray(found @ x), np.asarray(afx.jvp(_laplacian, (x,), (x,))[1]), rtol=1e-10)


def test_trees_and_other_arguments() -> None:
    """Columns are the elements of a tree in order; indices given as arguments belong to the pattern."""

    def fn(p: dict[str, Any], scale: Any, pairs: Any) -> Any:
        return p["a"][pairs[:, 0]] - p["b"][pairs[:, 1]] * scale

    p = {"a": X[:3], "b": X[3:7]}
    pairs = np.array([[0, 3], [2, 1]])
    jacobian = afx.sparse_jacobian(fn)
    found = jacobian(p, 2.0, pairs)
    np.testing.assert_array_equal(np.asarray(found.indices), [[0, 0], [0, 6], [1, 2], [1, 4]])
    np.testing.assert_allclose(np.asarray(found.values), [1, -2, 1, -2])
    np.testing.assert_array_equal(np.asarray(jacobian(p, 2.0, pairs[::-1]).indices)[:, 1], [2, 4, 0, 6])
    second = afx.sparse_jacobian(lambda k, x: k * x**2, argnums=1)(3.0, X)
    np.testing.assert_allclose(np.asarray(second.values), 6 * X)


def test_in_other_transformations() -> None:
    """Sparse Jacobians compile, batch, and have derivatives themselves."""
    jacobian = afx.sparse_jacobian(_laplacian)
    want = np.asarray(jacobian(X).values)
    np.testing.assert_allclose(np.asarray(afx.jit(jacobian)(X).values), want, rtol=1e-12)
    many = afx.vmap(lambda x: jacobian(x).values)(np.stack([X, 2 * X]))
    np.testing.assert_allclose(np.asarray(many)[0], want, rtol=1e-12)
    slope = afx.grad(lambda x: afx.sum(jacobian(x).values ** 2))(X)
    dense = afx.grad(lambda x: afx.sum(afx.jacfwd(_laplacian)(x) ** 2))(X)
    np.testing.assert_allclose(np.asarray(slope), np.asarray(dense), rtol=1e-10)

    def scaled(k: Any) -> Any:  # closes over a traced number
        return afx.sum(afx.sparse_jacobian(lambda x: k * _laplacian(x))(X).values)

    assert float(afx.grad(scaled)(2.0)) == pytest.approx(float(np.sum(want)), rel=1e-6)


def test_custom_rules_tell_their_dependence() -> None:
    """A function with a derivative of its own has the pattern of that rule, or a full one in reverse mode."""
    rounded = afx.custom_jvp(afx.round, lambda x, t: (afx.round(x[0]), t[0]))
    found = afx.sparse_jacobian(rounded)(X)
    np.testing.assert_allclose(np.asarray(found.todense()), np.eye(12))
    assert found.nnz == 12
    backward = afx.custom_vjp(lambda x: x**2, lambda x: (x**2, x), lambda x, ct: (3 * x * ct,))
    full = afx.sparse_jacobian(backward, mode="reverse")(X)
    np.testing.assert_allclose(np.asarray(full.todense()), np.diag(3 * X))


def test_matrix() -> None:
    """Entries are sorted by rows; products, SciPy's arrays and dense ones agree; float32 stays."""
    found = afx.sparse_jacobian(_arrow)(X.astype(np.float32))
    dense = np.asarray(found.todense())
    assert found.values.dtype == dense.dtype == np.float32
    np.testing.assert_array_equal(found.toscipy().toarray(), dense)
    assert repr(found) == "SparseMatrix(float32[12,12] of 34 entries)"
    b = RNG.normal(size=(12, 2)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(found @ b), dense @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(found @ b[:, 0]), dense @ b[:, 0], rtol=1e-5, atol=1e-5)
    keys = np.asarray(found.indices) @ np.array([12, 1])
    assert (np.diff(keys) > 0).all()
    empty = afx.sparse_jacobian(lambda x: x[:0])(X)
    assert (empty.shape, empty.nnz) == ((0, 12), 0)


def test_colourings_are_valid() -> None:
    """On random matrices no row has two entries of a colour, and colours are few."""
    for density in (0.01, 0.05, 0.3):
        rows, columns = np.nonzero(RNG.uniform(size=(60, 40)) < density)
        colours = colouring.color(rows, columns, (60, 40))
        pairs = list(zip(rows.tolist(), colours[columns].tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        assert (colours[np.setdiff1d(np.arange(40), columns)] == -1).all()
        assert colours.max() < 40


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (lambda: afx.sparse_jacobian(afx.sin)(np.arange(3)), afx.errors.DtypeError, "only floating"),
        (lambda: afx.sparse_jacobian(afx.sin)(X + 1j), afx.errors.DtypeError, "complex128.*argument"),
        (lambda: afx.sparse_jacobian(lambda x: x * 1j)(X), afx.errors.DtypeError, "complex128.*result"),
        (lambda: afx.sparse_jacobian(lambda x: x if x[0] > 0 else -x)(X), afx.errors.ConcreteValueError, "afx.where"),
        (lambda: afx.sparse_hessian(lambda x: x)(X), afx.errors.ShapeError, "scalar"),
        (
            lambda: afx.sparse_jacobian(afx.sin, mode="both"),
            afx.errors.ArgumentError,
            "no such mode",
        ),  # a user's mistake
        (lambda: afx.sparse_jacobian(afx.sin)(X) @ X[:3], afx.errors.ShapeError, "inner axes"),
        (lambda: afx.sparse_jacobian(lambda x: x, argnums=1)(X), afx.errors.ArgumentError, "argnums"),
    ],
)
def test_mistakes_are_explained(run: Callable[[], Any], kind: type[Exception], words: str) -> None:
    """Each mistake raises with its reason."""
    with pytest.raises(kind, match=words):
        run()


def _smooth(x: Any) -> Any:
    """Return steps of a recurrence, whose last elements depend on more and more inputs."""

    def step(u: Any, force: Any) -> Any:
        new = u + 0.1 * (afx.roll(u, 1) - 2 * u + afx.roll(u, -1)) * force
        return new, afx.sum(new[:3] * new[1:4])

    return afx.concat(list(afx.scan(step, x, x[:3])))


def _equal_sets(x: Any) -> Any:
    """Return elements that come to equal sets in two ways, and some of which depend on nothing."""
    a, b = x[:4] * x[4:8], x[4:8] * afx.sin(x[:4])
    return afx.concat([(a + x[8:]) * b, (b + x[8:]) * a, afx.where(np.arange(4) > 1, a, 1.0), afx.cumsum(x[:3])])


@pytest.mark.parametrize("fn", [_smooth, _equal_sets], ids=["scan", "equal sets"])
@pytest.mark.parametrize(
    "limits", [{"MAPS": 0}, {"MAPS": 1}, {"MAPS": 0, "FORGET": 1}, {"SAMPLE": 1, "FORGET": 1}], ids=str
)
def test_entries_do_not_depend_on_how_sets_are_kept(
    fn: Callable[[Any], Any], limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets that are united at once or at the end, looked up or forgotten, give the entries of the dense derivative."""
    whole = afx.sparse_jacobian(fn)(X)
    np.testing.assert_allclose(whole.todense(), _dense(fn, X), rtol=1e-12, atol=1e-14)
    for name, value in limits.items():
        monkeypatch.setattr(colouring, name, value)
    again = afx.sparse_jacobian(fn)(X)
    np.testing.assert_array_equal(again.indices, whole.indices)
    np.testing.assert_array_equal(again.todense(), whole.todense())


def test_equal_sets_have_one_number() -> None:
    """Unions that are equal are one set, also those of another call, and of one whose inputs were there before."""
    sets = colouring.Sets(6)
    first = sets.add(np.array([0, 2, 5, 7]), np.array([0, 1, 1, 2, 3, 0, 1]))
    assert first.tolist() == [first[0], first[1], first[0]]
    assert sets.add(np.array([0, 3, 4]), np.array([1, 2, 3, 4])).tolist() == [first[1], 4]
    assert len(sets.starts) == 9


def test_a_mode_that_cannot_have_fewer_derivatives_is_not_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tall band is computed forward, a wide one in reverse, and only these are coloured."""
    shapes, color = list[tuple[int, int]](), colouring.color
    monkeypatch.setattr(
        sparsity, "color", lambda rows, columns, shape: shapes.append(shape) or color(rows, columns, shape)
    )
    afx.sparse_jacobian(lambda x: afx.concat([x * x, x * 2, x + x[::-1], x]))(X)
    afx.sparse_jacobian(lambda x: x.reshape(3, 4).sum(axis=0))(X)
    assert shapes == [(48, 12), (12, 4)]


def test_newton_with_a_sparse_solver() -> None:
    """A boundary value problem of five thousand unknowns is solved by Newton's method with SciPy's sparse solver."""
    n = 5000
    x = np.linspace(0, 1, n + 2)[1:-1]

    def residual(u: Any) -> Array:  # u'' = 2 u³ with u(0) = 1 and u(1) = 1/2, solved by 1 / (1 + x)
        padded = afx.pad(u, 1, constant_values=((1.0, 0.5),))
        return (padded[2:] - 2 * u + padded[:-2]) * (n + 1) ** 2 - 2 * u**3

    splu: Any = importlib.import_module("scipy.sparse.linalg").splu
    jacobian, u = afx.sparse_jacobian(residual), 1 - x / 2
    for _ in range(6):
        u = u - splu(jacobian(u).toscipy().tocsc()).solve(np.asarray(residual(u)))
    np.testing.assert_allclose(u, 1 / (1 + x), atol=1e-8)


def test_signals_are_heard_between_blocks_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks give the same entries as one list, and Ctrl-C in a block ends the call before the next one."""

    def fn(x: Any) -> Any:
        return afx.concat([afx.sort(x), x[:1], x[2:] * x[:-2]])

    whole, listed, repeat = afx.sparse_jacobian(fn)(X), list[int](), colouring.repeat
    monkeypatch.setattr(colouring, "BLOCK", 16)
    again = afx.sparse_jacobian(fn)(X)
    np.testing.assert_array_equal(again.indices, whole.indices)
    np.testing.assert_array_equal(again.todense(), whole.todense())
    pattern = colouring.identities([12])[0].everything(12)
    assert pattern is not None

    def interrupt(values: Any, counts: Any) -> Any:
        listed.append(len(values))
        signal.raise_signal(signal.SIGINT)
        return repeat(values, counts)

    monkeypatch.setattr(colouring, "repeat", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            pattern.entries()
    finally:
        signal.signal(signal.SIGINT, before)
    assert listed == [2]  # rows of the first block: 12 rows in 10 blocks
