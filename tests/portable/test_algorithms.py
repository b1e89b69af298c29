"""Sorts, Fourier transforms and orthogonal factorizations of portable code and of exports, beside NumPy's and LAPACK's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, linalg, pytree
from tests.every import Failures
from tests.portable.programs import CASES

pytest.importorskip("llvmlite", reason="machine code is an extra")

RNG = np.random.default_rng(11)
EPS = float(np.finfo(np.float64).eps)
DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")


def portable(fn: Callable[..., Any], *xs: Any) -> list[Any]:
    """Return the results of a portable call as NumPy's arrays."""
    return [np.asarray(x) for x in pytree.leaves(afx.jit(fn, backend="portable")(*xs))]


def numbers(dtype: str, shape: tuple[int, ...]) -> Any:
    """Return numbers with ties, and of floats zeros of both signs, infinities and nan."""
    x: Any = RNG.integers(-3 if dtype[0] in "if" else 0, 2 if dtype == "b1" else 9, size=shape).astype(dtype)
    if dtype[0] == "f":
        x[RNG.random(shape) < 0.2] *= 0.3
        x[RNG.random(shape) < 0.1] = -0.0
        x[RNG.random(shape) < 0.1] = np.nan
        x[RNG.random(shape) < 0.1] = -np.inf
    return x


