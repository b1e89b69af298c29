"""Weak arrays: what comes from Python's numbers alone keeps their precision until it meets a dtype."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
import afx.nn
from afx.core.aval import aval_of
from afx.core.primitive import Primitive
from afx.core.registry import FUNCTIONS, load_all
from tests.ops import samples as made
from tests.ops.samples import Sample, call, together

SCALE = np.float64(3.0)  # data in float64
MASK = np.array([[True, False], [False, True]])
CASES = [
    pytest.param(p, sample, id=f"{p.name}-{k}")
    for p, k, sample in made.samples()
    if sample.moving and len(sample.moving) + p.condition_operands == len(sample.operands)
    if p.algebra.canonical != "cast"  # which names its dtype
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
]


def weak(x: Any) -> afx.Array:
    """Return an array of Python's numbers, which has no dtype of its own yet."""
    x = np.asarray(x)
    if not x.size:
        return afx.reshape(afx.where(np.zeros(0, bool), 0.5, 0.5), x.shape)
    return afx.reshape(afx.stack(x.ravel().tolist()), x.shape)


def scaled(p: Primitive, sample: Sample, scale: Any, xs: Any) -> list[Any]:
    """Return the floating results of an op times a number."""
    values = list(sample.operands)
    for k, x in zip(sample.moving, xs, strict=True):
        values[k] = x
    return [scale * z for z in call(p, sample, *values) if z.dtype.kind in "fc"]


def ways(p: Primitive, sample: Sample) -> Iterator[list[Any]]:
    """Yield the scaled results on weak operands: run, compiled, made inside, differentiated and mapped."""
    xs = [weak(sample.operands[k]) for k in sample.moving]

    def fn(scale: Any, *ys: Any) -> list[Any]:
        return scaled(p, sample, scale, ys)

    def inside(scale: Any, on: Any) -> list[Any]:
        return fn(scale, *[afx.where(on, x, x) for x in xs])

    yield fn(SCALE, *xs)
    yield afx.jit(fn)(SCALE, *xs)
    yield afx.jit(lambda scale: fn(scale, *xs))(SCALE)
    yield afx.jit(inside)(SCALE, np.True_)
    yield [z[1] for z in afx.vmap(inside)(np.full(2, SCALE), np.array([True, False]))]
    yield afx.jvp(lambda scale: fn(scale, *xs), (SCALE,), (np.float64(1.0),))[0]
    yield afx.vjp(lambda scale: fn(scale, *xs), SCALE)[0]


@made.each_sample(CASES)
def test_results_of_weak_operands_have_the_digits_of_float64(p: Primitive, sample: Sample) -> None:
    """An op on weak operands, times float64 data, is what the op on float64 operands gives, in every way to run it."""
    want = scaled(p, sample, SCALE, sample.points)
    for k, found in enumerate(ways(p, sample)):
        for z, right in zip(found, want, strict=True):
            assert z.dtype == right.dtype, k
            np.testing.assert_allclose(np.asarray(z), np.asarray(right), rtol=2e-14, atol=1e-14, err_msg=str(k))


@made.each_sample(CASES)
def test_results_of_weak_operands_take_the_dtype_they_meet(p: Primitive, sample: Sample) -> None:
    """By itself such a result has the default dtype; beside float32 and float16 it has theirs."""
    xs = [weak(sample.operands[k]) for k in sample.moving]
    for scale in (np.float32(1), np.float16(1), 1.0):
        for run in (scaled, afx.jit(scaled, static_argnums=(0, 1))):
            for z in run(p, sample, scale, xs):
                want = np.float32 if isinstance(scale, float) else scale.dtype
                assert z.real.dtype == (want if z.dtype.kind == "f" else np.float32)


