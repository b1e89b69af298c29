"""The demonstrations that train networks: whole runs on small settings, and their parts against oracles."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
import afx.distributed
from examples import (
    autoencoder,
    character_model,
    data_parallel,
    digits,
    digits_lenet,
    digits_mlp,
    flow,
    gaussian_process,
    graph_split,
    hamiltonian,
    heat_equation,
    logistic_regression,
    lotka_volterra,
    slot_programs,
    time_series,
)
from examples.__main__ import EXAMPLES, PAPER, main
from examples.report import Claim, Panel, Pixels, save

SMALL: dict[str, tuple[Callable[..., list[Claim]], dict[str, int], float]] = {
    "digits_mlp": (digits_mlp.run, {"epochs": 2, "folds": 1}, 0.9),
    "digits_lenet": (digits_lenet.run, {"epochs": 1, "folds": 1}, 0.7),
    "character_model": (character_model.run, {"steps": 15}, 4.8),
    "time_series": (time_series.run, {"steps": 40}, 0.5),
    "autoencoder": (autoencoder.run, {"epochs": 6}, 26.5),
    "flow": (flow.run, {"steps": 60}, -1.85),
    "logistic_regression": (logistic_regression.run, {"penalties": 2}, 1e-5),
    "gaussian_process": (gaussian_process.run, {"steps": 12, "count": 60}, 1e-6),
    "lotka_volterra": (lotka_volterra.run, {"repetitions": 8}, 1e-4),
    "heat_equation": (heat_equation.run, {"steps": 150}, 0.05),
    "hamiltonian": (hamiltonian.run, {"draws": 80, "chains": 8}, 0.6),
    "data_parallel": (data_parallel.run, {"steps": 15}, 1.0),
    "graph_split": (graph_split.run, {"branches": 16, "most_slots": 8}, 1.0),
    "slot_programs": (slot_programs.run, {"steps": 30}, 2.0),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_short_run_learns(name: str, tmp_path: Path) -> None:
    """Each example runs from end to end, learns in a few steps, and saves its figure."""
    run, settings, bound = SMALL[name]
    claim = run(tmp_path, **settings)[0]
    assert claim.value >= bound if claim.at_least else claim.value < bound
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_list_names_all_and_the_paper_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name the paper's six run; the list shows the others too, each with its first sentence."""
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXAMPLES)
    assert all(len(line.split()) > 3 for line in lines)
    assert set(PAPER) < set(EXAMPLES)
    assert len(PAPER) == 6


def test_the_writer_does_not_look_ahead() -> None:
    """Scores of earlier characters do not depend on later ones; pairs that are counted cost what the formula says."""
    model = character_model.Writer.create(afx.random.key(0))
    text = character_model.encoded(character_model.TEXT[:20])
    other = text.at[12:].set(0)
    np.testing.assert_allclose(np.asarray(model(text)[:12]), np.asarray(model(other)[:12]), atol=1e-5)
    pair = afx.asarray(np.array([0, 1, 0]))
    share = 2 / (1 + len(character_model.LETTERS))
    assert character_model.bits_by_pairs(pair, pair) == pytest.approx(-np.log2(share), rel=1e-12)


def test_the_series_follows_its_equation() -> None:
    """Differences of the unscaled series, in NumPy."""
    x = np.full(18, 1.2)
    for _ in range(600):
        x = np.append(x, x[-1] + 0.2 * x[-18] / (1 + x[-18] ** 10) - 0.1 * x[-1])
    want = x[18 + 500 :]
    np.testing.assert_allclose(np.asarray(time_series.series(100)), (want - want.mean()) / want.std(), atol=1e-5)


def test_the_bound_is_its_formula() -> None:
    """The mean over many codes is the cross entropy of pixels plus the divergence of two normal distributions."""
    model = autoencoder.Autoencoder.create(afx.random.key(0))
    x = digits.flatten(digits.images()[0])[:1]
    mean, log_variance = (np.asarray(part, np.float64)[0] for part in model.encode(x))
    code = mean + np.exp(log_variance / 2) * np.random.default_rng(0).normal(size=(20_000, autoencoder.LATENT))
    y = np.asarray(model.decoder(code.astype(np.float32)), np.float64)
    entropy = (np.logaddexp(0, y) - np.asarray(x) * y).sum(-1).mean()
    divergence = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum()
    many = afx.broadcast_to(x, (20_000, 64))
    found = float(afx.mean(autoencoder.bound(model, many, afx.random.key(1))))
    assert found == pytest.approx(entropy + divergence, rel=2e-3)


