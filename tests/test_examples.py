"""The demonstrations keep their promises, and the command that runs them says what it does."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import afx
from examples import boundary_value, catenary, classifier, curve_derivative, histograms, local_optimum, polynomial
from examples.__main__ import EXAMPLES, main
from examples.report import Bars, Claim, Curve, Panel, optional, progress, save


@pytest.fixture(autouse=True)
def forget_missing_extras() -> Iterator[None]:
    """Look for the optional libraries anew in every test."""
    optional.cache_clear()
    yield
    optional.cache_clear()


class TestClaims:
    """A claim holds on the right side of its bound and says so."""

    def test_a_value_below_its_bound_holds(self) -> None:
        """Below the bound is kept, on the bound is not."""
        assert Claim("distance", 4.1e-4, 1e-3).holds
        assert not Claim("distance", 1e-3, 1e-3).holds

    def test_a_value_at_least_its_bound_holds(self) -> None:
        """The bound itself is kept, less is not."""
        assert Claim("accuracy", 0.995, 0.995, at_least=True).holds
        assert not Claim("accuracy", 0.994, 0.995, at_least=True).holds

    @pytest.mark.parametrize("at_least", [False, True])
    def test_nan_never_holds(self, at_least: bool) -> None:
        """A figure that could not be computed breaks the promise."""
        assert not Claim("distance", float("nan"), 1.0, at_least=at_least).holds

    def test_a_claim_reads_as_a_sentence(self) -> None:
        """The line has what, the figure, the bound and the verdict."""
        kept = Claim("largest distance", 4.1e-4, 1e-3)
        assert str(kept) == "largest distance 4.1e-04 (claim: below 1.0e-03) ok"
        broken = Claim("accuracy", 0.98, 0.995, at_least=True, shown="{:.2%}")
        assert str(broken) == "accuracy 98.00% (claim: at least 99.50%) FAILED"


class TestCommand:
    """`python -m examples` runs what it is asked for and reports failure in its status."""

    def test_help_names_every_example(self, capsys: pytest.CaptureFixture[str]) -> None:
        """--help lists the names and the option."""
        with pytest.raises(SystemExit) as leave:
            main(["--help"])
        assert leave.value.code == 0
        text = capsys.readouterr().out
        assert all(name in text for name in (*EXAMPLES, "--output"))

    def test_an_unknown_name_is_refused_with_the_choice(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Nothing runs; the message lists what can."""
        with pytest.raises(SystemExit) as leave:
            main(["catenary", "catenery"])
        assert leave.value.code == 2
        assert "unknown example: catenery; choose from catenary, classifier" in capsys.readouterr().err

    def test_a_file_as_output_folder_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The message names the option and the path."""
        (tmp_path / "file").write_text("")
        with pytest.raises(SystemExit) as leave:
            main(["--output", str(tmp_path / "file"), "curve_derivative"])
        assert leave.value.code == 2
        assert f"--output: no folder can be made at {tmp_path / 'file'}" in capsys.readouterr().err

    def test_one_example_runs_alone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Its claim is printed under its name, its plot is saved, the status is 0."""
        assert main(["--output", str(tmp_path / "new" / "folder"), "curve_derivative"]) == 0
        assert "curve_derivative: largest difference" in capsys.readouterr().out
        assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["curve_derivative.png"]

    def test_a_broken_claim_makes_the_status_1(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The others still run and the last line counts the failures."""
        monkeypatch.setitem(EXAMPLES, "catenary", lambda _: [Claim("distance", 2.0, 1.0)])
        assert main(["--output", str(tmp_path), "catenary", "curve_derivative"]) == 1
        text = capsys.readouterr().out
        assert "catenary: distance 2.0e+00 (claim: below 1.0e+00) FAILED" in text
        assert text.endswith("1 of 2 claims FAILED\n")

    def test_examples_run_without_their_extras(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without tqdm and matplotlib the claims stand; one line each names the extra to install."""
        for missing in ("tqdm", "matplotlib", "matplotlib.figure"):
            monkeypatch.setitem(sys.modules, missing, None)
        assert list(progress(range(3), "title")) == [0, 1, 2]
        assert list(progress(range(3), "title")) == [0, 1, 2]
        assert main(["--output", str(tmp_path), "curve_derivative"]) == 0
        errors = capsys.readouterr().err
        assert errors.count('progress bars need tqdm, which is not installed: pip install "afx[progress]"') == 1
        assert errors.count('plots need matplotlib, which is not installed: pip install "afx[plot]"') == 1
        assert not list(tmp_path.iterdir())

    def test_panels_are_drawn_into_one_file(self, tmp_path: Path) -> None:
        """Curves and bars, of NumPy's and of afx's arrays, on plain and logarithmic axes."""
        x = np.arange(1.0, 4.0)
        curve = Panel("a", "x", "y", (Curve(x, afx.asarray(x), "label"),), log_x=True, log_y=True)
        save(tmp_path / "plot.png", curve, Panel("b", "x", "y", (Bars(afx.asarray(x)),)))
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


class TestCatenary:
    """A rope of a given length hangs in the analytic catenary."""

    @pytest.mark.parametrize("wanted", [1.1, 1.4958])
    def test_the_rope_hangs_as_the_analytic_curve(self, wanted: float) -> None:
        """Within 1e-3 everywhere, of the wanted length within 1e-4, with its ends where they were."""
        y = catenary.hang(wanted)
        assert float(abs(catenary.length(y) - wanted)) < 1e-4
        assert catenary.distance(y) < 1e-3
        assert float(y[0]) == float(y[-1]) == 0.0

    def test_the_analytic_curve_has_its_length(self) -> None:
        """1.4958 gives the paper's curve; a fine polygon along it is as long."""
        y = catenary.catenary(1.4958)
        paper = 0.3094 * np.cosh((catenary.grid() - 0.5) / 0.3094) - 0.8094
        np.testing.assert_allclose(y, paper, atol=2e-4)

    def test_the_papers_loss_lets_the_rope_stretch(self) -> None:
        """Its rope ends near the catenary of a length well above the wanted one, as the paper's did."""
        y = catenary.soft_rope(1.1)
        assert 1.49 < float(catenary.length(y)) < 1.52
        assert catenary.distance(y) < 3e-3


class TestClassifier:
    """Histograms are told apart, and an input is bent over the border."""

    def test_histograms_are_numpys(self) -> None:
        """Fractions in 16 bins between the extremes of each row."""
        draws = np.random.default_rng(0).standard_normal((5, 500))
        expected = [np.histogram(row, bins=16)[0] / 500 for row in draws]
        np.testing.assert_allclose(histograms.histograms(draws), expected, atol=1e-7)

    def test_the_model_is_the_papers(self) -> None:
        """Correlations with three kernels, maxima of pairs, two linear maps: written out in NumPy, in float64."""
        random = np.random.default_rng(5)
        model = classifier.Classifier.random(random)
        x, _ = histograms.batch(random, 3)
        kernels = np.asarray(model.kernels, np.float64)[:, 0]
        correlated = np.stack([[np.correlate(row, k, "valid") for k in kernels.T] for row in x])
        pooled = correlated.reshape(6, 3, 6, 2).max(axis=-1).swapaxes(1, 2).reshape(6, 18)
        weight, bias, readout = (np.asarray(p, np.float64) for p in (model.weight, model.bias, model.readout))
        scores = (pooled @ weight + bias) @ readout
        np.testing.assert_allclose(np.asarray(model(afx.asarray(x))), scores, rtol=1e-4, atol=1e-4)

    def test_the_loss_cannot_overflow(self) -> None:
        """Scores of thousands give the linear loss, not infinity."""
        far = afx.asarray(np.full((2, 16), 1e6, np.float32))
        model = classifier.Classifier.random(np.random.default_rng(0))
        assert np.isfinite(float(classifier.loss(model, far, afx.asarray(np.array([1.0, 0.0], np.float32)))))

    def test_accuracy_and_hacking(self) -> None:
        """Fewer steps than the demonstration's reach 99.5 %; the gradient bends a class-0 input into class 1."""
        optimizer = afx.optim.adam(afx.optim.cosine_decay(0.05, 600))
        model, losses = classifier.train(optimizer, of_each=20, steps=600, title="short run")
        assert losses[-1] < losses[0]
        assert classifier.accuracy(model) >= 0.995
        inputs, scores = classifier.hack(model)
        assert scores[0] < 0 < scores[-1]
        assert len(inputs) == len(scores)


class TestBoundaryValue:
    """The difference equations are right and their least squares solution is the exact one."""

    def test_the_formulas_are_exact_on_polynomials(self) -> None:
        """Up to degree 4 at every point, both ends included (the paper's program has the backward ones wrong)."""
        t = boundary_value.times(12)
        y = 0.3 - 1.2 * t + 0.7 * t**2 - 0.2 * t**3 + 0.05 * t**4
        first = -1.2 + 1.4 * t - 0.6 * t**2 + 0.2 * t**3
        second = 1.4 - 1.2 * t + 0.6 * t**2
        found = np.asarray(boundary_value.residual(afx.asarray(y)))
        np.testing.assert_allclose(found, 2 * second + first + 2 * y, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(("points", "bound"), [(20, 2e-3), (40, 1e-4)])
    def test_newtons_method_finds_the_exact_solution(self, points: int, bound: float) -> None:
        """As near as the formulas allow: 1.8e-3 at 20 points, 4e-5 at 40."""
        inside = boundary_value.newton(points)
        assert boundary_value.error(inside) < bound
        np.testing.assert_allclose(np.asarray(afx.grad(boundary_value.loss)(inside)), 0, atol=1e-6)

    def test_the_papers_descent_lowers_the_loss_in_float32(self) -> None:
        """A thousand steps of its optimizer bring the loss down; the boundary values stay."""
        paper = boundary_value.paper_run(steps=1000)
        assert paper.params.dtype == np.float32
        assert paper.losses[-1] < 0.5 * paper.losses[0]
        ends = np.asarray(boundary_value.with_ends(paper.params))[[0, -1]]
        np.testing.assert_array_equal(ends, np.array([1.0, 0.1], np.float32))


class TestCurveDerivative:
    """The derivative of |sin x| exp(-x/3) is the formula's."""

    def test_values_between_and_at_the_kinks(self) -> None:
        """The formula between the kinks; at x = 0, where sin x is exactly 0, the convention d|u|/du = 0."""
        x = np.array([0.0, 0.5, 2.0, 4.0, 11.0])
        slope = np.asarray(curve_derivative.slope(afx.asarray(x)))
        assert slope[0] == 0
        np.testing.assert_allclose(slope, curve_derivative.slope_by_hand(x), rtol=1e-13)

    def test_the_claim_holds(self, tmp_path: Path) -> None:
        """The whole demonstration, plots included."""
        assert all(claim.holds for claim in curve_derivative.run(tmp_path))


class TestPolynomial:
    """The coefficients are found."""

    def test_the_claim_holds(self, tmp_path: Path) -> None:
        """The whole demonstration, the paper's run included."""
        assert all(claim.holds for claim in polynomial.run(tmp_path))

    def test_the_basis_spans_the_powers(self) -> None:
        """Q R gives back the powers, and the columns of Q are orthogonal with mean square 1."""
        q, r = polynomial.orthonormal_basis()
        np.testing.assert_allclose(q @ r, polynomial.POWERS, atol=1e-11)
        np.testing.assert_allclose(q.T @ q / len(q), np.eye(4), atol=1e-14)


class TestLocalOptimum:
    """The start decides where the paper's optimizer ends."""

    def test_one_start_is_stuck_and_the_other_is_not(self, tmp_path: Path) -> None:
        """The whole demonstration."""
        claims = local_optimum.run(tmp_path)
        assert all(claim.holds for claim in claims), "\n".join(map(str, claims))
