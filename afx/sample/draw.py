"""`draw` and `extend`: whole runs of several chains, from their start through the warm-up to their draws."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Generic, Literal, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.solving.compiled import are_plain, compile_for
from afx.control.solving.functions import flatten_to_vector
from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError, MissingExtraError
from afx.ops.creation.creation import asarray
from afx.ops.random.bits import check_key
from afx.sample.chains import BLOCK, Chains, Row, advance_block, begin_chains
from afx.sample.hamiltonian import Sampler
from afx.transforms._arguments import describe, whole_number
from afx.transforms.vmap import vmap

__all__ = ["Draws", "check_draws", "draw", "extend"]

T = TypeVar("T")

PER_DRAW: Final = ("params", "log_density", "energy", "acceptance", "leaps", "depth", "diverged")
SETTLING_CALLS: Final = 24  # of one step each: machine code is made and compared with NumPy's calls meanwhile
SECONDS: Final = 0.1  # a block may take


@attrs.frozen
class Draws(Generic[T]):
    """Draws of several chains, a tree: `afx.io` saves it, and `extend` goes on from it.

    Attributes:
        params: the constrained parameters, leaves [chains, draws, ...].
        log_density: float[chains, draws], of the unconstrained ones.
        energy: float[chains, draws], of the points drawn with their momenta.
        acceptance: float[chains, draws], the mean probability with which points of a trajectory would be accepted.
        leaps: int[chains, draws], how many gradients each draw took.
        depth: int[chains, draws], how often its trajectory was doubled.
        diverged: bool[chains, draws], whether the error of the energy exceeded 1000.
        divergences: int[count, 2], draw and chain of each of these, in the order of time.
        places: the parameters where each of these trajectories broke off, leaves [count, ...].
        chains: where they are now.
    """

    params: T
    log_density: Array
    energy: Array
    acceptance: Array
    leaps: Array
    depth: Array
    diverged: Array
    divergences: Array
    places: T
    chains: Chains[T]


def draw(
    sampler: Sampler[T],
    key: ArrayLike,
    start: T,
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    target: float = 0.8,
    mass: Literal["diagonal", "dense"] = "diagonal",
    spread: float = 1.0,
    show_progress: bool = False,
) -> Draws[T]:
    """Return draws of several chains, after a warm-up that tunes step sizes and mass matrices as Stan does.

    The chains step together as one program, compiled once for each sampler: what its density closes over is read once, as
    under `jit`. The same key gives the same bits, by NumPy and by machine code.

    Args:
        sampler: from `nuts` or `hmc`.
        key: uint32[2].
        start: parameters within the constraints, a tree of floating arrays; their dtype is that of the chains.
        draws: of each chain, behind the warm-up.
        warmup: steps that are not kept.
        chains: how many.
        target: the mean acceptance of steps that the warm-up aims at; nearer to 1 where there are divergences.
        mass: ``diagonal`` estimates variances, ``dense`` the whole covariance.
        spread: how far from the start a chain may begin, in each unconstrained parameter.
        show_progress: whether a bar shows the steps (extra ``progress``).

    Raises:
        ArgumentError: a number below its least, or a start without numbers or where the density is not finite.

    >>> import afx
    >>> from afx import sample
    >>> normal = sample.nuts(lambda x: -0.5 * afx.sum(x**2))
    >>> sample.draw(normal, afx.random.key(0), np.zeros(2), draws=5, warmup=5).params.shape
    (4, 5, 2)
    """
    draws, warmup = whole_number("draws", draws, "draw", 0), whole_number("warmup", warmup, "draw", 0)
    chains = whole_number("chains", chains, "draw")
    check_key(key, "draw")
    if mass not in ("diagonal", "dense"):
        raise ArgumentError(f"draw: no such mass matrix: got {mass!r}; use 'diagonal' or 'dense'")
    if not 0 < target < 1:
        raise ArgumentError(f"draw: target is a probability: got {target}; give one between 0 and 1")
    if not any(asarray(x).size for x in pytree.leaves(start)):
        raise ArgumentError(f"draw: there is no parameter: got start={start!r}; give a tree of floating arrays")
    begun = begin_chains(sampler, asarray(key), start, chains, spread, warmup, mass == "dense", target)
    return _run(sampler, begun, warmup, draws, show_progress)


def check_draws(draws: object, who: str) -> None:
    """Raise where what should be draws is something else, such as their parameters alone."""
    if not isinstance(draws, Draws):
        raise ArgumentError(f"{who}: takes what draw returns: got {describe(draws)}; pass the whole of it")


def extend(sampler: Sampler[T], draws: Draws[T], count: int, *, show_progress: bool = False) -> Draws[T]:
    """Return draws with more behind them: the same bits as if all had been drawn at once.

    Args:
        sampler: the one that they were drawn with.
        draws: from `draw`, or `afx.io.load`.
        count: of further draws of each chain.
        show_progress: whether a bar shows the steps (extra ``progress``).

    >>> import afx
    >>> from afx import sample
    >>> normal = sample.nuts(lambda x: -0.5 * afx.sum(x**2))
    >>> first = sample.draw(normal, afx.random.key(0), np.zeros(2), draws=2, warmup=5, chains=1)
    >>> whole = sample.draw(normal, afx.random.key(0), np.zeros(2), draws=4, warmup=5, chains=1)
    >>> afx.pytree.equal(sample.extend(normal, first, 2), whole)
    True
    """
    check_draws(draws, "extend")
    count = whole_number("count", count, "extend", 0)
    more = _run(sampler, draws.chains, 0, count, show_progress)
    shift = np.array([draws.log_density.shape[1], 0])

    def join(old: Any, new: Any, axis: int = 1) -> Any:
        return pytree.map(lambda x, y: asarray(np.concatenate([x, y], axis=axis)), old, new)

    return attrs.evolve(
        more,
        **{name: join(getattr(draws, name), getattr(more, name)) for name in PER_DRAW},
        divergences=join(draws.divergences, more.divergences + shift, 0),
        places=join(draws.places, more.places, 0),
    )


def _run(sampler: Sampler[T], chains: Chains[T], skipped: int, kept: int, show_progress: bool) -> Draws[T]:
    """Return the draws behind some that are skipped."""
    rows = list[Any]()
    done = 0
    with _show(skipped + kept, show_progress) as update:
        for last, block, size in _blocks(sampler, chains, skipped + kept):
            chains, behind = last, max(skipped - done, 0)
            rows.append(pytree.map(lambda x, s=size, b=behind: np.asarray(x)[b:s], block))
            done += size
            update(size)
    return _gather(sampler, chains, pytree.map(lambda *xs: np.concatenate(xs), *rows))


def _blocks(sampler: Sampler[T], chains: Chains[T], total: int) -> Iterator[tuple[Chains[T], Row[T], int]]:
    """Yield the chains after each block of steps, what these gave, and how many they were."""

    def advance(chains: Chains[T], steps: Array) -> tuple[Chains[T], Row[T]]:
        return advance_block(sampler, chains, steps)

    run = compile_for(sampler, advance, chains, asarray(0), name="draw") if are_plain(chains) else advance
    done = calls = 0
    size = 1
    while not calls or done < total:
        began = time.perf_counter()
        steps = min(size, total - done)
        chains, row = run(chains, asarray(steps))
        yield chains, row, steps
        done, calls = done + steps, calls + 1
        if calls >= SETTLING_CALLS and time.perf_counter() - began < SECONDS / 2:
            size = min(2 * size, BLOCK)


@contextlib.contextmanager
def _show(total: int, show_progress: bool) -> Generator[Callable[[int], Any]]:
    """Give the function that counts steps, on a bar if there is to be one."""
    if not show_progress:
        yield int
        return
    try:
        tqdm: Any = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        raise MissingExtraError('draw: a bar needs tqdm: got none; pip install "afx[progress]"') from error
    with tqdm(total=total, desc="draw") as bar:
        yield bar.update


def _gather(sampler: Sampler[T], chains: Chains[T], rows: Row[T]) -> Draws[T]:
    """Return rows of steps as draws of chains."""
    info = rows.info
    unravel = flatten_to_vector(pytree.map(lambda x: x[0], chains.state.position), "draw")[1]
    broken = np.argwhere(info.diverged)

    def constrain(x: Array) -> T:
        return sampler.params(unravel(x))

    shape = np.shape(rows.log_density)

    def merge(x: Any) -> Any:
        return np.reshape(x, (shape[0] * shape[1], *np.shape(x)[2:]))

    with np.errstate(all="ignore"):
        params = vmap(sampler.params)(pytree.map(merge, rows.position))
        places = vmap(constrain)(asarray(np.asarray(info.last)[tuple(broken.T)]))
    by_chain = pytree.map(lambda x: asarray(np.swapaxes(np.reshape(x, (*shape, *np.shape(x)[1:])), 0, 1)), params)
    per_draw = {name: asarray(np.swapaxes(getattr(info, name), 0, 1)) for name in PER_DRAW[2:]}
    values = asarray(np.swapaxes(rows.log_density, 0, 1))
    return Draws(by_chain, values, **per_draw, divergences=asarray(broken), places=places, chains=chains)
