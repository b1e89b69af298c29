"""What public functions make can be saved and loaded: optimizers, their states, schedules, solvers' results, laws from data."""

import functools
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import afx
from afx import integrate, io, optim, pytree, stats
from afx.errors import TreeError
from tests.optim.cases import OPTIMIZERS

LOCAL = {"frozen", "projected"}  # cases that hold a lambda of the test
SCHEDULES: dict[str, Callable[[], Any]] = {
    "constant": lambda: optim.constant(0.1),
    "linear": lambda: optim.linear(1.0, 0.0, 4),
    "polynomial": lambda: optim.polynomial(1.0, 0.0, 2.0, 4),
    "exponential_decay": lambda: optim.exponential_decay(1.0, 0.5, 4, staircase=True, end=0.1),
    "cosine_decay": lambda: optim.cosine_decay(1.0, 4, alpha=0.1, exponent=2.0),
    "cosine_restarts": lambda: optim.cosine_restarts(1.0, 4, growth=2.0),
    "warmup_cosine": lambda: optim.warmup_cosine(1.0, 2, 10),
    "piecewise_constant": lambda: optim.piecewise_constant(1.0, {5: 0.5, 7: 0.1}),
    "inverse_sqrt": lambda: optim.inverse_sqrt(1.0, 4),
    "one_cycle": lambda: optim.one_cycle(1.0, 10),
    "one_cycle in lines": lambda: optim.one_cycle(1.0, 10, shape="linear", fall=0.85),
    "warmup": lambda: optim.warmup(optim.cosine_decay(1.0, 10), 4),
    "join": lambda: optim.join([optim.constant(1.0), optim.linear(1.0, 0.0, 4)], [3]),
}
RESULTS: dict[str, Callable[[], Any]] = {
    "minimize": lambda: optim.minimize(lambda x: afx.sum((x - 1) ** 2), afx.zeros(2)),
    "least_squares": lambda: optim.least_squares(lambda x: x - 1, afx.zeros(2)),
    "root": lambda: optim.root(lambda x: x - 1, afx.zeros(2)),
    "odeint": lambda: integrate.odeint(lambda t, y: -y, afx.ones(2), afx.linspace(0, 1, 3)),
    "gaussian_kde": lambda: stats.gaussian_kde(np.arange(10.0).reshape(2, 5) % 3.5),
    "sparse_jacobian": lambda: afx.sparse_jacobian(lambda x: x[1:] * x[:-1])(afx.ones(3)),
    "linspace": lambda: afx.linspace(0, 1, 3),
}
FACTORIES = ("clip", "scale", "add_", "trace", "ema", "centralize", "set_to_zero", "adaptive_clip", "reduce_on")


def back(path: Path, thing: Any) -> Any:
    """Return what comes back from a file."""
    io.save(path / "thing", thing)
    return io.load(path / "thing")


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers_and_their_states_come_back(tmp_path: Path, name: str) -> None:
    """Every optimizer of the table, and its state, is what it was; a function of the caller's own is refused at once."""
    optimizer, params = OPTIMIZERS[name](), {"w": afx.ones((3, 2)), "b": afx.ones(2)}
    state = optimizer.init(params)
    assert pytree.equal(back(tmp_path, state), state)
    if name in LOCAL:
        with pytest.raises(TreeError, match="lambda"):
            io.save(tmp_path / "thing", optimizer)
        return
    loaded = back(tmp_path, optimizer)
    value = afx.asarray(1.0)
    for own, other in zip(
        pytree.leaves(loaded.step(params, params, state, value=value)[0]),
        pytree.leaves(optimizer.step(params, params, state, value=value)[0]),
        strict=True,
    ):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_schedules_come_back(tmp_path: Path, name: str) -> None:
    """A schedule that was loaded gives the same rates."""
    schedule = SCHEDULES[name]()
    loaded = back(tmp_path, schedule)
    for count in (0.0, 1.0, 3.0, 6.0, 20.0):
        np.testing.assert_array_equal(loaded(afx.asarray(count)), schedule(afx.asarray(count)))


def test_a_schedule_of_no_known_rule_says_so() -> None:
    """A name that a file made up is an error that lists the rules."""
    schedule = type(optim.constant(0.1))("none", ())  # its own class is not public
    with pytest.raises(ValueError, match="schedule: no rule of this name: got 'none'"):
        schedule(0.0)


def test_every_schedule_of_optim_is_in_the_table() -> None:
    """Functions that return schedules are among those that are saved and loaded here."""
    returning = {
        name
        for name in optim.__all__
        if getattr(getattr(optim, name), "__annotations__", {}).get("return") == "ArraySchedule"
    }
    assert returning <= SCHEDULES.keys()


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_results_come_back(tmp_path: Path, name: str) -> None:
    """What solvers and estimators return is a tree of the same leaves again."""
    made = RESULTS[name]()
    for own, other in zip(pytree.leaves(back(tmp_path, made)), pytree.leaves(made), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", [n for n in optim.__all__ if n.startswith(FACTORIES)])
def test_transformations_come_back(tmp_path: Path, name: str) -> None:
    """Each link that a chain of `afx.optim` may have."""
    factory = getattr(optim, name)
    try:
        link = factory()
    except TypeError:
        link = factory(0.5)
    assert type(back(tmp_path, link)) is type(link)


def test_transformations_keep_their_names_in_files() -> None:
    """Files name a class that users know by a function's name as they did before, and one with an underscore is found."""
    assert io.naming.name_of(optim.scale_by_adam, "") == "afx.optim:ScaleByAdam"
    assert io.naming.name_of(optim.clip_by_norm, "") == "afx.optim:ClipByNorm"
    for name in ("ScaleByAdam", "scale_by_adam"):
        assert io.naming.find_public(f"afx.optim:{name}") is optim.scale_by_adam
    for name in ("ClipByNorm", "_ClipByNorm", "clip_by_norm"):
        assert io.naming.find_public(f"afx.optim:{name}") is optim.clip_by_norm
    assert pickle.loads(b"cafx.optim.clipping\n_ClipByNorm\n.") is optim.clip_by_norm


def _public_functions() -> list[Any]:
    faces = [afx, *[vars(afx)[name] for name in afx.__all__ if isinstance(vars(afx).get(name), ModuleType)]]
    things = [getattr(face, name) for face in faces for name in face.__all__]
    return [thing for thing in things if isinstance(thing, FunctionType) and thing.__module__.startswith("afx")]


def test_public_functions_come_back_or_are_refused_when_saved(tmp_path: Path) -> None:
    """A file never names a part of afx that `load` refuses."""
    loaded, refusals = 0, list[str]()
    for fn in _public_functions():
        try:
            io.save(tmp_path / "thing", functools.partial(fn))
        except TreeError as error:
            refusals.append(str(error))
        else:
            assert io.load(tmp_path / "thing").func is fn
            loaded += 1
    assert loaded > 500
    assert all("a part of afx that no file may name" in text for text in refusals)


def test_packages_whose_names_begin_alike_are_no_part_of_afx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's package such as ``afxtools`` is saved, and loaded by those who allow it."""
    package = ModuleType("afxtools")
    exec("def wave(x):\n    return x\n", vars(package))
    monkeypatch.setitem(sys.modules, "afxtools", package)
    fn = vars(package)["wave"]
    fn.__module__ = "afxtools"
    io.save(tmp_path / "thing", functools.partial(fn))
    assert io.load(tmp_path / "thing", allow=[package]).func is fn
