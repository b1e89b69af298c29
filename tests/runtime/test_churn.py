"""Tables that all threads share may change while one of them is read: modules, weak references, programs."""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

import afx
from afx.core.registry import loaded_modules
from afx.distributed.mpi.shared_memory import SharedBlocks, keep_used_blocks
from afx.io.naming import name_of

ROUNDS = 300


@contextmanager
def churn(change: Callable[[int], None]) -> Generator[list[BaseException]]:
    """Change tables in a second thread, switching between both every few microseconds; give its errors."""
    errors: list[BaseException] = []
    is_over = threading.Event()

    def run() -> None:
        count = 0
        while not is_over.is_set():
            count += 1
            try:
                change(count)
            except BaseException as error:
                errors.append(error)
                return

    interval, before = sys.getswitchinterval(), gc.get_threshold()
    thread = threading.Thread(target=run)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(1)  # finalizers run between any two instructions
    thread.start()
    try:
        yield errors
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
        gc.set_threshold(*before)


def _change_modules(count: int) -> None:
    sys.modules[f"afx.optim.churned_{count % 50}"] = types.ModuleType("churned")
    sys.modules.pop(f"afx.optim.churned_{(count + 25) % 50}", None)


def _drop_modules() -> None:
    for name in [name for name in list(sys.modules) if "churned" in name]:
        del sys.modules[name]


def test_modules_come_and_go_while_names_are_looked_up() -> None:
    """Imports of other threads change the table of modules that files and warnings read."""
    made = type(afx.optim.adam(0.1).init(np.zeros(2)))
    with churn(_change_modules) as errors:
        for _ in range(ROUNDS // 10):
            assert loaded_modules()
            name_of(made, "made")
    _drop_modules()
    assert not errors


def test_shared_blocks_come_and_go_before_a_fork() -> None:
    """Blocks that ranks share may be made and dropped by other threads while a process is forked off."""

    def change(count: int) -> None:
        alive.append(SharedBlocks(lambda _: None))
        del alive[: -(count % 40 + 1)]

    alive: list[SharedBlocks] = []
    with churn(change) as errors:
        for _ in range(ROUNDS):
            keep_used_blocks()
    assert not errors


def test_programs_of_solvers_come_and_go() -> None:
    """Two threads make programs of solvers, of which each takes out the oldest and those that are forgotten."""

    def solve(scale: float) -> afx.Array:
        return afx.optim.least_squares(lambda x: scale * x - 1.0, np.ones(2)).x

    with churn(lambda count: np.testing.assert_allclose(solve(float(count % 5 + 1)), 1 / (count % 5 + 1))) as errors:
        for k in range(8):
            np.testing.assert_allclose(solve(float(k + 1)), 1 / (k + 1), rtol=1e-6)
    assert not errors
