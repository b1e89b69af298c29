"""`special` and `stats`: integers and Python's numbers alone compute in float64, beside an array they take its dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import afx
from afx import special, stats
from afx.stats._distribution import Family, continuous
from tests.dtype_sweep import Row, rows
from tests.ops.samples import together
from tests.stats.laws import PLAIN

WHOLE = np.array([0, 1, 2, 3, 7])
OTHER = np.array([1, 2, 2, 1, 3])
LEFT_OUT = (
    "stats.mode(x)[0]",
    "stats.sem(x)",
    "stats.rankdata(x)",
    "special.hyp2f1(0.5, 1.0, 1.5, x * 0.25)",
)  # others'
ROWS = [row for row in rows() if row.name.startswith(("special", "stats.")) and row.name not in LEFT_OUT]
ROWS += [
    Row("special.hyp2f1(0.5, 1.0, 1.5, -x)", lambda x, *_: special.hyp2f1(0.5, 1.0, 1.5, -x), None, False),
    Row("special.softmax(x)", lambda x, *_: special.softmax(x), None, False),
    Row("special.log_softmax(x)", lambda x, *_: special.log_softmax(x), None, False),
    Row("special.logsumexp(x, b=y)", lambda x, y, *_: special.logsumexp(x, b=y), None, False),
]
PARAMETERS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(PLAIN, (1, 2.3)),
    **dict.fromkeys(["rayleigh", "uniform"], (-0.3, 9)),
    **dict.fromkeys(["chi2", "gamma", "gennorm", "invgamma", "lognorm", "pareto", "skewnorm", "t"], (2.3,)),
    **dict.fromkeys(["vonmises", "weibull_min"], (1.7,)),
    "bernoulli": (0.3,),
    "beta": (2, 3.1, -1, 11),
    "betabinom": (12, 1.3, 2.1),
    "binom": (12, 0.3),
    "f": (2, 3.1),
    "geom": (0.3,),
    "nbinom": (2.3, 0.3),
    "poisson": (0.5589,),
    "truncnorm": (-1.3, 3),
    "wrapcauchy": (0.3,),
}
METHODS = ["logcdf", "logsf", "cdf", "sf", "ppf", "isf"]
NUMBERS = ["mean", "var", "std", "median", "entropy"]
MATRIX = [[2, 0.3], [0.3, 1]]
VECTORS: dict[str, Callable[[Any, Any], Any]] = {
    "dirichlet": lambda x, n: stats.dirichlet.logpdf(x - np.array([0, 1], x.dtype), [n(1.3), n(2)]),
    "gaussian_random_walk": lambda x, n: stats.gaussian_random_walk(2, n(1.3), n(0.1)).logpdf(x),
    "lkj": lambda x, n: stats.lkj(2, n(1.3)).logpdf([[x[0], x[0] / 4], [x[0] / 4, x[1]]]),
    "lkj_cholesky": lambda x, n: stats.lkj_cholesky(2, n(1.3)).logpdf([[x[0], 0 * x[0]], [0 * x[0], x[1]]]),
    "mixture": lambda x, n: stats.mixture([n(0.3), n(0.7)], [stats.norm(n(0), n(1.1)), stats.norm(n(3), n(2))]).logpdf(
        x
    ),
    "mixture of one family": lambda x, n: stats.mixture([n(0.3), n(0.7)], stats.norm([n(0), n(3)], n(1.3))).logpdf(x),
    "multinomial": lambda x, n: stats.multinomial.logpmf(x, 2, [n(0.3), n(0.7)]),
    "multivariate_normal": lambda x, n: stats.multivariate_normal.logpdf(x, [n(0.1), n(2)], in_numbers(MATRIX, n)),
    "multivariate_normal_precision": lambda x, n: stats.multivariate_normal_precision.logpdf(
        x, [n(0.1), n(2)], in_numbers(MATRIX, n)
    ),
    "ordered_logistic": lambda x, n: stats.ordered_logistic(n(0.3), [n(-1.1), n(1)]).logpmf(x),
    "truncated": lambda x, n: stats.truncated(stats.norm(n(0.1), n(2)), n(-1), n(3.3)).logpdf(x),
    "censored": lambda x, n: stats.censored(stats.norm(n(0.1), n(2)), n(-1), n(1)).logpdf(x),
    "hurdle": lambda x, n: stats.hurdle(stats.poisson(n(1.3)), n(0.3)).logpmf(x),
    "zero_inflated": lambda x, n: stats.zero_inflated(stats.poisson(n(1.3)), n(0.3)).logpmf(x),
    "ordered": lambda x, n: stats.ordered(stats.norm(n(0.3), n(2)).expand(2)).logpdf(x + np.array([0, 1], x.dtype)),
    "wishart": lambda x, n: stats.wishart.logpdf([[x[0], 0 * x[0]], [0 * x[0], x[1]]], n(3), in_numbers(MATRIX, n)),
    "gaussian_kde": lambda x, n: stats.gaussian_kde(x * np.array([1, 2], x.dtype)).logpdf(x),
    "rankdata": lambda x, _n: stats.rankdata(x),
    "sem": lambda x, _n: stats.sem(x),
}


def in_numbers(x: Any, n: Callable[[float], Any]) -> Any:
    """Return a table of numbers, each made by a function."""
    return [[n(v) for v in row] for row in x]


def check(found: Any, want: Any) -> None:
    """Check that a result is in float64 or complex128, and has the digits of what float64 gives."""
    for z, right in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, want)], strict=True):
        assert z.dtype == right.dtype == (np.complex128 if right.dtype.kind == "c" else np.float64)
        np.testing.assert_allclose(np.asarray(z), np.asarray(right), rtol=4e-15, atol=0)


def run_everywhere(fn: Callable[..., Any], *xs: Any) -> list[Any]:
    """Return what a function gives in eager operations, compiled, mapped and inside of a gradient."""
    mapped = afx.pytree.map(lambda z: z[1], afx.vmap(lambda _, *xs: fn(*xs), (0, *[None] * len(xs)))(np.zeros(2), *xs))
    inside = afx.vjp(lambda one: (one, fn(*xs)), np.float64(1.0))[0][1]
    return [fn(*xs), afx.jit(fn)(*xs), mapped, inside]


@together("row", ROWS, ids=lambda row: row.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_and_pythons_numbers_alone(row: Row) -> None:
    """Every function of integer arrays, and of Python's numbers, has float64's digits; of float32 it stays so."""

    def call(x: Any, y: Any) -> Any:
        return row.call(x, y, *[None] * 3) if "(x" in row.name or ", x" in row.name else row.call(x, y)

    for x, y in ((WHOLE, OTHER), (2, 1), (0.3, 1), (1, 0.7)):
        want = call(np.asarray(x, np.float64), np.asarray(y, np.float64))
        for found in run_everywhere(call, x, y):
            check(found, want)
        for found in (call(np.float32(x), np.float32(y)), call(np.float32(x), y) if np.ndim(y) == 0 else []):
            assert all(z.dtype in (np.float32, np.complex64) for z in afx.pytree.leaves(found))


def test_every_law_is_here() -> None:
    """The tables have each public law and family."""
    laws = {name for name in stats.__all__ if isinstance(getattr(stats, name), Family)}
    assert laws == {*PARAMETERS}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_laws_of_integers_and_pythons_numbers(name: str) -> None:
    """Every function of every law at integers and Python's parameters has float64's digits; of float32 it stays so."""
    law, given = getattr(stats, name), PARAMETERS[name]
    wide = [np.float64(p) for p in given]
    for method in [*METHODS, *(["pdf", "logpdf"] if isinstance(law, continuous) else ["pmf", "logpmf"])]:
        fn = getattr(law, method)
        for x in [0.3, [0.3, 0.7]] if method in ("ppf", "isf") else [WHOLE, 2, [1, 2.5]]:
            want = fn(np.asarray(x, np.float64), *wide)
            ways = [fn(x, *given)]
            if name == "betabinom":  # whose n is known
                ways.append(afx.jit(lambda x, fn=fn: fn(x, *given))(x))
            elif not isinstance(x, list):
                ways += run_everywhere(fn, x, *given)
            for found in ways:
                check(found, want)
        assert fn(np.float32(0.3), *given).dtype == np.float32
        assert fn(1, *[np.float32(p) for p in given]).dtype == np.float32
    for method in NUMBERS:
        fn = getattr(law, method)
        for found in [fn(*given)] if name == "betabinom" else run_everywhere(fn, *given):
            check(found, fn(*wide))
        assert fn(*given[:-1], np.float32(given[-1])).dtype == np.float32
    check(law.interval(0.9, *given), law.interval(np.float64(0.9), *wide))
    assert law.rvs(afx.random.key(0), (2,), *given).dtype == np.float32  # numbers that afx makes itself


@together("name", VECTORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_laws_of_vectors_and_of_laws(name: str) -> None:
    """So have the densities of vectors, matrices and laws made of laws, and descriptions of samples."""
    fn, x = VECTORS[name], np.array([1, 1])
    check(fn(x, lambda v: v), fn(x.astype(np.float64), np.float64))
    check(afx.jit(lambda x: fn(x, lambda v: v))(x), fn(x.astype(np.float64), np.float64))
    assert fn(x.astype(np.float32), lambda v: v).dtype == np.float32


def test_what_float32_cannot_hold() -> None:
    """Small probabilities and large moments are SciPy's."""
    k = np.array([12, 39])
    np.testing.assert_allclose(stats.poisson.sf(k, 0.5589), scipy.stats.poisson.sf(k, 0.5589), rtol=1e-12)
    np.testing.assert_allclose(stats.lognorm.var(7.978), scipy.stats.lognorm.var(7.978), rtol=1e-12)
    np.testing.assert_allclose(special.gamma(np.array([100])), scipy.special.gamma(100.0), rtol=1e-13)
    np.testing.assert_allclose(special.expit(-200), scipy.special.expit(-200.0), rtol=1e-14)
    np.testing.assert_allclose(
        special.logsumexp([-1000, -1000.1]), scipy.special.logsumexp([-1000, -1000.1]), rtol=1e-15
    )
    assert special.bernoulli(80)[-1] == scipy.special.bernoulli(80)[-1]


def test_functions_outside_of_special_keep_the_rule() -> None:
    """`afx.nn.sigmoid`, `afx.logsumexp` and softmax of the networks give the default dtype."""
    for z in (afx.nn.sigmoid(WHOLE), afx.logsumexp(WHOLE), afx.nn.softmax(WHOLE), afx.nn.gelu(2.0), afx.sinc(WHOLE)):
        assert z.dtype == np.float32
