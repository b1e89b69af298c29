"""Metrics over whole sets, tables of values, TensorBoard's files, and the search for a learning rate."""

import builtins
import csv
import itertools
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import data, optim, train
from afx.errors import ArgumentError, FileFormatError, MissingExtraError, ShapeError

X = np.random.default_rng(0).normal(size=(53, 3))
Y = X @ np.array([1.0, -2.0, 0.5])


def replay(values: Any, start: int = 0) -> Any:
    """Make a run whose values are given."""
    run = train.steps(lambda s, value: (s, value), 0.0, values, start=start)
    return train.evaluate(run, lambda s: {"error": 0.5}, every=2)


# --------------------------------------------------------------------------------------------------------- whole sets


@pytest.mark.parametrize("size", [1, 7, 20, 53])
def test_metrics_over_a_set_weigh_batches_by_their_examples(size: int) -> None:
    """Means over the whole set are the same for batches of any size, a short last one too."""
    batches: Any = data.batches((X, Y), size, last="short")
    measure = afx.jit(lambda w, batch: {"error": afx.mean((batch[0] @ w - batch[1]) ** 2), "one": 1.0})
    found = train.measure_over(measure, lambda: batches.epoch(0))(np.zeros(3))
    assert found == pytest.approx({"error": np.mean(Y**2), "one": 1.0}, rel=1e-14)
    run = train.evaluate(
        train.steps(lambda s, x: (s, x), np.zeros(3), [0.0] * 2), train.measure_over(measure, lambda: batches.epoch(0))
    )
    assert [step.metrics["one"] for step in run] == [1.0, 1.0]


def test_outputs_over_a_set_are_joined() -> None:
    """Predictions batch by batch are those of one call, in any structure."""
    batches: Any = data.batches(X, 20, last="short")
    found = train.predict_over(lambda x: {"y": x @ np.ones(3), "x": x}, batches.epoch(0))
    assert np.array_equal(found["x"], X)
    assert np.allclose(found["y"], X.sum(1), rtol=1e-14)


def test_odd_measures_are_refused() -> None:
    """No batch, other names, batches and outputs without an axis of examples."""
    names = itertools.cycle(["a", "b"])
    with pytest.raises(ArgumentError, match="measure_over: no batch"):
        train.measure_over(lambda s, x: {}, list[float])(0.0)
    with pytest.raises(ArgumentError, match=r"the same metrics: got \['b'\] after \['a'\]"):
        train.measure_over(lambda s, x: {next(names): 0.0}, lambda: [X, X])(0.0)
    with pytest.raises(ShapeError, match="the first axis of a batch counts"):
        train.measure_over(lambda s, x: {"a": 0.0}, lambda: [1.0])(0.0)
    with pytest.raises(ArgumentError, match="predict_over: no batch"):
        train.predict_over(lambda x: x, list[float]())
    with pytest.raises(ShapeError, match="got a number"):
        train.predict_over(np.sum, [X, X])


# ------------------------------------------------------------------------------------------------------------- tables


def rows(path: Path) -> list[list[str]]:
    """Return the cells of a table."""
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_table_has_a_line_a_step(tmp_path: Path) -> None:
    """Values and metrics stand under their names, and a line is there as soon as its step is done."""
    path = tmp_path / "run.csv"
    run = train.write_csv(replay([3.0, 2.0, 1.5]), path)
    next(iter(run))
    assert rows(path) == [["step", "value"], ["1", "3.0"]]
    train.finish(run)
    assert rows(path) == [["step", "value", "error"], ["1", "3.0", ""], ["2", "2.0", "0.5"], ["3", "1.5", ""]]
    assert np.isnan(data.load_csv(path)["error"]).tolist() == [True, False, True]


def test_a_resumed_table_goes_on(tmp_path: Path) -> None:
    """Steps that are taken again replace their lines; half a line of a killed process goes."""
    path = tmp_path / "run.csv"
    train.finish(train.write_csv(replay([3.0, 2.0, 1.5]), path))
    path.write_text(path.read_text() + "4,0.2")
    train.finish(train.write_csv(replay([7.0, 6.0], start=2), path, every=10))
    assert rows(path)[1:] == [["1", "3.0", ""], ["2", "2.0", "0.5"], ["4", "6.0", "0.5"]]
    train.finish(train.write_csv(replay([1.0]), path))
    assert rows(path) == [["step", "value", "error"], ["1", "1.0", ""]]