# -- sorts --
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_are_numpys(dtype: str) -> None:
    """Along each axis; nan stands last, and indices of equal elements keep their order.

    Of rows around vectors, and to each side of where digits take over from counts, with many ties and few.
    """
    shapes = ((0,), 0), ((1,), 0), ((700,), 0), ((4, 31, 2), 1)
    cases: list[tuple[Any, int]] = [(numbers(dtype, shape), axis) for shape, axis in shapes]
    for n in (2, 15, 16, 17, 33, 383, 384, 385, 5000):
        wide: Any = RNG.integers(0, 256, size=(2, n * int(dtype[1:])), dtype=np.uint8).view(
            "u1" if dtype == "b1" else dtype
        )
        cases += [(numbers(dtype, (2, n)), 1), (wide % 2 == 1 if dtype == "b1" else wide, 1)]
    axes = [axis for _, axis in cases]

    def fn(*xs: Any) -> list[Any]:
        return [(afx.sort(x, axis=axis), afx.argsort(x, axis=axis)) for x, axis in zip(xs, axes, strict=True)]

    found = portable(fn, *[x for x, _ in cases])  # all in one function: most of the time is LLVM's
    for (x, axis), values, places in zip(cases, found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(values, np.sort(x, axis=axis), err_msg=f"{x.shape}")
        np.testing.assert_array_equal(places, np.argsort(x, axis=axis, kind="stable"), err_msg=f"{x.shape}")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sorted_bits_depend_on_values_alone(dtype: str) -> None:
    """-0 stands before 0, however they stood."""
    x = np.array([0.0, -0.0, 1.0, 0.0, -0.0, -1.0] * 20, dtype)
    first, second = portable(lambda x: (afx.sort(x), afx.sort(afx.flip(x))), x)
    assert first.tobytes() == second.tobytes()
    assert np.signbit(first[20:60]).all()
    assert not np.signbit(first[60:]).any()


def test_what_is_built_on_sorts() -> None:
    """Medians, quantiles, the largest elements, partitions, and derivatives of sorts."""
    x = RNG.normal(size=(5, 41))
    programs: list[Callable[[Any], Any]] = [
        lambda x: afx.median(x, axis=1),
        lambda x: afx.quantile(x, 0.3, axis=0),
        lambda x: afx.top_k(x, 4),
        lambda x: afx.searchsorted(afx.sort(x[0]), x),
        lambda x: afx.partition(x, 3, axis=1)[:, 3],
        afx.grad(lambda x: afx.sum(afx.sort(x, axis=0) * afx.arange(5.0, dtype=afx.float64)[:, None])),
    ]

    def fn(x: Any) -> list[Any]:
        return [program(x) for program in programs]

    for k, (z, wanted) in enumerate(zip(portable(fn, x), pytree.leaves(fn(x)), strict=True)):
        np.testing.assert_allclose(z, wanted, rtol=1e-14, err_msg=str(k))


# -- Fourier transforms --
LENGTHS = (1, 2, 3, 5, 8, 30, 49, 61, 67, 122, 134, 210)


def test_transforms_of_any_length() -> None:
    """Of small factors and large ones; what is zero by symmetry is 0, and float32 is rounded once at the end."""
    programs, arguments = list[tuple[Callable[[Any], Any], Callable[[Any], Any], int]](), list[Any]()
    for n in LENGTHS:
        x = RNG.normal(size=(2, n)) + 1j * RNG.normal(size=(2, n))
        programs += [
            (lambda x: afx.fft.fft(x, norm="ortho"), lambda x: np.fft.fft(x, norm="ortho"), n),
            (afx.fft.ifft, np.fft.ifft, n),
            (afx.fft.rfft, np.fft.rfft, n),
            (lambda x, n=n: afx.fft.irfft(x, n), lambda x, n=n: np.fft.irfft(x, n), n),
        ]
        arguments += [x, x, x.real.copy(), x[:, : n // 2 + 1].copy()]
    singles = [a.astype(np.complex64 if a.dtype.kind == "c" else np.float32) for a in arguments]

    def fn(*xs: Any) -> list[Any]:  # all in one: most of the time is LLVM's
        return [program(x) for (program, _, _), x in zip([*programs, *programs], xs, strict=True)]

    found, failures = portable(fn, *arguments, *singles), Failures()
    results, rounded = found[: len(programs)], found[len(programs) :]
    for k, ((_, numpys, n), argument, small) in enumerate(zip(programs, arguments, singles, strict=True)):
        with failures.case(f"{n}-{k % 4}"):
            wanted = numpys(argument)
            assert np.abs(results[k] - wanted).max() <= 8 * EPS * np.abs(wanted).max()
            assert k % 4 != 2 or (results[k][:, 0].imag == 0).all()
            wanted = numpys(small.astype(argument.dtype))
            assert np.abs(rounded[k] - wanted).max() <= 2e-7 * np.abs(wanted).max()
    failures.report()


# -- factorizations --
def matrices(m: int, n: int) -> list[Any]:
    """Return matrices of full rank and of rank 0 and 1, and graded, huge and tiny ones."""
    x = RNG.normal(size=(m, n))
    graded = x * 10.0 ** RNG.integers(-6, 6, size=(m, n))
    return [x, 0 * x, np.outer(x[:, 0], x[0]), graded, 1e300 * x, 1e-300 * x]


def residual(a: Any, b: Any, *factors: Any) -> float:
    """Return how far a product is from a matrix, in units of n·eps of its largest element."""
    unit = max(float(np.abs(a).max()), 1e-300) * max(a.shape)
    return float(np.abs(np.linalg.multi_dot([b / unit, *factors]) - a / unit).max()) / EPS


def skewness(q: Any) -> float:
    """Return how far columns are from orthonormal ones, in units of n·eps."""
    return float(np.abs(q.T @ q - np.eye(q.shape[1])).max()) / EPS / max(q.shape)


def factorize_each(fn: Callable[[Any], Any], *stacks: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the kind and shape of each matrix, itself and its factors: those of all shapes are computed by one function."""
    compiled = afx.jit(lambda *xs: [fn(x) for x in xs], backend="portable")
    for kind, some in enumerate(zip(*stacks, strict=True)):
        for a, factors in zip(some, compiled(*some), strict=True):
            yield f"{kind} of {a.shape}", a, pytree.map(np.asarray, factors)


def test_eigenvalues_of_symmetric_matrices() -> None:
    """Ascending; residuals and orthogonality are some n·eps."""
    failures, stacks = Failures(), [[a / 2 + a.T / 2 for a in matrices(n, n)] for n in (1, 2, 5, 24)]
    for name, s, (w, v, values) in factorize_each(lambda s: (*linalg.eigh(s), linalg.eigvalsh(s)), *stacks):
        with failures.case(name):
            assert (np.diff(w) >= 0).all()
            assert residual(s, v * w, v.T) < 4
            assert skewness(v) < 4
            np.testing.assert_array_equal(values, w)
    failures.report()


def test_qr_and_singular_values() -> None:
    """Tall and wide, with vectors that are completed where a matrix has not full rank."""

    def fn(a: Any) -> Any:
        triangles = linalg.qr(a), linalg.qr(a, mode="complete")
        return triangles, (linalg.svd(a), linalg.svd(a, full_matrices=False)), linalg.svdvals(a)

    failures, shapes = Failures(), ((1, 1), (6, 3), (3, 6), (20, 20), (1, 4), (4, 1))
    for name, a, (triangles, svds, values) in factorize_each(fn, *[matrices(m, n) for m, n in shapes]):
        with failures.case(name):
            for q, r in triangles:
                assert max(residual(a, q, r), skewness(q)) < 4
                assert (np.tril(r, -1) == 0).all()
            for u, s, vh in svds:
                assert (np.diff(s) <= 0).all()
                k = len(s)
                assert max(residual(a, u[:, :k] * s, vh[:k]), skewness(u), skewness(vh.T)) < 4
                np.testing.assert_array_equal(values, s)
    failures.report()


def test_stacks_in_single_precision() -> None:
    """Each matrix of a stack, computed in float64 as NumPy does."""
    a = RNG.normal(size=(3, 7, 7)).astype(np.float32)
    (w, _), (sign, size) = portable(linalg.eigh, a + np.swapaxes(a, 1, 2)), portable(linalg.slogdet, a)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a + np.swapaxes(a, 1, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(sign, np.linalg.slogdet(a)[0])
    np.testing.assert_allclose(size, np.linalg.slogdet(a)[1], rtol=1e-5)
    assert portable(linalg.slogdet, np.zeros((2, 2))) == [0.0, -np.inf]


def test_singular_values_of_any_sizes_are_sorted() -> None:
    """Also where squares of lengths are zeros, or no numbers; the vectors stay with them."""
    compiled = afx.jit(lambda a: linalg.svd(a, full_matrices=False), backend="portable")
    for scales in ([1.0, 1e-170, 1e-120, 1e170], [1e-300, 1e-290, 1e-310, 1e-305], [1e300, 1.0, 1e-300, 1e200]):
        a = RNG.permutation(np.diag(scales)) + np.zeros((4, 4))
        u, s, vh = (np.asarray(x) for x in compiled(a))
        assert (np.diff(s) <= 0).all()
        np.testing.assert_allclose(s, sorted(scales, reverse=True), rtol=0, atol=1e-15 * s[0])
        assert max(skewness(u), skewness(vh.T)) < 4
        np.testing.assert_allclose(u @ (s[:, None] * vh), a, rtol=0, atol=1e-15 * s[0])


def test_reflections_of_denormal_columns_are_orthogonal() -> None:
    """Their lengths are taken in the column's own unit."""
    compiled = afx.jit(linalg.qr, backend="portable")
    for scale in (1e-308, 1e-310, 1e-315, 1e-322):
        a = RNG.normal(size=(6, 4)) * scale
        q, r = (np.asarray(x) for x in compiled(a))
        assert skewness(q) < 4
        np.testing.assert_allclose(q @ r, a, rtol=0, atol=1e-15 * scale + 4 * 5e-324)


def test_what_is_built_on_factors() -> None:
    """Pseudoinverses, least squares, nuclear norms, and the determinant's derivative, of singular matrices too."""
    a, square = RNG.normal(size=(6, 4)), RNG.normal(size=(4, 4))
    programs: list[tuple[Callable[[Any], Any], Any]] = [
        (linalg.pinv, a),
        (linalg.pinv, np.outer(a[:, 0], a[0])),
        (lambda a: linalg.lstsq(a, a[:, 0] ** 2)[0], a),
        (lambda a: linalg.matrix_norm(a, ord="nuc"), a),
        (afx.grad(linalg.det), square),
        (afx.grad(linalg.det), square * np.array([1.0, 1.0, 1.0, 0.0])),
        (afx.grad(linalg.det), np.array([[2.0]])),
    ]

    def fn(*xs: Any) -> list[Any]:  # all in one: most of the time is LLVM's
        return [program(x) for (program, _), x in zip(programs, xs, strict=True)]

    found = portable(fn, *[argument for _, argument in programs])
    for k, ((program, argument), z) in enumerate(zip(programs, found, strict=True)):
        np.testing.assert_allclose(z, np.asarray(program(argument)), rtol=1e-12, atol=1e-13, err_msg=str(k))


@pytest.mark.parametrize("padding", [0, "same", ((1, 1), (0, 1))])
def test_windows_with_every_padding(padding: Any) -> None:
    """Convolutions and pools with their derivatives."""
    x, kernel = RNG.normal(size=(2, 7, 6, 2)), RNG.normal(size=(3, 2, 2, 3))

    def loss(x: Any, kernel: Any) -> Any:
        z = afx.nn.conv(x, kernel, padding=padding, stride=2, dilation=(1, 2))
        pools = afx.nn.max_pool(x, 2, stride=1, padding=padding), afx.nn.avg_pool(x, 2, stride=1, padding=padding)
        return afx.sum(z**2) + sum(afx.sum(p**3) for p in pools)

    slopes = afx.grad(loss, argnums=(0, 1))
    for z, wanted in zip(portable(slopes, x, kernel), slopes(x, kernel), strict=True):
        np.testing.assert_allclose(z, wanted, rtol=1e-12, atol=1e-12)


# -- complex systems --
@pytest.mark.parametrize(
    "shapes", [((4, 4), (4,)), ((3, 5, 5), (3, 5, 2)), ((1, 1), (1,)), ((3, 3), (3, 0)), ((2, 30, 30), (30, 1))]
)
def test_complex_systems_and_inverses(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """As real ones of twice the length, in both precisions, beside real right sides, with derivatives, in C."""
    a, b = [RNG.normal(size=s) + 1j * RNG.normal(size=s) for s in shapes]

    def loss(a: Any, b: Any) -> Any:
        return afx.sum(afx.abs(linalg.solve(a, b)) ** 2)

    def solve(a: Any, *rights: Any) -> list[Any]:
        return [linalg.solve(a, b) for b in rights]

    def fn(a: Any, b: Any, real: Any) -> Any:  # all in one: most of the time is LLVM's
        single = linalg.solve(a.astype(np.complex64), b.astype(np.complex64))
        return solve(a, b, real), linalg.inv(a), single, slopes(a, b)

    slopes, rights = afx.grad(loss, argnums=(0, 1)), (b, b.real.copy())
    solutions, inverse, single, found = afx.jit(fn, backend="portable")(a, *rights)
    np.testing.assert_allclose(np.asarray(inverse), np.linalg.inv(a), rtol=1e-10, atol=1e-12)
    exported = export.compile(solve, a, *rights, name="s")(a, *rights)
    for right, *both in zip(rights, solutions, exported, strict=True):
        for solution in both:
            wanted = np.asarray(linalg.solve(a, right))
            np.testing.assert_allclose(np.asarray(solution), wanted, rtol=1e-10, atol=1e-12)
    assert single.dtype == np.complex64
    for z, right in zip(found, slopes(a, b), strict=True):
        np.testing.assert_allclose(np.asarray(z), np.asarray(right), rtol=1e-8, atol=1e-9)
    if b.size:
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            portable(linalg.solve, np.zeros_like(a), b)


# -- exports --
def test_exports_have_these_forms() -> None:
    """A function of C sorts, transforms and factorizes with the same algorithms."""

    def fn(a: Any) -> Any:
        spectrum = afx.fft.fft(a[0])
        return (
            afx.sort(a[0]), afx.argsort(a[0]), spectrum.imag, afx.fft.irfft(afx.fft.rfft(a[0]), 6), linalg.eigh(a + a.T),
            linalg.svd(a), linalg.qr(a), linalg.slogdet(a),
        )  # fmt: skip

    a = RNG.normal(size=(6, 6))
    compiled = export.compile(fn, a, name="everything")(a)
    for x, z in zip(pytree.leaves(compiled), portable(fn, a), strict=True):
        np.testing.assert_allclose(x, z, rtol=1e-12, atol=1e-13)


# -- draws --
DRAWS: dict[str, Callable[[Any], Any]] = {
    "cauchy": lambda k: afx.random.cauchy(k, (300,), 1.0, 2.0, dtype="float64"),
    "choice": lambda k: afx.random.choice(k, 10, (4,), replace=False),
    "dirichlet": lambda k: afx.random.dirichlet(k, np.array([0.3, 1.0, 50.0]), dtype="float64"),
    "gamma": lambda k: afx.random.gamma(k, np.array([0.01, 1.0, 50.0]), (30, 3), dtype="float64"),
    "loggamma": lambda k: afx.random.loggamma(k, 0.01, (5,)),
    "permutation": lambda k: afx.random.permutation(k, 37),
    "randint": lambda k: afx.random.randint(k, -5, 2**31 - 7, (40,), dtype="int32"),
    "randint of 64 bits": lambda k: afx.random.randint(k, 0, 2**62 + 3, (40,)),
    "randint under vmap": lambda k: afx.vmap(lambda q: afx.random.randint(q, 0, 7, (3,)))(afx.random.split(k, 4)),
    "wald": lambda k: afx.random.wald(k, 3.0, (30,), dtype="float64"),
}


def test_draws_are_the_eager_ones() -> None:
    """Integers and orders are equal; numbers that are accepted or rejected differ in the last digits of logarithms."""
    key = afx.random.key(5)
    drawn = portable(lambda k: [fn(k) for fn in DRAWS.values()], key)
    for name, x in zip(DRAWS, drawn, strict=True):
        np.testing.assert_allclose(x, np.asarray(DRAWS[name](key)), rtol=1e-13, err_msg=name)
    assert np.isnan(portable(lambda k, a: afx.random.gamma(k, a, (2,)), key, -1.0)[0]).all()


# -- whole arrays --
@pytest.mark.parametrize("name", ["kernels", "counts", "no residuals", "exponentials"])
def test_programs_compute_the_eager_numbers(name: str) -> None:
    """Of convolutions by groups, wide windows, counts and exponentials of matrices."""
    case = CASES[name]
    for z, wanted in zip(portable(case.fn, *case.args), pytree.leaves(case.fn(*case.args)), strict=True):
        np.testing.assert_allclose(z, wanted, rtol=1e-11, atol=1e-13)


def test_exponents_of_denormals_and_limits_are_numpys() -> None:
    """As `numpy.frexp` gives them, beside each power of two too."""
    powers = 2.0 ** np.arange(-1070, 1023, 7.0)
    x = np.r_[0.0, 5e-324, 1e-310, 1.7e308, np.inf, np.nan, -3.0, powers, np.nextafter(powers, 0)]
    for given in (x, x[np.abs(x) < 1e38].astype(np.float32)):
        np.testing.assert_array_equal(portable(lambda x: afx.frexp(x)[1], given)[0], np.frexp(given)[1])


def test_exponentials_of_matrices() -> None:
    """Of large and small ones beside SciPy's, of none, and of an infinite one."""
    scipy_linalg = pytest.importorskip("scipy.linalg", reason="SciPy is an extra")
    given = RNG.normal(size=(3, 7, 7)) * 5, np.zeros((2, 2)), np.array([[0.0, 1e5], [0.0, 0.0]]), np.zeros((0, 0))
    infinite = np.array([[np.inf, 0.0], [0.0, 1.0]])
    *found, unknown = portable(lambda *xs: [linalg.expm(x) for x in xs], *given, infinite)
    for a, z in zip(given, found, strict=True):
        wanted = scipy_linalg.expm(a)
        np.testing.assert_allclose(
            z, wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max(initial=0), err_msg=str(a.shape)
        )
    assert np.isnan(unknown).all()


def test_counts_of_what_is_none() -> None:
    """Known at run time only, they give -1, and nan between bounds in the wrong order."""
    key = afx.random.key(0)
    rates = portable(lambda rate: afx.random.poisson(key, rate), np.array([-1.0, np.nan, np.inf, 0.0]))[0]
    np.testing.assert_array_equal(rates, [-1, -1, -1, 0])
    tries = portable(lambda p: afx.random.binomial(key, 7, p), np.array([-0.1, np.nan, 1.1, 1.0, 0.0]))[0]
    np.testing.assert_array_equal(tries, [-1, -1, -1, 7, 0])
    assert np.isnan(portable(lambda low: afx.random.truncated_normal(key, low, 0.0), np.float64(1.0))[0])


STACKS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "heads by heads": ((3, 17, 2, 8), (3, 17, 2, 8), lambda a, b: a.transpose(0, 2, 1, 3) @ b.transpose(0, 2, 3, 1)),
    "rows of heads": ((3, 2, 17, 33), (3, 33, 2, 5), lambda a, b: a @ b.transpose(0, 2, 1, 3)),
    "heads by vectors": ((3, 2, 17, 33), (3, 33, 2, 1), lambda a, b: a @ b.transpose(0, 2, 1, 3)),
    "turned stacks": ((9, 40, 30), (9, 20, 40), lambda a, b: a.transpose(0, 2, 1) @ b.transpose(0, 2, 1)),
    "results turned": ((9, 40, 30), (9, 30, 20), lambda a, b: (a @ b).transpose(0, 2, 1)),
    "one for all": ((3, 2, 20, 30), (30, 21), lambda a, b: a @ b),
    "large": ((400, 500), (500, 401), lambda a, b: a @ b),
    "large and turned": ((400, 500), (401, 500), lambda a, b: a @ b.T),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", STACKS)
def test_products_are_chains(name: str, dtype: Any) -> None:
    """Each element is added up term by term, each operation rounded, whoever computes it; infinities and nan as well."""
    first, second, multiply = STACKS[name]
    x, y = [RNG.normal(size=shape).astype(dtype) for shape in (first, second)]
    x.flat[0], y.flat[1] = np.inf, np.nan

    class Chain(np.ndarray):
        """An array whose products are chains."""

        def __matmul__(self, other: Any) -> Any:
            with np.errstate(all="ignore"):
                terms = range(self.shape[-1])
                return sum((self[..., k, None] * other[..., k, None, :] for k in terms), np.zeros((), dtype))

    wanted = np.asarray(multiply(x.view(Chain), y))
    np.testing.assert_array_equal(afx.jit(multiply, backend="portable")(x, y), wanted)
    made = export.compile(multiply, x, y, name="product", bits="portable")
    np.testing.assert_array_equal(made(x, y), wanted)
