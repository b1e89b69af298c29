"""Loops over neighbouring rows in tiles: NumPy's bits for all shapes, edges and readers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.loops import BlockLoop
from tests.compiler.native_backend.native_run import Native, assert_same_bits, use_limits


@pytest.fixture(autouse=True)
def _small_tiles() -> Iterator[None]:
    """Tile what is small, so that tests are quick."""
    with use_limits(tile_min_bytes=1, tile_max_elements=60, tile_min_rows=2):
        yield


def _loops(native: Native) -> list[BlockLoop]:
    return [step for step in native.program.block.all_steps() if isinstance(step, BlockLoop)]


def _steps(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda u: afx.scan(lambda u, _: (fn(u), u[0] * 2), u, None, 3)


def _diffused(u: Any) -> Any:
    """Return the next state of a limited diffusion, whose flows read neighbours of neighbours."""
    lap = 4.0 * u[1:-1, 1:-1] - (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    x, y = lap[1:, 1:-1] - lap[:-1, 1:-1], lap[1:-1, 1:] - lap[1:-1, :-1]
    x = afx.where(x * (u[2:-1, 2:-2] - u[1:-2, 2:-2]) > 0, 0.0, x)
    return afx.pad(u[2:-2, 2:-2] - 0.01 * (x[1:] - x[:-1] + y[:, 1:] - y[:, :-1]), 2)


def _twice(u: Any) -> Any:
    """Read rows before and behind, two loops away, and a value that a later loop needs whole."""
    v = np.tanh(u) * 0.5
    w = v[3:] - v[:-3] * u[1:-2]
    z = w[2:, ::-1] * w[:-2] + v[2:-3]
    return afx.concatenate([z + w[1:-1], v[:5] * z[0] + u[-5:]], axis=0)


def _columns(u: Any) -> Any:
    """Read transposes, single rows and all rows of what loops before have made, which no tile could compute."""
    v = u * 2 + 1
    w = v[::-1] * v[0] + (v[:9, :9].T * 2 + v[:9, :9]).max()
    return w[:, ::-1] + v - (w * w).sum(axis=0)


def _corrected(u: Any) -> Any:
    """Read neighbours of what was added to in place, which must happen once also where two tiles meet."""
    v = afx.asarray(u).at[:, 1:].add(0.5 * np.sin(u[:, :-1]))
    w = v[1:] - v[:-1] * 0.3
    return afx.pad(w, ((0, 1), (0, 0))) + v * 0.1


@pytest.mark.parametrize("shape", [(24, 20), (37, 11), (64, 9), (9, 40)])
@pytest.mark.parametrize("step", [_diffused, _twice, _columns, _corrected])
def test_steps_of_stencils(step: Callable[[Any], Any], shape: tuple[int, int]) -> None:
    """Steps in a loop agree with the plan, for tiles that end even or not."""
    assert_same_bits(_steps(step), np.random.default_rng(1).normal(size=shape) * 0.1)


def test_tiles_are_made() -> None:
    """The loops of a step become one over tiles, whose values lie in memory of a tile's size."""
    u = np.random.default_rng(2).normal(size=(84, 20)).astype(np.float32)
    native = assert_same_bits(_steps(_diffused), u)
    (loop,) = _loops(native)
    assert len(loop.blocks()[0].steps) == 4
    assert loop.arena_bytes < u.nbytes / 2


def test_more_axes_and_results_of_every_loop() -> None:
    """Arrays of three axes agree, and values that are results beside."""
    u = np.random.default_rng(3).normal(size=(30, 4, 5))

    def step(u: Any, _: Any) -> Any:
        v = u[1:] - u[:-1]
        w = v[1:, :, 1:] * v[:-1, :, :-1]
        return afx.pad(w, ((1, 1), (0, 0), (0, 1))) + u * 0.5, (v, w.sum(), w[2])

    assert_same_bits(lambda u: afx.scan(step, u, None, 3), u)


def test_updates_in_place_stay_behind_what_reads_the_old_values() -> None:
    """A loop that writes into an array does not run before all that read it as it was."""
    u = np.random.default_rng(4).normal(size=(40, 12))

    def step(u: Any, _: Any) -> Any:
        v = (u[2:] + u[:-2]) * 0.5
        return u.at[1:-1].set(v * 2 - u[1:-1]).at[3:9, 2:].add(v[4:10, 2:]), v[::7] + u[:6]

    assert_same_bits(lambda u: afx.scan(step, u, None, 4), u)


def test_errors_in_a_tile_are_seen() -> None:
    """A division by zero in a row that two tiles compute is seen once, or not at all where it is ignored."""
    u = np.ones((40, 12))

    def fn(u: Any) -> Any:
        v = 1 / u
        return v[2:] * 2 - v[:-2]

    assert Native(_steps(lambda u: afx.pad(fn(u), ((1, 1), (0, 0))) + u), u + 1)(u + 1)[1] == 0
    zero = u.copy()
    zero[20, 3] = 0.0
    assert Native(_steps(lambda u: afx.pad(fn(u), ((1, 1), (0, 0))) * 0 + u), zero)(zero)[1] & 1
