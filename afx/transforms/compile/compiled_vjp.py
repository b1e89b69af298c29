"""Compiled pullbacks: the forward and the backward program of a jitted function, with residuals between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, Tracer, to_array, wrap
from afx.transforms._arguments import result_tree
from afx.transforms.compile.compiled_call import Back, CompiledGraph, call
from afx.transforms.compile.quick_call import (
    MAX_TOKENS,
    NO_NAMES,
    QUICK_CALLS,
    CacheEntry,
    Match,
    make_builder,
    make_match,
)
from afx.transforms.derivatives.cotangent_masks import ALIVE, DEAD
from afx.transforms.derivatives.grad import matching_leaves

MIN_KEPT_BYTES = 4096  # of an argument that the way back reads, from which on it is not copied


class CompiledVjp:
    """What `afx.vjp` runs of a jitted function, for arguments of one kind.

    Attributes:
        has_aux: whether the function's result is a pair, whose second part has no cotangents.
    """

    __slots__ = (
        "__weakref__",
        "_back",
        "_build",
        "_calls",
        "_chosen",
        "_count",
        "_forward",
        "_kept",
        "_match",
        "_order",
        "_treedef",
        "_values",
        "_zeros",
        "has_aux",
    )

    def __init__(self, entry: CacheEntry, treedef: Any, moving: list[bool] | None, *, has_aux: bool) -> None:
        graph = entry.program.graph
        count = len(graph.outputs)
        pair = entry.program.vjp_graphs(tuple(moving or [True] * len(graph.inputs)))
        self.has_aux: bool = has_aux
        self._count = count
        living = len(pytree.leaves(entry.results([None] * count)[0])) if has_aux else count
        self._back: Back = pair.partial([ALIVE] * living + [DEAD] * (count - living))
        self._chosen = pair.owned[:living]
        self._treedef = treedef
        self._zeros = [np.broadcast_to(np.zeros((), v.aval.dtype), v.aval.shape) for v in graph.inputs]
        self._calls = 0
        self._match: Match | None = None
        self._build: Callable[[list[Any]], Any] | None = None
        # of what the way back reads, large arguments and constants are there without the program's copying them
        whole = pair.forward.graph
        constants = [(v, constant.value) for v, constant in whole.constants]
        self._values = [value for _, value in constants]
        # of arguments, constants and what the program makes: the variables that the way back may take from there
        there = [id(v) if v.aval.nbytes >= MIN_KEPT_BYTES else 0 for v in (*whole.inputs, *[v for v, _ in constants])]
        read = whole.outputs[count:]
        made = [v for v in read if id(v) not in there]
        self._forward: CompiledGraph = pair.forward
        self._order: list[int] | None = None
        self._kept = list[int]()
        if len(made) < len(read):
            self._forward = pair.forward.with_graph(attrs.evolve(whole, outputs=(*whole.outputs[:count], *made)))
            there += map(id, made)
            self._order = [there.index(id(v)) for v in read]
            self._kept = [k for k in self._order if k < len(whole.inputs)]

    def run(self, entry: CacheEntry, leaves: Sequence[Any], values: list[Any]) -> tuple[Any, ...]:  # hot: calls cost
        """Return the result at leaves with these bare values, its pullback, and what stands beside the result, if anything.

        ``entry`` is the function's trace, which holds this, so that this cannot hold it.
        """
        order, count = self._order, self._count
        if order is None:
            residuals = self._forward.plan(*values)
            results = residuals[:count]
            del residuals[:count]
        else:
            for k in self._kept:
                if leaves[k].__class__ is not Array:  # others may write there
                    values[k] = values[k].copy()
            results = self._forward.plan(*values)
            values += [*self._values, *results[count:]]
            residuals = [values[k] for k in order]
        result = wrap(results[0]) if entry.single else entry.results(results[:count])
        beside: Sequence[Any] = ()
        if self.has_aux:
            result, *beside = result

        def pullback(ct: Any) -> Any:
            match = self._match
            if match is not None:
                matched = match((ct,))
                if matched is not None:
                    build = self._build
                    if build is not None:
                        return build(self._back.program.plan(*residuals, *matched[1]))
                    return self._run_back(residuals, matched[1])
            return self._pull(residuals, result, ct)

        return (result, pullback, *beside) if beside else (result, pullback)

    def _pull(self, residuals: Sequence[Any], result: Any, ct: Any) -> Any:
        """Return the cotangents of the arguments for a cotangent of any kind."""
        outputs, out_tree = pytree.flatten(result)
        cts = matching_leaves(ct, outputs, out_tree)
        if any(isinstance(x, Tracer) for x in cts):
            found = call(self._back.program, *map(to_array, (*residuals, *compress(cts, self._chosen))))
            return result_tree(self._treedef, self._back.sort(found)[0], self._zeros)
        self._calls += 1
        if self._calls == QUICK_CALLS:  # the Python that takes such cotangents apart, and puts the others together
            leaves, treedef = pytree.flatten(((result,), NO_NAMES))
            self._match = make_match(treedef, leaves, [x._value for x in leaves])
            if all(self._chosen) and all(self._back.needed) and len(self._treedef.tokens) <= MAX_TOKENS:
                self._build = make_builder(self._treedef)
        return self._run_back(residuals, cts)

    def _run_back(self, residuals: Sequence[Any], cts: Sequence[Any]) -> Any:
        """Return the cotangents of the arguments for bare cotangents of the result."""
        found = self._back.program.plan(*residuals, *compress(cts, self._chosen))
        return result_tree(self._treedef, self._back.sort(found)[0], self._zeros)
