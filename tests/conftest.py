"""What every test has: plots without a screen, reproducible random data, hypothesis without surprises."""

import contextlib
import gc
import importlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.jax_settings import JAX_SETTINGS

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("AFX_CHECK_PROGRAMS", "1")  # each native program is legal
os.environ.update({**JAX_SETTINGS, **os.environ})

import attrs
import hypothesis
import numpy as np
import pytest

from afx.compiler.target import NativeTarget, current, use_target
from afx.runtime.blas import BRINGERS, blas

# They take a minute each, most of it in other processes: begun first, they leave no worker alone at the end.
LONG = ("test_checks.py", "test_type_completeness.py", "distributed/test_together.py", "runtime/test_buffer_cache.py")
OF_MACHINE_CODE = {"compile", "compiler", "distributed", "export", "platforms", "portable", "runtime"}
OF_THREADS = {"compiler", "distributed", "portable", "runtime"}

hypothesis.settings.register_profile("afx", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("afx")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what takes long first."""
    long = [Path(__file__).parent / name for name in LONG]
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import tests without the garbage collector, which would take a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep what was collected, which lives as long as the process, out of the garbage collector's sight.

    Each of its full rounds, and some tests ask for hundreds of them, would go through all of it: a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def compile_seldom(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile plans whose calls take as long as compiling them, in folders of tests that promise nothing of machine code.

    After the few milliseconds that are enough elsewhere, a test's plan would be compiled when the test is over: half of
    the time of all those of `odeint`. tests/compiler and what asks for a back end compile as ever.
    """
    if not OF_MACHINE_CODE.isdisjoint(request.path.relative_to(Path(__file__).parent).parts):
        yield
        return
    with use_target(attrs.evolve(current.target, native=NativeTarget(compile_min_seconds=1.0))):
        yield


@pytest.fixture(autouse=True, scope="module")
def hold_blas(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold BLAS to one thread, in folders of tests that promise nothing of threads.

    Its threads wait for each other in a loop: beside another busy process the solution of a triangle of two rows takes
    ten milliseconds of processors' time, and a quarter of all tests of linear algebra is that.
    """
    if not OF_THREADS.isdisjoint(request.path.relative_to(Path(__file__).parent).parts):
        yield
        return
    for name in BRINGERS:  # a library that is loaded later would not be held
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with blas:
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """A random generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20240607)
