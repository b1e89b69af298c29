"""Machines: the slots of a distributed computation, over one process or over MPI."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from afx.core import Array, ArrayLike
from afx.distributed.graph.run import GraphRunner
from afx.distributed.graph.split import GraphSplit
from afx.distributed.link import Link, LocalLink
from afx.distributed.messages import decode_tree, describe_items, encode_tree, refuse_traced
from afx.distributed.parts import Split, part_of
from afx.distributed.pipeline import PipelineRun, Stage, make_stages
from afx.distributed.ranks import Ranks, SlotCalls
from afx.distributed.spmd import SlotValues, run_slots
from afx.distributed.sums.buffers import Packing, flatten_tree
from afx.errors import ArgumentError, MissingExtraError
from afx.runtime.blas import blas
from afx.transforms._arguments import check_callable, whole_number

# --- Progress: a bar over items, where tqdm is installed

T = TypeVar("T")


def track(items: Iterable[T], label: str) -> Iterable[T]:
    """Return the items, with a bar on standard error that counts them.

    Raises:
        MissingExtraError: tqdm is not installed.
    """
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        raise MissingExtraError(f'{label}: needs tqdm: got none; pip install "afx[progress]"') from error
    shown: Iterable[T] = tqdm(items, desc=label)
    return shown


# --- Machines

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
X = TypeVar("X")


@functools.lru_cache(maxsize=64)
def _name_average(split: Split) -> str:
    return f"average over {split.sizes}"


class Machines(Ranks):
    """Slots among which work is split: logical machines, several of which may share a process.

    Made by `local` (one process) and `afx.distributed.connect` (MPI). Results are functions of program and Split alone
    (on one type of processor and one build of NumPy): their bits do not depend on the number of ranks, the order in
    which messages arrive, threads, or ranks that were lost on the way.

    Attributes:
        slots: the number of slots.
        link: the connection among the ranks, for functions of `afx.distributed`.
        agreement: what the ranks have compared, likewise.
        is_closed: whether the connection has ended.
    """

    def __init__(self, link: Link, slots: int) -> None:
        super().__init__(link, slots)
        self._runners: dict[tuple[int, int], GraphRunner] = {}

    def __repr__(self) -> str:
        return f"Machines(slots={self.slots}, rank={self.rank}, ranks={self.ranks})"

    # -- gradients --
    @overload
    def value_and_grad(
        self,
        loss: Callable[Concatenate[T, P], Array],
        *,
        split: Split,
        shared: Sequence[int | str] = (),
        has_aux: Literal[False] = False,
        compiled: bool = True,
        holomorphic: bool = False,
    ) -> Callable[Concatenate[T, P], tuple[Array, T]]: ...
    @overload
    def value_and_grad(
        self,
        loss: Callable[Concatenate[T, P], tuple[Array, A]],
        *,
        split: Split,
        shared: Sequence[int | str] = (),
        has_aux: Literal[True],
        compiled: bool = True,
        holomorphic: bool = False,
    ) -> Callable[Concatenate[T, P], tuple[tuple[Array, A], T]]: ...
    @overload
    def value_and_grad(
        self,
        loss: Callable[P, Any],
        argnums: int | Sequence[int] | None = None,
        argnames: str | Sequence[str] = (),
        *,
        split: Split,
        shared: Sequence[int | str] = (),
        has_aux: bool = False,
        compiled: bool = True,
        holomorphic: bool = False,
    ) -> Callable[P, tuple[Any, Any]]: ...
    def value_and_grad(
        self,
        loss: Callable[..., Any],
        argnums: int | Sequence[int] | None = None,
        argnames: str | Sequence[str] = (),
        *,
        split: Split,
        shared: Sequence[int | str] = (),
        has_aux: bool = False,
        compiled: bool = True,
        holomorphic: bool = False,
    ) -> Callable[..., Any]:
        """Return a function that computes a loss and its gradient over the whole batch, each slot its part of it.

        The loss is a mean over its examples, and slot i has nᵢ of all n. Value and gradient are ``Σ (nᵢ/n) fᵢ`` and
        ``Σ (nᵢ/n) ∇fᵢ``, summed over a fixed binary tree of the slots: those of the unsplit batch but for
        rounding, and the same bits on any number of ranks. A loss that is a sum is found at the first call, by its
        values on parts of a few examples.

        Args:
            loss: as for `afx.value_and_grad`: a mean over the examples of its part.
            argnums: the arguments to differentiate, the first by default; they are the same on every rank.
            argnames: keyword arguments to differentiate.
            split: how many examples each slot gets.
            shared: positions and names of other arguments that all slots see whole. The rest is cut by the Split
                along the first axis, unless it was made by `by_slot` or `Machines.scatter`.
            has_aux: whether the loss returns ``(scalar, aux)``. Floating leaves of aux (metrics, running statistics)
                are averaged in the same proportion; integers (counters, keys) must be the same in every slot.
            compiled: whether each slot's part runs under `afx.jit`.
            holomorphic: as for `afx.value_and_grad`.

        Returns:
            A function of the same arguments that returns ``(value, gradient)`` or ``((value, aux), gradient)``, the
            same on every rank. A call commits on all ranks or on none.

        Raises:
            ArgumentError: a Split of another number of slots, a loss that is a sum, or ranks that hold other programs,
                settings or values (compared at the first two calls, and the values at every 64th).
            ShapeError: an array that the Split cannot cut.
            TracerError: a traced argument, as inside of `afx.jit`.
            PeerLost: a rank did not answer in time, or was lost and the connection does not go on without it.

        >>> import afx
        >>> from afx import distributed
        >>> machines = distributed.local(2)
        >>> step = machines.value_and_grad(lambda w, x: afx.mean((w * x) ** 2), split=distributed.Split((3, 1)))
        >>> value, grad = step(2.0, afx.asarray([1.0, 2.0, 3.0, 4.0]))
        >>> float(value), float(grad)
        (30.0, 30.0)
        """
        self.check_split(split, "value_and_grad")
        options = {"has_aux": has_aux, "holomorphic": holomorphic}
        calls: SlotCalls[Any] = SlotCalls(
            "value_and_grad", loss, split, argnums, argnames, shared=shared, is_compiled=compiled, options=options
        )

        @functools.wraps(loss)
        def run(*args: Any, **kwargs: Any) -> Any:
            with refuse_traced("value_and_grad of machines", (*args, *kwargs.values())):
                call = calls.bind(lambda: self.own_slots, args, kwargs)

                def attempt() -> Any:
                    return self.average_once(call.compute, split, self.agreement.check_step(call.program))

                return self.repeat_until_committed(calls.name, attempt)

        return run

    def average(self, compute: Callable[[int], T], split: Split) -> T:
        """Return the weighted mean of the trees that slots compute, added in the order of their tree, on every rank.

        Args:
            compute: the slot's number to a tree; floating leaves are weighted by the slot's share and summed, integers
                must be the same in every slot. Called for the slots of this rank, those of size 0 left out. What it
                returns is read before it is called again.
            split: the weights.

        >>> from afx import distributed
        >>> distributed.local(2).average(lambda slot: float(slot), distributed.Split((1, 3)))
        Array(0.75, dtype=float64)
        """
        self.check_split(split, "average")
        work = functools.partial(self.average_once, compute, split, is_compared=False)
        return self.repeat_until_committed(_name_average(split), work)

    def average_once(
        self, compute: Callable[[int], T], split: Split, number: int = 0, *, is_compared: bool = True
    ) -> T:
        """Return the weighted mean, within an attempt of `repeat_until_committed`.

        Args:
            compute: as for `average`, likewise ``split``.
            split: the weights.
            number: of the program, the same on every rank.
            is_compared: whether ranks have compared what slots return; else those that differ find out as they wait.
        """
        reduction = self.link.reduction(split.weights, number)
        layout: Packing | None = None
        for slot in reduction.slots:
            summand, leaves = flatten_tree(compute(slot))
            if layout is None and not is_compared and not reduction.has_idle:
                self.link.detail_call(summand.text)  # before anything is exchanged
            layout = summand.check_like(layout)
            reduction.add(slot, layout, leaves)
            del leaves  # before what others send takes memory
        tree: Any = None if layout is None else layout.unpack(reduction.finish())
        if reduction.has_idle:  # ranks without examples know neither structure nor values
            root = reduction.root
            data = self.link.broadcast(encode_tree(tree) if self.rank == root else None, root)
            tree = decode_tree(data) if layout is None else tree
        mean: T = tree
        return mean

    # -- other work --
    def map(self, fn: Callable[[X], R], xs: Iterable[X], *, show_progress: bool = False) -> list[R]:
        """Return what a function gives for each item, in their order, on every rank: independent fits, chains, folds.

        Item k is computed by slot ``k % slots``; results are the same bits as those of `local`.

        Args:
            fn: an item to a tree.
            xs: the items, the same on every rank.
            show_progress: whether rank 0 shows a bar of its own items (extra ``progress``).

        Raises:
            ArgumentError: ranks that have other items.

        >>> from afx import distributed
        >>> [float(y) for y in distributed.local(2).map(lambda x: x * x, [1.0, 2.0, 3.0])]
        [1.0, 4.0, 9.0]
        """
        check_callable(fn, "map")
        items = list(xs)
        return self.repeat_until_committed("map", lambda: self._map(fn, items, show_progress))

    def _map(self, fn: Callable[[X], R], items: Sequence[X], show_progress: bool) -> list[R]:
        if self.ranks > 1:
            self.agreement.check_same(describe_items(items), "items of map")
        own_items = [k for k in range(len(items)) if self.link.owner(k % self.slots) == self.rank]
        shown = track(own_items, "map") if show_progress and self.rank == 0 else own_items
        with blas:
            done = [(k, fn(items[k])) for k in shown]
        gathered = [decode_tree(data) for data in self.link.gather(encode_tree(done))]
        results = {int(k): tree for pairs in gathered for k, tree in pairs}
        return [results[k] for k in range(len(items))]

    def spmd(self, fn: Callable[..., R]) -> Callable[..., SlotValues[R]]:
        """Return a function that every slot runs, and in which slots exchange values (single program, multiple data).

        Inside, `psum`, `all_gather`, `psum_scatter` and `shift` of `afx.distributed` are ops like others: they are traced by
        `afx.jit` and loops, and have derivatives (of the sum of what all slots return). So domain decomposition and tensor
        parallelism can be written; bits depend on the number of slots alone.

        Args:
            fn: the program. Every slot runs the same collectives in the same order, on values of the same shapes.

        Returns:
            A function of the same arguments: those from `by_slot`, `scatter` or an earlier call differ from slot to slot, all
            others reach each slot whole. It returns the `SlotValues` of what the slots return.

        Raises:
            ArgumentError: slots that make other collectives. An error in a slot is one of its class on all ranks, as in one
                process (ArgumentError, where only its own rank knows the class), and a program that catches it goes on.

        >>> import afx
        >>> from afx import distributed
        >>> machines = distributed.local(2)
        >>> @machines.spmd
        ... def slope(x):
        ...     return afx.grad(lambda x: afx.sum(x * distributed.shift(x, wrap=True)))(x)
        >>> slope(distributed.by_slot(lambda slot: afx.ones(1) * (1 + slot))).gather()
        [Array([4.], dtype=float32), Array([2.], dtype=float32)]
        """
        name = f"spmd of {getattr(fn, '__qualname__', type(fn).__qualname__)}"

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> SlotValues[R]:
            def attempt() -> dict[int, R]:
                own = self.own_slots
                given = {slot: [part_of(arg, slot) for arg in args] for slot in own}
                named = {slot: {key: part_of(arg, slot) for key, arg in kwargs.items()} for slot in own}

                def compute(slot: int) -> R:
                    with blas:
                        return fn(*given.pop(slot), **named.pop(slot))

                with refuse_traced(name, [*given.values(), *[list(named[slot].values()) for slot in own]]):
                    return run_slots(self.link, self.slots, own, compute)

            with refuse_traced(name, (*args, *kwargs.values())):
                return SlotValues(self, self.repeat_until_committed(name, attempt, ends_together=True))

        return run

    def pipeline(
        self, stages: Sequence[Callable[[Any, Any], Any]], loss: Callable[[Any, Any], Array], *, micro_batches: int
    ) -> Callable[[Any, Any, Any], tuple[Array, SlotValues[Any]]]:
        """Return a training step of a model in stages, of which each slot holds one: for models that no rank has room for.

        Microbatches pass from stage to stage, one forward and one backward in turn. A rank holds its own stages'
        parameters and gradients, and what the microbatches on their way need.

        Args:
            stages: ``(params, x) -> x`` for each slot.
            loss: ``(x, y) -> scalar``, a mean over the examples, of the last stage's output.
            micro_batches: into how many equal parts the batch is cut; bits depend on it.

        Returns:
            A function ``(params, x, y)`` that returns the loss, on every rank, and the gradients where the parameters are.
            Parameters come by `by_slot` or are `SlotValues`; ``x`` is read on the first slot's rank and ``y`` on the last
            one's alone, so that `by_slot` spares the others.

        Raises:
            ArgumentError: another number of stages than slots.
            ShapeError: a batch that the microbatches do not divide.

        >>> import afx
        >>> from afx import distributed
        >>> machines = distributed.local(2)
        >>> stages = [lambda w, x: w * x, lambda w, x: w + x]
        >>> step = machines.pipeline(stages, lambda x, y: afx.mean((x - y) ** 2), micro_batches=2)
        >>> value, slopes = step(distributed.by_slot(lambda slot: afx.asarray(1.0)), afx.ones(4), afx.zeros(4))
        >>> float(value), [float(g) for g in slopes.gather()]
        (4.0, [4.0, 4.0])
        """
        if len(stages) != self.slots or micro_batches < 1:
            raise ArgumentError(
                f"pipeline: a stage a slot and at least one microbatch: got {len(stages)} stages for {self.slots} slots, "
                f"{micro_batches} microbatches; connect as many slots as there are stages"
            )
        made: dict[tuple[int, ...], dict[int, Stage]] = {}

        def step(params: Any, x: Any, y: Any) -> tuple[Array, SlotValues[Any]]:
            def attempt() -> tuple[Array, dict[int, Any]]:
                own = self.own_slots
                own_stages = made.setdefault(own, make_stages(stages, loss, own))
                run = PipelineRun(self.link, own_stages, micro_batches, self.slots, params, x, y)
                run.run()
                root = self.link.owner(self.slots - 1)
                data = self.link.broadcast(encode_tree(run.value) if self.rank == root else None, root)
                return decode_tree(data), run.slopes

            with refuse_traced("pipeline", (params, x, y)):
                value, slopes = self.repeat_until_committed(f"pipeline of {micro_batches} microbatches", attempt)
            return value, SlotValues(self, slopes)

        return step

    def run_graph(self, split: GraphSplit, *inputs: ArrayLike) -> list[Array]:
        """Return the outputs of a graph whose equations are dealt to slots, on every rank.

        Args:
            split: from `split_graph`, the same on every rank.
            inputs: those of the graph, the same on every rank, of its shapes and dtypes.

        Raises:
            ArgumentError: a split of more slots than there are, or inputs of another kind.

        >>> import afx
        >>> from afx import distributed
        >>> graph = afx.trace(lambda x: afx.sin(x) + afx.cos(x))(afx.ones(2))
        >>> split = distributed.split_graph(graph, [0, 1, 0])
        >>> distributed.local(2).run_graph(split, afx.zeros(2))
        [Array([1., 1.], dtype=float32)]
        """
        return self.run_pipeline(split, [inputs])[0]

    def run_pipeline(self, split: GraphSplit, batches: Iterable[Sequence[ArrayLike]]) -> list[list[Array]]:
        """Return the outputs of a split graph for each of several inputs, such as micro-batches, on every rank.

        A slot that is done with one input goes on to the next, while later slots work on the one before.

        Raises:
            ArgumentError: as for `run_graph`.
        """
        if split.slots > self.slots:
            raise ArgumentError(f"run_graph: a split of more slots: got {split.slots} for {self.slots}; add slots")
        given = [list(batch) for batch in batches]
        name = f"run_graph of {len(given)} inputs"
        with refuse_traced("run_graph", given):
            return self.repeat_until_committed(name, lambda: self._run_pipeline(split, given))

    def _run_pipeline(self, split: GraphSplit, batches: Sequence[Sequence[Any]]) -> list[list[Array]]:
        self.agreement.check_graph(split, batches)
        runner = self._runners.get((id(split), self.ranks))
        if runner is None:  # it keeps the split, so that no other one gets its id
            runner = self._runners[id(split), self.ranks] = GraphRunner(split, self.link)
        return runner.run(batches)


# --- Local: all slots in one process, which defines the bits


def local(slots: int) -> Machines:
    """Return slots in this one process: no MPI is needed, and it defines the bits that any number of ranks gives.

    Raises:
        ArgumentError: fewer than one slot.

    >>> from afx import distributed
    >>> distributed.local(3)
    Machines(slots=3, rank=0, ranks=1)
    """
    count = whole_number("slots", slots, "local")
    return Machines(LocalLink(count), count)


# --- Mapping: independent work spread over slots


def map_over(machines: Machines, fn: Callable[[X], R], xs: Iterable[X], *, show_progress: bool = False) -> list[R]:
    """Return what a function gives for each item, on every rank: `Machines.map` as a function.

    Args:
        machines: the slots.
        fn: an item to a tree.
        xs: the items, the same on every rank.
        show_progress: whether rank 0 shows a bar of its own items (extra ``progress``).

    >>> from afx import distributed
    >>> [float(y) for y in distributed.map_over(distributed.local(2), lambda x: x * x, [1.0, 2.0, 3.0])]
    [1.0, 4.0, 9.0]
    """
    return machines.map(fn, xs, show_progress=show_progress)