def test_the_flow_is_invertible_and_its_density_right() -> None:
    """Points come back, and the density is the normal one times the determinant of the Jacobian."""
    with afx.default_dtype(afx.float64):
        model = flow.create(afx.random.key(0))
        x = flow.sample(model, afx.random.key(1), 5)

        def forward(point: Any) -> Any:
            for layer in model:
                point, _ = layer(point)
            return point

        back = forward(x)
        np.testing.assert_allclose(
            np.asarray(back), np.asarray(afx.random.normal(afx.random.key(1), (5, 2))), atol=1e-12
        )
        for point, z, found in zip(x, back, flow.log_density(model, x), strict=True):
            log_det = np.linalg.slogdet(np.asarray(afx.jacrev(forward)(point)))[1]
            want = log_det - float(afx.sum(z**2)) / 2 - np.log(2 * np.pi)
            assert float(found) == pytest.approx(want, rel=1e-12)


def test_pictures_are_drawn(tmp_path: Path) -> None:
    """A panel of pixels becomes a file."""
    save(tmp_path / "pixels.png", Panel("a", "", "", (Pixels(np.eye(3)),)))
    assert (tmp_path / "pixels.png").read_bytes().startswith(b"\x89PNG")


def test_the_chains_leap_along_hamiltons_equations() -> None:
    """Leapfrog is reversible and keeps the energy to the order of its step, squared."""
    x, y = hamiltonian.measure()
    w, p = afx.asarray(np.array([0.8, -1.9, 0.4, 0.1])), afx.asarray(np.array([1.0, -0.5, 0.3, 2.0]))
    there, momentum = hamiltonian.leap(w, p, x, y)
    back, _ = hamiltonian.leap(there, -momentum, x, y)
    np.testing.assert_allclose(np.asarray(back), np.asarray(w), rtol=1e-10)
    energies = [float(0.5 * afx.sum(q**2) - hamiltonian.log_density(v, x, y)) for v, q in ((w, p), (there, momentum))]
    assert abs(energies[1] - energies[0]) < 0.5
    assert float(afx.max(afx.abs(there - w))) > 0.05


def test_the_marginal_likelihood_is_that_of_a_normal_vector() -> None:
    """Against the density of a multivariate normal law by SciPy."""
    normal = pytest.importorskip("scipy.stats", reason="SciPy is the oracle").multivariate_normal
    x, y = gaussian_process.measure(10)
    process = gaussian_process.Process(*(afx.asarray(v) for v in np.array([0.1, -0.2, -1.0])))
    covariance = np.exp(0.2) * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / np.exp(-0.4)) + np.exp(-2) * np.eye(10)
    expected = -normal(np.zeros(10), covariance).logpdf(np.asarray(y))
    np.testing.assert_allclose(float(gaussian_process.loss(process, x, y)), expected, rtol=1e-6)


def test_the_rod_begins_and_ends_as_it_must() -> None:
    """Whatever the weights: sin πx at the beginning, 0 at both ends; the exact solution has no residual."""
    net = afx.nn.MLP.create(afx.random.key(3), [2, 5, 1], activation=afx.tanh)
    x = afx.linspace(0.0, 1.0, 7)
    first = [float(heat_equation.temperature(net, point, afx.asarray(0.0))) for point in x]
    np.testing.assert_allclose(first, np.sin(np.pi * np.asarray(x)), atol=1e-6)
    assert all(abs(float(heat_equation.temperature(net, afx.asarray(k), afx.asarray(0.7)))) < 1e-6 for k in (0.0, 1.0))


def test_the_simulated_exchange() -> None:
    """No message on one rank; on n, each sends n - 1 shares and n - 1 sums."""
    machine = afx.distributed.Machine(network_bytes_per_second=100.0, latency_seconds=1.0)
    assert data_parallel.exchange_seconds(machine, 1000, 1) == 0
    assert data_parallel.exchange_seconds(machine, 1000, 4) == 2 * 3 * (1 + 2.5)