LINES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda np, m, x: x * np.where(m, 1 / 0.9, 0.0),
    "dropout by hand": lambda np, m, x: x * np.where(m, 0.0, 1.0) / 0.9,
    "one minus a mask": lambda np, m, x: x * (1 - np.where(m, 0.1, 0.7)),
    "stack": lambda np, m, x: x @ np.stack([0.1, 0.2]),
    "stack of masks": lambda np, m, x: x + np.stack([np.where(m[0], 0.1, 0.2), np.where(m[1], 0.3, 0.7)]),
    "concatenate": lambda np, m, x: x.ravel() * np.concatenate([np.where(m[0], 0.1, 0.2), np.full(2, 0.3)]),
    "full": lambda np, m, x: x * np.full((2, 2), 0.1),
    "maximum": lambda np, m, x: x * np.maximum(0.3, 0.1),
    "add": lambda np, m, x: x * np.add(0.1, 0.2),
    "square root of an integer": lambda np, m, x: x / np.sqrt(2),
    "quotient of integers": lambda np, m, x: x * np.divide(1, 3),
    "matrix product": lambda np, m, x: x @ np.where(m, 0.1, 0.7),
    "matrix product on the left": lambda np, m, x: np.where(m, 0.1, 0.7) @ x,
    "product of masks": lambda np, m, x: x * (np.where(m, 0.1, 0.7) @ np.where(m, 0.3, 0.1)),
    "row": lambda np, m, x: x * np.where(m, 0.1, 0.7)[1],
    "column": lambda np, m, x: x * np.where(m, 0.1, 0.7)[:, None, 0],
    "rows by number": lambda np, m, x: x * np.where(m, 0.1, 0.7)[np.array([1, 0])],
    "transpose": lambda np, m, x: x * np.where(m, 0.1, 0.7).T,
    "mean": lambda np, m, x: x * np.mean(np.where(m, 0.1, 0.7)),
    "running sum": lambda np, m, x: x * np.cumsum(np.where(m, 0.1, 0.7), 0),
    "norm": lambda np, m, x: x * np.linalg.norm(np.where(m, 0.1, 0.7)),
    "solve": lambda np, m, x: np.linalg.solve(np.where(m, 0.9, 0.1), x),
    "clip": lambda np, m, x: x * np.clip(np.where(m, 0.1, 0.7), 0.2, 0.3),
    "choice of a choice": lambda np, m, x: x * np.where(m, np.where(m.T, 0.1, 0.2), 0.3),
    "comparison": lambda np, m, x: x * (np.where(m, 0.1, 0.7) == 0.1),
    "broadcast": lambda np, m, x: x * np.broadcast_to(0.1, (2, 2)),
    "complex": lambda np, m, x: x * np.where(m, 0.1j, 0.7),
    "guard": lambda np, m, x: np.exp(x + np.where(m, -1e9, 0.1)),
    "power": lambda np, m, x: x * np.power(0.1, 3),
    "exponential": lambda np, m, x: x * np.exp(np.where(m, 0.1, 0.7)),
}


@together("line", LINES)
def test_lines_give_what_numpy_gives_with_float64_data(line: str) -> None:
    """The same line under NumPy's name and afx's gives the same digits: run, compiled, differentiated, mapped and looped."""
    fn = LINES[line]
    x = np.array([[0.3, 1.7], [-0.4, 2.9]])
    want = fn(np, MASK, x)

    def line_of(m: Any, x: Any) -> Any:
        return fn(afx, m, x)

    mapped = afx.vmap(line_of)(np.stack([MASK, MASK]), np.stack([x, x]))
    looped = afx.jit(lambda m, x: afx.scan(lambda c, x: (c, line_of(m, x)), 0.0, x[None])[1][0])
    found = {
        "run": line_of(MASK, x),
        "compiled": afx.jit(line_of)(MASK, x),
        "closed over": afx.jit(lambda x: line_of(MASK, x))(x),
        "mapped": mapped[1],
        "reverse mode": afx.vjp(lambda x: line_of(MASK, x), x)[0],
        "forward mode": afx.jvp(lambda x: line_of(MASK, x), (x,), (x,))[0],
        "compiled reverse mode": afx.jit(lambda x: afx.vjp(lambda x: line_of(MASK, x), x)[0])(x),
        "checkpoint": afx.checkpoint(line_of)(MASK, x),
        "loop": looped(MASK, x),
    }
    for way, z in found.items():
        assert z.dtype == want.dtype, way
        np.testing.assert_allclose(np.asarray(z), want, rtol=4e-16, atol=0, err_msg=way)


def test_weak_arrays_that_meet_nothing_have_the_default_dtype() -> None:
    """What is shown, converted, kept or returned is of the default dtype, whichever that is."""
    for dtype in (np.float32, np.float64):
        with afx.default_dtype(dtype):
            for z in (
                afx.where(MASK, 0.1, 0.2),
                afx.jit(lambda m: afx.where(m, 0.1, 0.2))(MASK),
                afx.full((2, 2), 0.1),
            ):
                assert z.dtype == dtype
                assert np.asarray(z).dtype == dtype
                assert afx.asarray(z).dtype == dtype
                assert repr(z).endswith(f"dtype={np.dtype(dtype)})")
                assert np.asarray(z)[0, 0] == dtype(0.1)


