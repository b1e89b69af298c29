"""Diagnostics are the numbers of the papers, and those of arviz."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import plot, sample
from afx.errors import ArgumentError, DtypeError, ShapeError

REFERENCE = {  # rhat, ess (bulk, tail) and bfmi of arviz 0.23.4, of the draws that `chains` makes
    "independent": (1.0026086077699803, 1613.16328671925, 1932.2795622179876, 2.054147996948342),
    "slow": (1.0369606533154203, 132.02798851512506, 190.14753344211059, 0.24103349597495277),
    "antithetic": (0.9992508270539066, 5541.152527888597, 2189.286102452721, 2.913649649583775),
    "shifted": (1.0971557426753997, 30.170790869048297, 298.5346687055061, 1.4032377663312081),
    "heavy": (1.0007788973113285, 940.3235447282167, 846.5674561504707, 1.9947423253301548),
    "ties": (1.0012160937108114, 944.8127644484941, 889.8508516223467, 2.127707177376051),
    "short": (1.1241276178424942, 12.9501749525715, 12.9501749525715, 2.9916415595286803),
}


def chains() -> dict[str, Any]:
    """Return draws of several kinds, float[chains, draws] each."""
    random = np.random.default_rng(7)

    def correlated(phi: float, shape: tuple[int, int]) -> Any:
        noise, x = random.normal(size=shape), np.zeros(shape)
        for t in range(1, shape[1]):
            x[:, t] = phi * x[:, t - 1] + noise[:, t]
        return x

    return {
        "independent": random.normal(size=(4, 500)),
        "slow": correlated(0.9, (4, 500)),
        "antithetic": correlated(-0.5, (4, 501)),
        "shifted": correlated(0.3, (4, 200)) + np.array([0, 0, 0, 1.0])[:, None],
        "heavy": random.standard_cauchy((4, 250)),
        "ties": random.poisson(2, (3, 300)).astype(float),
        "short": random.normal(size=(2, 7)),
    }


def test_diagnostics_are_those_of_arviz() -> None:
    """R-hat, effective sizes and E-BFMI agree with arviz to rounding, with ties, heavy tails and odd lengths."""
    for name, x in chains().items():
        got = (sample.r_hat(x), sample.ess_bulk(x), sample.ess_tail(x), sample.e_bfmi(x)[0])
        np.testing.assert_allclose(got, REFERENCE[name], rtol=1e-10, err_msg=name)


def test_diagnostics_keep_axes() -> None:
    """Axes of parameters stay; what is not finite, or has no axis of chains, is nan or refused."""
    x = np.stack([chains()["independent"], chains()["slow"]], axis=-1)[..., None]
    assert sample.r_hat(x).shape == (2, 1)
    assert sample.ess_bulk(x)[1, 0] == pytest.approx(REFERENCE["slow"][1])
    x[0, 3, 0] = np.nan
    assert np.isnan(sample.r_hat(x)).ravel().tolist() == [True, False]
    assert np.isnan(sample.ess_tail(x)).ravel().tolist() == [True, False]
    with pytest.raises(ShapeError, match="chains, draws"):
        sample.r_hat(np.zeros(5))
    with pytest.raises(ShapeError, match="chains, draws"):
        sample.ess_bulk(np.zeros((0, 9)))
    wrong: Any
    for wrong in (x + 1j, {"x": x}, "x"):
        for fn in (sample.r_hat, sample.e_bfmi):
            with pytest.raises(DtypeError, match="real numbers"):
                fn(wrong)
    with pytest.raises(ShapeError, match="same chains and draws"):
        sample.summary({"a": np.zeros((4, 30)), "b": np.zeros((4, 31))})
    with pytest.raises(ShapeError, match="four at least"):
        sample.ess_tail(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match="e_bfmi"):
        sample.e_bfmi(np.zeros(5))
    with pytest.raises(ArgumentError, match="empty tree"):
        sample.summary({})


def test_chains_that_stand_still_have_not_met() -> None:
    """R-hat is that of arviz where no chain moves, and where draws have two values, half of them each."""
    still, balanced = np.array([[1.0] * 40, [2.0] * 40]), np.array([[0.0, 1.0] * 20, [1.0, 0.0] * 20])
    assert sample.r_hat(still) == np.inf
    assert np.isnan(sample.r_hat(np.ones((2, 40))))
    np.testing.assert_allclose(sample.r_hat(balanced), 0.9746794344808963, rtol=1e-12)


def test_a_summary_is_a_table() -> None:
    """Rows are named by paths; it prints, with the divergences of draws."""
    draws = {"a": chains()["slow"], "b": np.stack([chains()["independent"], chains()["slow"]], axis=-1)}
    table = sample.summary(draws)
    assert table.names == ("['a']", "['b'][0]", "['b'][1]")
    assert table.mean[0] == pytest.approx(draws["a"].mean())
    assert table.sd[0] == pytest.approx(draws["a"].std(ddof=1))
    assert repr(table).splitlines()[1].split()[-3:] == ["132", "190", "1.0370"]


def test_draws_for_arviz_and_figures(tmp_path: Path) -> None:
    """`to_arviz` has arviz's names and shapes; traces and pairs are figures, of chosen numbers too."""

    def log_density(p: dict[str, dict[str, Any]]) -> Any:
        return -0.5 * afx.sum(p["a"]["x"] ** 2) - 0.5 * p["a"]["y"] ** 2

    start = {"a": {"x": np.zeros(2), "y": np.float64(0.0)}}
    draws = sample.draw(sample.nuts(log_density), afx.random.key(0), start, draws=8, warmup=0, chains=2)
    groups = sample.to_arviz(draws)
    assert {name: x.shape for name, x in groups["posterior"].items()} == {"a.x": (2, 8, 2), "a.y": (2, 8)}
    assert groups["sample_stats"]["diverging"].shape == (2, 8)
    twice = attrs.evolve(draws, params={"a": {"b": draws.energy}, "a.b": draws.energy})
    with pytest.raises(ArgumentError, match=r"got \['a.b'\] twice"):
        sample.to_arviz(twice)
    assert "0 divergences" in repr(sample.summary(draws))
    assert len(plot.traces(draws, save=tmp_path / "traces.png").axes) == 6
    names = ["['a']['x'][1]", "['a']['y']"]
    assert len(plot.pairs(draws, names=names).axes) == 4
    with pytest.raises(ArgumentError, match="no such number"):
        plot.traces(draws, names=["z"])