def test_another_table_is_left_alone(tmp_path: Path) -> None:
    """A file that is no table of a run is named, and stays as it was."""
    (tmp_path / "a.csv").write_text("age,height\n3,0.9\n")
    with pytest.raises(FileFormatError, match=r"the file is another table: got .*\['age', 'height'\]"):
        train.finish(train.write_csv(replay([1.0]), tmp_path / "a.csv"))
    assert (tmp_path / "a.csv").read_text() == "age,height\n3,0.9\n"


# -------------------------------------------------------------------------------------------------------- TensorBoard


def test_values_and_metrics_for_tensorboard(tmp_path: Path) -> None:
    """An event file has each value and metric under its name and step, and what the state's own writer adds."""
    pytest.importorskip("tensorboardX", reason="the extra tensorboard")
    from tensorboardX.event_file_writer import EventFileWriter  # noqa: F401  # the extra is there
    from tensorboardX.proto import event_pb2

    def write(writer: Any, state: float, number: int) -> None:
        writer.add_scalar("state", state, number)

    run = train.write_tensorboard(replay([3.0, 2.0, 1.5]), tmp_path, every=2, write_state=write)
    assert [step.number for step in run] == [1, 2, 3]
    (path,) = tmp_path.iterdir()
    blob, at, found = path.read_bytes(), 0, set()
    while at < len(blob):  # records: length, its checksum, an event, its checksum
        length = int.from_bytes(blob[at : at + 8], "little")
        event = event_pb2.Event.FromString(blob[at + 12 : at + 12 + length])
        found |= {(value.tag, value.simple_value, event.step) for value in event.summary.value}
        at += 16 + length
    assert found == {("value", 2.0, 2), ("error", 0.5, 2), ("state", 0.0, 2)}


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tensorboardX the error names the extra, when the piece is put on."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "tensorboardX":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r'pip install "afx\[tensorboard\]"'):
        train.write_tensorboard(replay([1.0]), tmp_path)


# ------------------------------------------------------------------------------------------------------ learning rate


def test_the_learning_rate_of_a_quadratic() -> None:
    """On a quadratic of curvature c, gradient descent diverges beyond 2/c: the search stops there and stays below."""
    curvature = 8.0

    def step(w: Any, _: Any, rate: float) -> Any:
        value, grad = afx.value_and_grad(lambda w: 0.5 * curvature * w**2)(w)
        return w - rate * grad, value

    found = train.find_learning_rate(step, afx.asarray(1.0), itertools.repeat(None), lowest=1e-4, highest=100.0)
    assert float(found.rates[-1]) < 100.0
    assert 1e-3 < found.steepest < 2 / curvature
    assert found.best < 2 / curvature
    assert len(found.rates) == len(found.losses)


def test_the_search_sets_the_rate_of_the_state() -> None:
    """An optimizer's state holds its rate, so that the training's own step serves; the first state is left alone."""
    optimizer = optim.adam(0.1)
    batches = data.batches((X, Y), 16, key=afx.random.key(0))

    @afx.jit
    def step(state: Any, batch: Any, rate: float) -> Any:
        w, inner = state
        value, grad = afx.value_and_grad(lambda w: afx.mean((batch[0] @ w - batch[1]) ** 2))(w)
        return optimizer.step(w, grad, attrs.evolve(inner, learning_rate=rate)), value

    w = afx.zeros(3, dtype=np.float64)
    found = train.find_learning_rate(step, (w, optimizer.init(w)), batches.stream(), lowest=1e-5, highest=100.0)
    assert float(found.rates[0]) == 1e-5
    assert 1e-3 < found.steepest < 10.0
    assert w.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lowest": 0.0}, "rates grow"),
        ({"lowest": 2.0}, "rates grow"),
        ({"count": 5}, "in at least 10 steps"),
        ({"batches": [1.0] * 5}, "too few batches: got 5 for 100"),
        ({"value": np.nan}, "diverges at once"),
    ],
)
def test_odd_searches_are_refused(options: dict[str, Any], message: str) -> None:
    """Rates that do not grow, too few batches, and a loss that is not finite."""
    value, batches = options.pop("value", 1.0), options.pop("batches", itertools.repeat(1.0))
    with pytest.raises(ArgumentError, match=message):
        train.find_learning_rate(lambda s, x, rate: (s, value), 0.0, batches, **options)
