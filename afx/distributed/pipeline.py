"""Pipeline: training of a model in stages, each on its own slot, with microbatches one forward and one backward in turn.

Each stage begins with some forward passes, then alternates (1F1B: Narayanan et al. 2019, doi:10.1145/3341301.3359646), so
that stage k of S keeps what at most S - k microbatches need for their way back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from afx import pytree
from afx.core import Function, aval_of
from afx.distributed.link import Link
from afx.distributed.messages import decode_tree, encode_tree
from afx.distributed.parts import part_of
from afx.errors import ShapeError
from afx.runtime.blas import blas
from afx.transforms.compile.jit import jit
from afx.transforms.derivatives.grad import vjp

FORWARD_TAG: Final = 1 << 18  # and above: by receiving slot, in the order of microbatches
BACKWARD_TAG: Final = FORWARD_TAG + (1 << 17)


def order_passes(stage: int, stages: int, count: int) -> Iterator[tuple[bool, int]]:
    """Yield what a stage does: whether a pass goes forward, and its microbatch.

    >>> "".join(f"{'F' if forward else 'B'}{k} " for forward, k in order_passes(0, 2, 3))
    'F0 F1 B0 F2 B1 B2 '
    """
    lead = min(stages - 1 - stage, count)
    yield from ((True, k) for k in range(lead))
    for k in range(count - lead):
        yield True, lead + k
        yield False, k
    yield from ((False, k) for k in range(count - lead, count))


class Stage:
    """One stage of a model: its function and, for the last one, the loss of its output.

    Args:
        fn: ``(params, x) -> x``.
        loss: ``(x, y) -> scalar``, a mean over examples; None but for the last stage.
        is_first: whether its input is data, which has no derivative.
    """

    def __init__(self, fn: Function, loss: Function | None, is_first: bool) -> None:
        self._is_first = is_first

        def whole(params: Any, x: Any, y: Any) -> Any:
            return fn(params, x) if loss is None else loss(fn(params, x), y)

        self._fn = jit(whole)

    def forward(self, params: Any, x: Any, y: Any) -> tuple[Any, Callable[[Any], tuple[Any, Any]]]:
        """Return the output, and the function from its cotangent to those of parameters and input."""
        with blas:
            if self._is_first:
                out, pull = vjp(lambda p: self._fn(p, x, y), params)
                return out, lambda ct: (*pull(ct), None)
            out, both = vjp(lambda p, x: self._fn(p, x, y), params, x)
            return out, both


def _cut(tree: Any, count: int, who: str) -> list[Any]:
    """Return microbatches of equal numbers of rows."""
    leaves, treedef = pytree.flatten(tree)
    rows = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in leaves}
    if len(rows) != 1 or not (size := rows.pop()) or size % count:
        raise ShapeError(
            f"pipeline: rows of {who} that {count} microbatches do not divide: got {[np.shape(leaf) for leaf in leaves]}; "
            "give a batch of a multiple of their number"
        )
    step = size // count
    return [
        pytree.unflatten(treedef, [np.asarray(leaf)[k * step : (k + 1) * step] for leaf in leaves])
        for k in range(count)
    ]


class PipelineRun:
    """One step: the passes of this rank's stages, each as soon as what it needs has come.

    Attributes:
        slopes: the mean gradients, by slot.
        value: the mean loss, on the rank of the last stage.
    """

    def __init__(
        self, port: Link, stages: Mapping[int, Stage], count: int, slots: int, params: Any, x: Any, y: Any
    ) -> None:
        self._port = port
        self._stages = stages
        self._count = count
        self._last = slots - 1
        self._params = {slot: part_of(params, slot) for slot in stages}
        self._x = _cut(part_of(x, 0), count, "x") if 0 in stages else []
        self._y = _cut(part_of(y, self._last), count, "y") if self._last in stages else []
        self._passes = {slot: deque(order_passes(slot, slots, count)) for slot in stages}
        self._arrived: dict[int, deque[Any]] = {}  # by tag, from stages of this rank
        self._pulls: dict[tuple[int, int], Callable[[Any], tuple[Any, Any]]] = {}
        self.slopes: dict[int, Any] = {}
        self.value: Any = None

    def run(self) -> None:
        """Do all passes."""
        while any(self._passes.values()):
            self._port.wait_for(self._advance)
        self._port.end_posts()

    def _advance(self) -> bool:
        """Do every pass whose input is here; tell whether there was one."""
        has_moved = False
        for slot, passes in self._passes.items():
            while passes and self._try(slot, *passes[0]):
                passes.popleft()
                has_moved = True
        return has_moved

    def _try(self, slot: int, is_forward: bool, number: int) -> bool:
        if is_forward:
            x = self._x[number] if slot == 0 else self._receive(FORWARD_TAG + slot, slot - 1)
            if x is not None:
                self._go_forward(slot, number, x)
            return x is not None
        ct = 1.0 / self._count if slot == self._last else self._receive(BACKWARD_TAG + slot, slot + 1)
        if ct is not None:
            self._go_back(slot, number, ct)
        return ct is not None

    def _go_forward(self, slot: int, number: int, x: Any) -> None:
        y = self._y[number] if slot == self._last else None
        out, self._pulls[slot, number] = self._stages[slot].forward(self._params[slot], x, y)
        if slot == 0:
            self._x[number] = None  # freed with the way back
        if slot == self._last:
            share = out / self._count
            self.value = share if self.value is None else self.value + share
        else:
            self._send(FORWARD_TAG + slot + 1, slot + 1, out)

    def _go_back(self, slot: int, number: int, ct: Any) -> None:
        pull = self._pulls.pop((slot, number))
        with blas:
            slopes, back = pull(np.asarray(ct, aval_of(self.value).dtype) if slot == self._last else ct)
        before = self.slopes.get(slot)
        self.slopes[slot] = slopes if before is None else pytree.map(_add, before, slopes)
        if slot > 0:
            self._send(BACKWARD_TAG + slot - 1, slot - 1, back)

    def _send(self, tag: int, slot: int, tree: Any) -> None:
        owner = self._port.owner(slot)
        if owner == self._port.rank:
            self._arrived.setdefault(tag, deque()).append(tree)
        else:
            self._port.post(encode_tree(tree), owner, tag)

    def _receive(self, tag: int, slot: int) -> Any:
        owner = self._port.owner(slot)
        if owner == self._port.rank:
            waiting = self._arrived.get(tag)
            return waiting.popleft() if waiting else None
        data = self._port.poll(owner, tag)
        return None if data is None else decode_tree(data)


def _add(x: Any, y: Any) -> Any:
    return x + y if np.asarray(x).dtype.kind in "fc" else x


def make_stages(fns: Sequence[Function], loss: Function, own: Sequence[int]) -> dict[int, Stage]:
    """Return the stages of some slots."""
    last = len(fns) - 1
    return {slot: Stage(fns[slot], loss if slot == last else None, slot == 0) for slot in own}
