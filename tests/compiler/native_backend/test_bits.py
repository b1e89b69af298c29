"""Machine code gives the bits of the NumPy plan."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.program.elements import Ref, Root
from afx.compiler.native_backend.program.interface import Param
from afx.compiler.native_backend.program.leaves import Nest, UfuncCall
from afx.compiler.native_backend.program.steps import Block, Program
from afx.compiler.native_backend.service.child import compile_text
from afx.compiler.native_backend.service.link import layout, link, ufunc_loop
from afx.core.aval import broadcast_shapes
from afx.core.scalar_ops import SCALAR_OPS
from tests.compiler.native_backend.lowering.test_pieces import Mixed
from tests.compiler.native_backend.native_run import Native, assert_same_bits, same_bits
from tests.random_everyday import random_everyday

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-310, -1e-310, 1e300, -1e300, np.inf, -np.inf, np.nan]
FLOAT_UFUNCS = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt",
]  # fmt: skip
FLOAT_PAIRS = [
    "arctan2", "hypot", "logaddexp", "copysign", "fmod", "remainder", "floor_divide", "fmax", "fmin", "power", "nextafter",
]  # fmt: skip


def operands(dtype: str, count: int = 700) -> tuple[Any, Any]:
    """Return two arrays in which every pair of special values meets, and random ones."""
    rng = np.random.default_rng(7)
    if dtype == "bool":
        return rng.random(count) < 0.5, rng.random(count) < 0.5
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            special = np.array(SPECIAL).astype(dtype)
        x, y = (rng.normal(size=count) * 3).astype(dtype), (rng.normal(size=count) * 3).astype(dtype)
    else:
        info = np.iinfo(dtype)
        special = np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 8, 16, 31], dtype)
        x, y = (rng.integers(info.min, info.max, count, dtype) for _ in range(2))
    a, b = (v.reshape(-1) for v in np.meshgrid(special, special))
    return np.concatenate([a, x]), np.concatenate([b, y])


def applied(names: list[str], unary: bool) -> Callable[..., Any]:
    """Return the function of all these ufuncs."""
    ufuncs = [getattr(np, name) for name in names]
    return (lambda x: tuple([u(x) for u in ufuncs])) if unary else (lambda x, y: tuple([u(x, y) for u in ufuncs]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool"])
def test_every_emitted_operation_has_numpys_bits(dtype: str) -> None:
    """Arithmetic, comparison, logic and bit operations agree on special and random values of every dtype."""
    name = np.dtype(dtype).str[1:]
    x, y = operands(dtype)
    names = [n for n, op in SCALAR_OPS.items() if name in op.dtypes]
    known = {p.lowering.ufunc.__name__ for p in afx.primitives() if p.lowering.ufunc is not None}
    ones = [n for n in names if getattr(np, n).nin == 1 and n in known and (n != "absolute" or name[0] != "b")]
    twos = [n for n in names if getattr(np, n).nin == 2 and n in known]
    if name == "b1":
        twos = [n for n in twos if n not in ("add", "multiply")]
    if name[0] in "iu":
        ones = [n for n in ones if n not in ("floor", "ceil", "trunc", "rint", "sqrt", "isnan", "isinf", "isfinite")]
    assert len(ones) + len(twos) >= 6
    if ones:
        assert_same_bits(applied(ones, True), x)
    assert_same_bits(applied(twos, False), x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_have_numpys_bits(dtype: str) -> None:
    """Functions are NumPy's own loops, on strips and between emitted operations."""
    x, y = operands(dtype, 1500)
    native = assert_same_bits(applied(FLOAT_UFUNCS, True), x)
    assert "ufunc.tanh" in native.text
    assert_same_bits(applied(FLOAT_PAIRS, False), x, y)
    assert_same_bits(lambda x, y: np.exp(np.sin(x) * y + 1) - x * np.exp(-x * x) + np.tanh(np.cos(y)), x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_are_computed_by_vectors_with_numpys_bits(dtype: str) -> None:
    """Quotients near whole numbers, of many bits and none: bits and errors are those of NumPy's loops."""
    rng, info = np.random.default_rng(3), np.finfo(dtype)
    sizes = 2.0 ** rng.uniform(-info.nmant - 4, info.nmant + 4, 4000)
    y = np.concatenate([rng.normal(size=4000), np.full(2000, 0.1), rng.integers(-30, 30, 2000) + 0.5]).astype(dtype)
    x = np.concatenate([sizes * y[:4000], rng.integers(-999, 999, 2000) * 0.1, rng.integers(-999, 999, 2000) + 0.5])
    x = np.concatenate([x.astype(dtype), np.nextafter((3 * y).astype(dtype), np.zeros(1, dtype))])
    y = np.concatenate([y, y])
    native = assert_same_bits(lambda x, y: (np.fmod(x, y), np.remainder(x, y), np.floor_divide(x, y)), x, y)
    assert all(f"@fast.{name}." in native.text for name in ("fmod", "remainder", "floor_divide"))
    few = np.concatenate([[0.0, -0.0, 1e-30], x[:500]]).astype(dtype)
    by = np.concatenate([[2.0, -3.0, 1e30], np.abs(y[:500]) + 0.5]).astype(dtype)
    with np.errstate(all="raise", under="ignore"):
        assert_same_bits(lambda x, y: (np.fmod(x, y), np.remainder(x, y), np.floor_divide(x, y)), few, by)


def test_choices_and_casts() -> None:
    """Conditions, choices and conversions between dtypes agree."""
    x, y = operands("float32")
    n = operands("int32", len(x) - 121)[0]

    def fn(x: Any, y: Any, n: Any) -> Any:
        z = afx.where(x > y, x, n)
        return (
            z,
            n.astype("float64") * x,
            (n > 3).astype("float32") + y,
            n.astype("int8"),
            x != 0,
            afx.where(x < 1, y, 2.0),
        )

    assert_same_bits(fn, x, y, n)


def test_half_precision_and_complex_numbers() -> None:
    """What machine code only moves is computed by NumPy's loops; its constants are right."""
    x = np.random.default_rng(8).normal(size=40).astype(np.float16)
    assert_same_bits(lambda x: (x * 2.5 + x, np.exp(x) - 0.5, (x + x).sum(), (x * x).max(), -x), x)
    z = np.random.default_rng(9).normal(size=(2, 30)).view(complex)
    assert_same_bits(lambda z: (z * z + z, np.exp(z), (z - z[:, ::-1]).sum(axis=0)), z)
    assert_same_bits(lambda z: (z * 2j - 0.5, z / (z + 3), (z * 1j).real + z.imag, abs(z), afx.conj(z)), z)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_real_numbers_become_complex_ones(dtype: str) -> None:
    """The real part has the bits of the number, the imaginary part is 0."""
    x = operands(dtype, 50)[0]
    with np.errstate(over="ignore"):
        assert_same_bits(lambda x: (x.astype("complex128") * 2j, x.astype("complex128"), x.astype("complex64")), x)
    m = np.random.default_rng(3).normal(size=(4, 4))
    assert_same_bits(lambda m: (m.astype(complex) * 1j + m.T, (m * 1j) @ m.astype(complex)), m)


@pytest.mark.parametrize("shapes", [((5, 7), (7,)), ((5, 1), (1, 7)), ((3, 1, 4), (5, 1)), ((), (6,)), ((2, 3), ())])
def test_broadcasting(shapes: Any) -> None:
    """Operands of different shapes meet as in NumPy."""
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=s) for s in shapes)
    assert_same_bits(lambda x, y: (x * y + x, np.exp(x) - y, (x - y) ** 2), x, y)


