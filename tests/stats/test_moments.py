"""Means, variances and entropies where large terms cancel, or where whole numbers are many: digits beside mpmath's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import afx
from afx import stats
from tests.every import together

# name, parameters, mean, variance, entropy, of continuous laws by mpmath at 50 digits, of whole numbers by all terms
EXTREMES: list[tuple[str, tuple[float, ...], float, float, float]] = [
    ("gamma", (0.0009765625,), 0.0009765625, 0.0009765625, -1016.6431628448613),
    ("gamma", (1000000.0,), 1000000.0, 1000000.0, 8.326693478853393),
    ("chi2", (1000.0,), 1000.0, 2000.0, 5.218722762886959),
    ("chi2", (1000000.0,), 1000000.0, 2000000.0, 8.673266735799782),
    ("invgamma", (0.0009765625,), math.inf, math.inf, 1032.50805801382),
    ("invgamma", (1000000.0,), 1.000001000001e-06, 1.000004000011e-18, -19.30432663707499),
    ("beta", (1000000.0, 1000000.0), 0.5, 1.2499993750003124e-07, -6.528537766617507),
    ("beta", (0.0009765625, 1000000.0), 9.765624990463256e-10, 9.765615205774574e-16, -1030.4586729042903),
    ("beta", (1000.0, 0.0009765625), 0.9999990234384537, 9.75584055879477e-10, -1023.5504195061673),
    ("f", (1000000.0, 1000000.0), 1.000002000004, 4.0000280001440004e-06, -4.795669065217519),
    ("f", (0.0009765625, 1000.0), 1.002004008016032, 2060.3476068683713, -2032.3256858813957),
    ("t", (1000.0,), 0.0, 1.002004008016032, 1.4199387830378813),
    ("t", (1000000.0,), 0.0, 1.000002000004, 1.4189395332049228),
    ("gennorm", (1000000.0,), 0.0, 0.33333294852530543, 0.6931476033451028),
    ("weibull_min", (50.0,), 0.9888442032639133, 0.0006253425856013038, -2.346351653824644),
    ("weibull_min", (1000000.0,), 0.9999994227853242, 1.6449297637827162e-12, -12.238295470278405),
    ("pareto", (1000000.0,), 1.000001000001, 1.000004000011e-12, -12.815509557964274),
    ("lognorm", (0.0009765625,), 1.000000476837272, 9.536756806493147e-07, -5.51253327239478),
    ("skewnorm", (1000.0,), 0.7978841618608842, 0.3633808642515544, 0.7265119994272863),
    ("skewnorm", (-1000000.0,), -0.7978845608024664, 0.3633802276330553, 0.725792073291897),
    ("vonmises", (0.0009765625,), 0.0, 3.2879151281299315, 1.837876827990809),
    ("vonmises", (1000000.0,), 0.0, 1.0000005000005418e-06, -5.488816495777277),
    ("poisson", (0.0009765625,), 0.0009765625, 0.0009765625, 0.007745908408839814),
    ("poisson", (1000000.0,), 1000000.0, 1000000.0, 8.326693728853435),
    ("binom", (1000000.0, 0.0009765625), 976.5625, 975.6088256835938, 4.860384262486339),
    ("nbinom", (0.0009765625, 0.0009765625), 0.9990234375, 1023.0, 0.0748898104650127),
    ("nbinom", (0.5, 0.0009765625), 511.5, 523776.0, 7.039328417988334),
    ("nbinom", (1000.0, 0.5), 1000.0, 2000.0, 5.2190145856363745),
    ("betabinom", (1000.0, 0.0009765625, 1.0), 0.975609756097561, 487.57870019153, 0.08094182598159765),
    ("betabinom", (10000.0, 1000.0, 0.5), 9995.002498750624, 54.86524086309628, 2.6166604755174445),
    ("betabinom", (1000.0, 1000000.0, 1000000.0), 500.0, 250.12487493756254, 4.17991859598903),
    ("geom", (0.0009765625,), 1024.0, 1047552.0, 7.930983365326078),
]
DIRICHLET = -1043.274185463231, [9.999959980578866e-13, 9.765595674583254e-16, 1.0009725556722279e-12]
WISHART = 26.512649965688425


@together(("name", "parameters", "mean", "var", "entropy"), EXTREMES)
@together(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 1e-6)])
def test_numbers_keep_their_digits(
    name: str, parameters: tuple[float, ...], mean: float, var: float, entropy: float, dtype: type, rtol: float
) -> None:
    """Numbers of extreme parameters have eleven digits, and in float32 all of that dtype."""
    law, given = getattr(stats, name), [dtype(p) for p in parameters]
    found = [law.mean(*given), law.var(*given), law.std(*given), law.entropy(*given)]
    assert {z.dtype for z in found} == {np.dtype(dtype)}
    np.testing.assert_allclose(found, [mean, var, math.sqrt(var), entropy], rtol=rtol)


def test_a_deviation_is_finite_where_the_variance_is_not() -> None:
    """In float32 the variance overflows long before its root does."""
    assert float(stats.norm.std(scale=np.float32(1e30))) == pytest.approx(1e30, rel=1e-6)


@pytest.mark.parametrize(("a", "want"), [(3.0, 0.21013186630354713), (1e6, 5.000003333335e-07)])
def test_slopes_of_entropies_keep_their_digits(a: float, want: float) -> None:
    """The derivative of a gamma law's entropy is 1 + (1 - a) polygamma(1, a) (mpmath)."""
    np.testing.assert_allclose(afx.grad(stats.gamma.entropy)(np.float64(a)), want, rtol=1e-9)


def test_entropies_and_variances_of_shares_and_matrices() -> None:
    """Shares of large and small parameters, and matrices of many degrees of freedom (mpmath)."""
    a = np.array([1.0, 2.0**-10, 1e6])
    np.testing.assert_allclose(stats.dirichlet.entropy(a), DIRICHLET[0], rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.entropy(a.astype(np.float32)), DIRICHLET[0], rtol=1e-6)
    np.testing.assert_allclose(stats.dirichlet.var(a), DIRICHLET[1], rtol=1e-12)
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(stats.wishart.entropy(np.float64(1e6), scale), WISHART, rtol=1e-13)
