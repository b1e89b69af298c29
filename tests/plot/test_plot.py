"""Figures hold what was given, in files of the format asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import io, nn, plot, train
from afx.errors import AfxError, ArgumentError, DtypeError, MissingExtraError, ShapeError
from afx.plot.command_line import main

PNG, SVG = b"\x89PNG", b"<?xml"


def recorded() -> train.History:
    """Return a history of four steps, the last of which was evaluated."""
    history = train.History()
    run = train.steps(lambda s, x: (s, x), None, [1.0, 0.5, 0.05, 0.01])
    run = train.evaluate(run, lambda _: {"accuracy": 0.75}, every=4)
    train.finish(history.record(run))
    return history


class TestLosses:
    """Curves of values over steps."""

    def test_a_history_gives_its_loss_and_its_metrics(self) -> None:
        """The first panel has the values on a logarithmic axis, the second the metric at its step."""
        loss, metric = plot.losses(recorded()).axes
        np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[1, 1.0], [2, 0.5], [3, 0.05], [4, 0.01]])
        assert loss.get_yscale() == "log"
        np.testing.assert_array_equal(metric.lines[0].get_xydata(), [[4, 0.75]])
        assert metric.lines[0].get_label() == "accuracy"

    @pytest.mark.parametrize("values", [[3.0, 2.0], np.array([3, 2]), afx.asarray([3.0, 2.0])])
    def test_plain_values_count_from_one(self, values: Any) -> None:
        """Lists, ndarrays and Arrays; a linear axis where the values are close."""
        (panel,) = plot.losses(values).axes
        np.testing.assert_array_equal(panel.lines[0].get_xydata(), [[1, 3.0], [2, 2.0]])
        assert panel.get_yscale() == "linear"

    def test_values_that_are_not_finite_are_gaps(self) -> None:
        """Infinity and nan are not drawn, nor do they spoil the mean of their neighbours."""
        (panel,) = plot.losses([1.0, np.inf, 3.0, np.nan, np.nan], smoothing=2).axes
        np.testing.assert_array_equal(panel.lines[0].get_ydata(), [1, np.nan, 3, np.nan, np.nan])
        np.testing.assert_array_equal(panel.lines[1].get_ydata(), [1, 1, 3, 3, np.nan])

    def test_smoothing_over_more_values_than_there_are(self) -> None:
        """The mean of what there is."""
        (panel,) = plot.losses([1.0, 3.0], smoothing=5).axes
        np.testing.assert_array_equal(panel.lines[1].get_ydata(), [1, 2])

    def test_several_runs_are_told_apart(self) -> None:
        """Labels of curves and of metrics name the run."""
        loss, metric = plot.losses({"a": recorded(), "b": [1.0]}).axes
        assert [line.get_label() for line in loss.lines] == ["a", "b"]
        assert [line.get_label() for line in metric.lines] == ["a: accuracy"]

    @pytest.mark.parametrize(
        ("values", "options", "error"),
        [
            ([], {}, ArgumentError),
            (train.History(), {}, ArgumentError),
            (np.ones((2, 2)), {}, ShapeError),
            (np.array(["a"]), {}, DtypeError),
            (np.array([1j]), {}, DtypeError),
            ([1.0], {"smoothing": 0}, ArgumentError),
            ([1.0], {"save": "loss.doc"}, ArgumentError),
        ],
    )
    def test_wrong_use(self, values: Any, options: dict[str, Any], error: type[AfxError]) -> None:
        """What cannot be drawn is refused."""
        with pytest.raises(error, match=r"^(losses|plot): "):
            plot.losses(values, **options)


def test_weights_are_counted_leaf_by_leaf() -> None:
    """A histogram of each inexact array holds all finite elements; integers are left out, nan is counted apart."""
    model = nn.MLP.create(afx.random.key(0), [3, 5, 2])
    panels = plot.weights({"model": model, "count": afx.arange(3), "z": afx.asarray([1j, np.nan])}, bins=7).axes
    totals = {panel.get_title(): sum(patch.get_height() for patch in panel.patches) for panel in panels}
    assert list(totals.values()) == [15, 5, 10, 2, 1]
    assert list(totals)[-1] == "['z'] (2,), 1 not finite"
    with pytest.raises(ArgumentError, match=r"^weights: "):
        plot.weights({"count": afx.arange(3)})


def test_filters_share_a_scale() -> None:
    """The pictures are those of the kernel, outputs in columns, channels in rows, one scale for all."""
    kernel = np.random.default_rng(0).standard_normal((3, 2, 2, 5))
    panels = plot.filters(kernel).axes
    images = [panel.images[0] for panel in panels]
    np.testing.assert_array_equal(images[6].get_array(), kernel[:, :, 1, 1])
    assert {image.get_clim() for image in images} == {(-np.abs(kernel).max(), np.abs(kernel).max())}
    assert len(plot.filters(kernel[:, 0]).axes) == 10
    assert len(plot.filters(kernel[:, :, :1]).axes) == 5
    plot.filters(np.zeros((3, 1, 2)))
    for wrong, error in (
        (kernel[0, 0], ShapeError),
        (kernel * 1j, DtypeError),
        (np.ones((1, 1, 30, 30)), ArgumentError),
    ):
        with pytest.raises(error, match=r"^filters: "):
            plot.filters(wrong)


class TestConfusionMatrix:
    """A square for each pair of classes."""

    def test_rows_are_scaled_and_counts_are_written(self) -> None:
        """An empty class has no share; counts stand in the squares, percentages if wished."""
        counts = np.array([[3, 1, 0], [0, 0, 0], [2, 0, 2]])
        (panel,) = plot.confusion_matrix(counts).axes
        np.testing.assert_array_equal(panel.images[0].get_array(), [[0.75, 0.25, 0], [0, 0, 0], [0.5, 0, 0.5]])
        assert [text.get_text() for text in panel.texts] == [str(k) for k in counts.ravel()]
        (panel,) = plot.confusion_matrix(counts, ["a", "b", "c"], normalize=True).axes
        assert panel.texts[0].get_text() == "75"
        assert [label.get_text() for label in panel.get_yticklabels()] == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("matrix", "labels", "error"),
        [
            (np.ones((2, 3)), None, ShapeError),
            (np.ones((0, 0)), None, ShapeError),
            (np.array([[1j]]), None, DtypeError),
            (np.array([[-1]]), None, ArgumentError),
            (np.array([[np.nan]]), None, ArgumentError),
            (np.ones((2, 2)), ["a"], ArgumentError),
        ],
    )
    def test_wrong_use(self, matrix: Any, labels: list[str] | None, error: type[AfxError]) -> None:
        """What is no confusion matrix is refused."""
        with pytest.raises(error, match=r"^confusion_matrix: "):
            plot.confusion_matrix(matrix, labels)


class TestCommandLine:
    """``python -m afx.plot`` writes figures."""

    @pytest.mark.parametrize("writer", [io.save, lambda path, arrays: np.savez(path, **arrays)])
    def test_a_history_in_either_kind_of_file(self, tmp_path: Path, writer: Any) -> None:
        """Files of afx.io and of NumPy."""
        writer(tmp_path / "history.npz", recorded().arrays())
        for suffix, start in ((".png", PNG), (".svg", SVG)):
            assert main([str(tmp_path / "history.npz"), "-o", str(tmp_path / f"loss{suffix}")]) == 0
            assert (tmp_path / f"loss{suffix}").read_bytes().startswith(start)

    def test_other_kinds(self, tmp_path: Path) -> None:
        """Weights, filters and a confusion matrix; two runs in one figure."""
        np.savez(tmp_path / "a.npz", kernel=np.ones((3, 3, 1, 2)), table=np.ones((2, 2)), loss=np.ones(3))
        output = tmp_path / "figure.png"
        commands = (["--kind", "weights"], ["--kind", "filters", "--name", "kernel"], ["--name", "loss"])
        for command in (*commands, ["--kind", "confusion", "--name", "table"]):
            output.unlink(missing_ok=True)
            assert main([str(tmp_path / "a.npz"), "-o", str(output), *command]) == 0
            assert output.read_bytes().startswith(PNG)
        assert main([str(tmp_path / "a.npz")] * 2 + ["-o", str(output), "--name", "loss"]) == 0

    def test_a_model_that_was_saved(self, tmp_path: Path) -> None:
        """The histograms of a file of a model are those of the model."""
        io.save(tmp_path / "model.npz", nn.Linear.create(afx.random.key(0), 2, 3))
        assert main([str(tmp_path / "model.npz"), "-o", str(tmp_path / "a.png"), "--kind", "weights"]) == 0

    def test_mistakes_are_told_in_a_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A missing file, an array that is not there, a strange suffix: status 1 and one line."""
        np.savez(tmp_path / "a.npz", x=np.ones(3), y=np.ones(3))
        file = str(tmp_path / "a.npz")
        for command in (["none.npz", "-o", "a.png"], [file, "-o", "a.png"], [file, "-o", "a.doc", "--name", "x"]):
            assert main(command) == 1
            assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r'pip install "afx\[plot\]"'):
        plot.losses([1.0])


def test_histories_survive_as_arrays() -> None:
    """What `arrays` gives is read back; arrays that do not belong together are refused."""
    history = recorded()
    again = train.History.from_arrays(history.arrays())
    assert (again.numbers, again.values, again.metrics) == (history.numbers, history.values, history.metrics)
    assert train.History.from_arrays(train.History().arrays()).values == []
    for wrong in ({"step": [1]}, {"step": [1], "loss": [1.0, 2.0]}):
        with pytest.raises(ArgumentError, match=r"^History\.from_arrays: "):
            train.History.from_arrays(wrong)
    history.metrics["loss"] = [(1, 0.0)]
    with pytest.raises(ArgumentError, match=r"^History\.arrays: "):
        history.arrays()