def test_views_are_read_in_place() -> None:
    """Slices, reversals, transposes and reshapes need no copy; their values agree."""
    x = np.random.default_rng(2).normal(size=(6, 10)).astype(np.float32)

    def fn(x: Any) -> Any:
        return (
            x[1:] - x[:-1],
            x[:, ::2] * x[:, 1::2],
            x[::-1, ::-3] + 1,
            (x.T * 2)[1],
            x.reshape(3, 20)[:, 5:] * x[0, :1],
            (np.exp(x.T[2:5]) + x.T[:3])[0],
            x[2],
            x.reshape(-1)[7],
        )

    assert_same_bits(fn, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_sums_and_extremes_follow_numpys_order(dtype: str) -> None:
    """Reductions along every axis have the bits of the plan, in whatever way that computes them."""
    rng = np.random.default_rng(3)
    for shape in ((7,), (49,), (1500,), (40, 50), (6, 3, 8), (4, 5, 1), (2, 9, 1200)):
        x = (rng.normal(size=shape) * 100).astype(dtype)

        def fn(x: Any) -> Any:
            axes = [None, *range(x.ndim), *([(0, x.ndim - 1)] if x.ndim > 1 else [])]
            return tuple([f(x + x, axis=a) for a in axes for f in (np.sum, np.max, np.min)])

        assert_same_bits(fn, x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_of_every_length(dtype: str) -> None:
    """Sums that are emitted have the bits of NumPy's for lengths around all those at which it halves them."""
    lengths = [*range(1, 20), *[n + k for n in (128, 136, 256, 264, 512, 520, 1024, 1040) for k in (-1, 0, 1, 8)]]
    lengths += [2056, 4103, 9112, 50_003]
    size, loop = int(dtype[1]), ufunc_loop("add", (dtype,) * 3)
    assert loop is not None
    sums = [
        UfuncCall(loop, (n,), (Ref(1, dtype, k * size, (0,)), Ref(0, dtype, 0, (size,)), Ref(1, dtype, k * size, (0,))))
        for k, n in enumerate(lengths)
    ]
    params = tuple([Param((n,), dtype, True) for n in (max(lengths), len(lengths))])
    program = Program(Block(2, (Root(0), Root(1)), tuple(sums), 0), params, False)
    where = layout()
    assert where is not None
    text = emit_programs([program], where)
    kernel = link([program], compile_text(text, ""))[0]
    rng, arena = np.random.default_rng(5), np.empty(64, np.uint8)
    for odd in (1.0, np.inf, np.nan, 3e38, -0.0):
        x = (rng.normal(size=max(lengths)) * 10.0 ** rng.integers(-3, 4, max(lengths))).astype(dtype)
        x[5] = odd
        found = np.zeros(len(lengths), dtype)
        assert kernel.call(x, found, arena) == 0
        assert same_bits(found, np.array([np.add.reduce(x[:n]) for n in lengths], dtype))
    assert f"@sum.{dtype}" in text


def test_sums_of_negative_zeros() -> None:
    """The sign of a sum of negative zeros is NumPy's, along every axis."""
    for shape in ((1,), (9,), (3, 3, 3), (4, 200), (200, 3)):
        x = np.full(shape, -0.0)
        assert_same_bits(lambda x: tuple([(x * 1.0).sum(axis=a) for a in (None, *range(x.ndim))]), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((40, 65), 1), ((129,), 0), ((3, 4, 67), (0, 2)), ((2, 3, 4, 33), (1, 3)), ((3, 2, 5, 2, 33), (0, 2, 4))],
)
def test_extremes_of_zeros_of_both_signs(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    """NumPy's loops take several elements at once, which decides about the sign of a largest or smallest zero."""
    rng = np.random.default_rng(0)
    natives = [Native(lambda x, f=f: f(x, axis=axis), np.zeros(shape, dtype)) for f in (np.max, np.min)]
    for _ in range(10):
        x = np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(dtype)
        for native in natives:
            assert same_bits(native(x)[0][0], native.plan(x)[0])


def test_products_have_the_bits_of_blas() -> None:
    """Products of matrices and vectors call NumPy's loop, which calls BLAS."""
    rng = np.random.default_rng(4)
    x, w, v = (rng.normal(size=s).astype(np.float32) for s in ((8, 32), (32, 20), (32,)))
    s = rng.normal(size=(3, 8, 32)).astype(np.float32)

    def fn(x: Any, w: Any, v: Any, s: Any) -> Any:
        return x @ w, np.tanh(x @ w + 1), x @ v, v @ w, v @ v, w.T @ x.T, s @ w, x.T @ x, s @ np.swapaxes(s, 1, 2)

    assert_same_bits(fn, x, w, v, s)


def test_parts_and_joins() -> None:
    """Embedding, writing into slices, concatenating and stacking agree."""
    x = np.random.default_rng(5).normal(size=(5, 6))

    def fn(x: Any) -> Any:
        return (
            afx.grad(lambda x: (x[1:, 2:] ** 2).sum() + (x[0] * x[1]).sum())(x),
            x.at[1:3, ::2].set(x[0, 0]),
            x.at[:, 1].add(x[:, 2]),
            np.concatenate([x, x[:2] * 2], 0),
            np.stack([x, -x], 1),
        )

    assert_same_bits(fn, x)


def test_values_are_written_where_they_are_joined() -> None:
    """A loop writes its value straight into what it is padded to or joined in, also twice, and where others read it."""
    x = np.random.default_rng(4).normal(size=(7, 9))

    def fn(x: Any) -> Any:
        y, z = x * 2 + 1, np.exp(x)
        padded = afx.pad(y, ((1, 2), (0, 3))), afx.pad(z[1:], 1), afx.pad(x - 1, ((0, 0), (2, 0)))
        joined = afx.concatenate([y, z, y, x], axis=1), afx.stack([z, y, z + y], axis=1), afx.stack([y[0], z[1]])
        steps = (
            afx.zeros((14, 9), dtype=x.dtype).at[::2].set(x + 3),
            afx.zeros(12, dtype=x.dtype).at[2:9].set((y * z).sum(axis=1) * 2),
        )
        return *padded, *joined, *steps, padded[0].sum(axis=0) + joined[0][1, :12], y

    native = assert_same_bits(fn, x)
    assert_same_bits(lambda x: afx.grad(lambda x: (x[1:, 2:] * x[:-1, :-2] * np.tanh(x[3:4, 1:8])).sum())(x), x)
    assert_same_bits(lambda x: afx.scan(lambda c, _: (afx.pad(c[1:-1, 1:-1] * 2 - c[:-2, 2:], 1), c[0]), x, None, 3), x)
    copies = [s for s in native.program.block.steps if isinstance(s, Nest) and len(s.values) == 1 and s.space == (7, 9)]
    assert len(copies) == 2  # of x, which no loop makes, and into a slice of an array that is copied first


def test_joins_may_stand_first() -> None:
    """What is joined or padded may be arguments alone, before anything was computed."""
    x, y = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    for fn in (lambda x, y: afx.concatenate([x, y]), lambda x, _: afx.pad(x, 1), lambda x, y: afx.stack([y, x]) * 2):
        assert_same_bits(fn, x, y)


def test_gradients_of_a_model() -> None:
    """A whole training step of a small network agrees bit by bit."""
    rng = np.random.default_rng(6)
    x, y, a, b = (rng.normal(size=s).astype(np.float32) for s in ((16, 8), (16, 1), (8, 12), (12, 1)))

    def loss(a: Any, b: Any, x: Any, y: Any) -> Any:
        return ((np.tanh(x @ a) @ b - y) ** 2).mean()

    def step(a: Any, b: Any, x: Any, y: Any) -> Any:
        da, db = afx.grad(loss, argnums=(0, 1))(a, b, x, y)
        return a - 0.1 * da, b - 0.1 * db

    assert_same_bits(step, a, b, x, y)


def random_program(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return a random function of three arrays, and these."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(1, 40, 2))
    shapes = [(rows, columns), (columns,), (rows, 1)]
    args = [rng.normal(size=s).astype(rng.choice(["float32", "float64"])) for s in shapes]
    plan = [(int(rng.integers(12)), int(rng.integers(1 << 30)), int(rng.integers(1 << 30))) for _ in range(30)]

    def fn(*xs: Any) -> Any:
        values = list(xs)
        for kind, i, j in plan:
            x, y = values[i % len(values)], values[j % len(values)]
            values.append(rules[kind](x, y if fits(x, y) else x))
        return tuple(values[-8:])

    def fits(x: Any, y: Any) -> bool:
        return broadcast_shapes([x.shape, y.shape]) is not None

    rules: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x + y,
        lambda x, y: x * y - x,
        lambda x, y: np.maximum(x, y),
        lambda x, y: x / (y * y + 1),
        lambda x, y: np.tanh(x),
        lambda x, y: np.exp(-x * x) + y,
        lambda x, y: (x + 1).sum(axis=0) if x.ndim else x,
        lambda x, y: x[: max(1, len(x) // 2)] if x.ndim else x * 2,
        lambda x, y: x.T,
        lambda x, y: afx.where(x > 0.25, x, y),
        lambda x, y: x.reshape(-1)[::-1],
        lambda x, y: np.sqrt(abs(x)) + (x * 2).max(),
    ]
    return fn, args


def test_random_programs() -> None:
    """Random programs of arithmetic, functions, views and reductions agree bit by bit; most have a native form."""
    compiled = 0
    for seed in range(16):
        fn, args = random_program(seed)
        try:
            assert_same_bits(fn, *args)
            compiled += 1
        except UnsupportedError:
            continue
    assert compiled >= 8


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_of_small_matrices(seed: int) -> None:
    """Stacks of small matrices, rows, joins, searches, transforms and scans agree bit by bit, and so do their gradients."""
    fn, args = random_everyday(seed)
    with np.errstate(all="ignore"):
        try:
            assert_same_bits(fn, *args)
        except UnsupportedError:  # in pieces, then
            mixed = Mixed(fn, *args)
            found = mixed(*args)
            assert all(same_bits(z, w) for z, w in zip(found, mixed.plan.run_numpy(*args), strict=True))


def test_errors_are_seen() -> None:
    """Machine code tells which floating-point errors it met, those that equations ignore left out."""
    x = np.array([1.0, 0.0])
    native = Native(lambda x: x / x[::-1], x)
    assert native(x)[1] == 1
    assert native(x + 1)[1] == 0
    assert Native(lambda x: x * 1e300 * 1e300, x)(x)[1] == 2
    for name in ("tanh", "sign", "fmax", "signbit", "minimum"):  # NumPy's own loops of them clear all flags
        f: Any = getattr(np, name)
        assert Native(lambda x, f=f: f(1 / x) if f.nin == 1 else f(1 / x, x), x)(x)[1] == 1
    assert Native(lambda x: (1 / x).max() - x.min(), np.array([[1.0, 0.0]] * 40))(np.array([[1.0, 0.0]] * 40))[1] == 1
    assert Native(lambda x: np.sqrt(x - 1), x)(x)[1] == 8

    def quiet(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return 1 / x

    assert Native(quiet, x)(x)[1] == 0


def test_other_arrays_are_refused() -> None:
    """An argument of another layout, dtype, shape or type is refused, and nothing is read."""
    x = np.ones((4, 6), np.float32)
    native = Native(lambda x: x * 2, x)
    arena, out = np.empty(64, np.uint8), np.empty_like(x)
    wrong = (np.ones((8, 6), np.float32)[::2], x.astype("f8"), np.ones((4, 7), np.float32), x.astype(">f4"), 1.0, None)
    for other in wrong:
        assert native.kernel.call(other, out, arena) == -1
    unaligned = np.frombuffer(b"\0" * 97, np.float32, 24, 1).reshape(4, 6)
    assert native.kernel.call(unaligned, out, arena) == -1
    assert native.kernel.call(x, out, arena) == 0


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("shape", [(8, 8, 3), (5, 2, 16), (16, 2), (17, 2), (2, 17), (3, 1, 4), (2, 2, 2, 2)])
def test_short_rows_are_combined_in_order(shape: tuple[int, ...], dtype: str) -> None:
    """Sums, products and extremes along an axis before short rows have NumPy's bits, signs of zero and nan among them."""
    rng = np.random.default_rng(len(shape))
    x = (rng.normal(size=shape) * 10).astype(dtype)
    if x.size and dtype[0] == "f":
        x.flat[:: max(x.size // 3, 1)] = [-0.0, np.nan, -np.inf, -0.0][: len(x.flat[:: max(x.size // 3, 1)])]
    axis = len(shape) - 2

    def fn(x: Any) -> Any:
        sums = afx.sum(x, axis=axis), afx.prod(x, axis=axis), afx.sum(-x * 0, axis=axis)
        return *sums, afx.max(x, axis=axis), afx.min(x, axis=axis)

    assert_same_bits(fn, x)


@pytest.mark.parametrize("order", ["transposed", "reversed", "every other", "repeated"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_captured_arrays_may_lie_in_any_order(order: str, dtype: str) -> None:
    """Products with captured arrays, whose last digits depend on the order of memory, agree."""
    rng = np.random.default_rng(3)
    for n in (3, 5, 16, 33):
        whole = afx.asarray(rng.normal(size=(2 * n, n)).astype(dtype))
        captured = {
            "transposed": whole[:n].T,
            "reversed": whole[:n, ::-1],
            "every other": whole[::2],
            "repeated": afx.broadcast_to(whole[0], (n, n)),
        }[order]
        x = rng.normal(size=(4, n)).astype(dtype)
        assert_same_bits(lambda x, c=captured: (x @ c, c @ x.T, c @ np.tanh(x)[..., None], x * c[0]), x)