def test_weak_arrays_beside_integers_have_the_default_dtype() -> None:
    """Integers and booleans decide as they do beside a Python number."""
    for dtype in (np.int8, np.int64, bool):
        for run in (lambda z, x: z * x, afx.jit(lambda z, x: z * x)):
            assert run(afx.where(MASK, 0.1, 0.2), np.ones((2, 2), dtype)).dtype == np.float32


def test_choices_among_python_integers_are_int64() -> None:
    """As NumPy's are: run and compiled."""
    for run in (lambda m, x: x * afx.where(m, 1, 0), afx.jit(lambda m, x: x * afx.where(m, 1, 0))):
        assert run(MASK, np.ones((2, 2), np.int8)).dtype == np.int64


# give an array of a dtype on purpose, or work in one dtype inside
NAMED = {"asarray", "array", "copy", "astype", "to_device", "nan_to_num", "spacing", "histogram_bin_edges"}
COMPILED = (
    "nanmean",
    "nanstd",
    "nanvar",
    "median",
    "nanmedian",
    "cov",
    "corrcoef",
    "poly",
    "polyder",
    "polyint",
    "unwrap",
    "vander",
)


def test_public_functions_of_a_weak_array_keep_its_digits() -> None:
    """Every public function of one array gives, of a weak one and times float64 data, what it gives of a float64 one."""
    load_all()
    x = np.array([[0.3, 0.1], [0.2, 0.7]])
    tried, lost = 0, list[str]()
    for name, fn in sorted(vars(FUNCTIONS).items()):
        for value in (x, x[0], np.float64(0.3)):
            try:
                want = fn(value)
            except (TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
                continue
            if (
                not isinstance(want, afx.Array)
                or want.dtype != np.float64
                or name in NAMED
                or (name == "poly" and value.ndim == 2)
            ):  # of eigenvalues
                continue
            tried += 1
            found = SCALE * fn(weak(value))
            compiled = afx.jit(lambda x, fn=fn: SCALE * fn(x))(weak(value)) if name in COMPILED else found
            for z in (found, compiled):
                if not np.allclose(np.asarray(z), SCALE * np.asarray(want), rtol=4e-15, atol=4e-15, equal_nan=True):
                    lost.append(f"{name} {aval_of(value)}")
    assert tried > 200
    assert lost == []


def test_numbers_keep_the_dtype_of_the_block_in_which_arrays_of_them_were_made() -> None:
    """Where the default dtype has Python's precision, arrays of numbers alone are of that dtype for good, as NumPy's are."""
    with afx.default_dtype("float64"):
        w = afx.full(3, 0.1)
    for found in (w * 2.0, afx.jit(lambda w: w * 2.0)(w), afx.vmap(lambda w: w * 2.0)(w), w * np.ones(3, np.float32)):
        assert found.dtype == np.float64


@pytest.mark.parametrize("later", ["float16", "float32", "float64"])
def test_weak_arrays_follow_the_default_dtype_of_where_they_are_used(later: str) -> None:
    """Made under one default dtype and used under another, they give the same eagerly and compiled."""
    w = afx.stack([0.1, 0.7])
    fns: tuple[Any, ...] = (
        lambda x: -x,
        lambda x: x * 2.0,
        lambda x: afx.stack([x, x]),
        lambda x: afx.where(x > 0.5, x, 0.3),
        lambda x: afx.reshape(x, (2, 1)),
        lambda x: afx.sin(x)[1:] + 1,
        lambda x: afx.sum(x * 1j),
    )
    with afx.default_dtype(later):
        for fn in fns:
            eager, compiled = fn(w), afx.jit(fn)(w)
            assert eager.dtype == compiled.dtype
            np.testing.assert_allclose(compiled, eager, rtol=1e-3 if later == "float16" else 1e-6)


def test_digits_survive_pickling_and_conversion() -> None:
    """A copy through bytes, and NumPy's array of another dtype, have Python's number."""
    x = afx.stack([0.1, 0.2])
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype == x.dtype == np.float32
    assert np.asarray(again * np.float64(1.0))[0] == 0.1
    assert np.asarray(x, dtype="f8")[0] == 0.1
    assert np.asarray(x).dtype == np.float32
