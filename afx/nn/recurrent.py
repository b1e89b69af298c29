"""Recurrent layers: cells that carry a state from step to step, and whole sequences in one or both directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from afx.control.scan import scan
from afx.core import Array, ArrayLike, integer
from afx.errors import ArgumentError, ShapeError
from afx.nn.initializers import Initializer, Seed, key_of, uniform
from afx.nn.layers import layer
from afx.ops import asarray, concat, matmul, moveaxis, sigmoid, split, tanh, zeros
from afx.random import split as split_key

__all__ = ["GRU", "LSTM", "RNN", "Bidirectional", "GRUCell", "LSTMCell", "LSTMState", "RNNCell"]

# --- Recurrent layers: cells that carry a state from step to step, and whole sequences of steps


class LSTMState(NamedTuple):
    """What an LSTM carries: float[..., hidden] each."""

    hidden: Array
    cell: Array


def _weights(
    who: str, seed: Seed, inputs: int, hidden: int, gates: int, init: Initializer | None
) -> tuple[Array, Array]:
    """Return weights of inputs and of the state; without an initialiser uniform within 1/√hidden, as torch's."""
    if min(integer(inputs, who, "inputs"), integer(hidden, who, "hidden")) < 1:
        raise ArgumentError(f"{who}: inputs and hidden are 1 or more: got {inputs} and {hidden}; give sizes")
    first, second = split_key(key_of(seed))
    shapes = (inputs, gates * hidden), (hidden, gates * hidden)
    if init is not None:
        return init(first, shapes[0]), init(second, shapes[1])
    bound = 1 / math.sqrt(hidden)
    return uniform(first, shapes[0], bound), uniform(second, shapes[1], bound)


def _project(who: str, x: ArrayLike, weight: Array, bias: Array | None) -> Array:
    y = asarray(x)
    if y.shape[-1:] != weight.shape[:1]:
        raise ShapeError(
            f"{who}: the last axis has as many features as the weights have inputs: got {y.aval} and {weight.aval}; "
            "make the layer for that number"
        )
    z = matmul(y, weight)
    return z if bias is None else z + bias


@layer
@attrs.frozen
class RNNCell:
    """One step ``h = activation(x @ weight + h @ recurrent + bias)`` (Elman 1990).

    Attributes:
        weight: float[inputs, hidden].
        recurrent: float[hidden, hidden].
        bias: float[hidden], or None.
        activation: of the sum.

    >>> RNNCell.create(0, 3, 4)(afx.zeros((5, 4)), afx.ones((5, 3))).shape
    (5, 4)
    """

    weight: Array
    recurrent: Array
    bias: Array | None
    activation: Callable[[Array], Array] = tanh

    @classmethod
    def create(
        cls,
        seed: Seed,
        inputs: int,
        hidden: int,
        *,
        bias: bool = True,
        activation: Callable[[Array], Array] = tanh,
        init: Initializer | None = None,
    ) -> RNNCell:
        """Return a cell with drawn weights, uniform within 1/√hidden by default."""
        weights = _weights("RNNCell", seed, inputs, hidden, 1, init)
        return cls(*weights, zeros(hidden) if bias else None, activation)

    def initial(self, x: Array) -> Array:
        """Return the state of zeros for inputs float[..., inputs]."""
        return zeros((*x.shape[:-1], self.recurrent.shape[0]), x.dtype)

    def project(self, x: ArrayLike) -> Array:
        """Return what of a step needs no state, for any number of steps at once."""
        return _project("RNNCell", x, self.weight, self.bias)

    def advance(self, state: Array, projected: Array) -> Array:
        """Return the next state from what `project` returned."""
        return self.activation(projected + matmul(state, self.recurrent))

    def __call__(self, state: Array, x: ArrayLike) -> Array:
        """Return the next state, float[..., hidden], which is the output too."""
        return self.advance(state, self.project(x))


@layer
@attrs.frozen
class GRUCell:
    """One step of a gated recurrent unit (Cho et al. 2014), with the reset gate behind the product, as torch's.

    With ``r, z = sigmoid(…)`` from inputs and state, and the candidate ``n = tanh(x @ weight + r · (h @ recurrent +
    candidate_bias))``, the next state is ``(1 - z)·n + z·h``.

    Attributes:
        weight: float[inputs, 3·hidden], for r, z and n side by side.
        recurrent: float[hidden, 3·hidden], likewise.
        bias: float[3·hidden], or None.
        candidate_bias: float[hidden], inside of the reset gate, or None.

    >>> GRUCell.create(0, 3, 4)(afx.zeros((5, 4)), afx.ones((5, 3))).shape
    (5, 4)
    """

    weight: Array
    recurrent: Array
    bias: Array | None
    candidate_bias: Array | None

    @classmethod
    def create(
        cls, seed: Seed, inputs: int, hidden: int, *, bias: bool = True, init: Initializer | None = None
    ) -> GRUCell:
        """Return a cell with drawn weights, uniform within 1/√hidden by default."""
        weights = _weights("GRUCell", seed, inputs, hidden, 3, init)
        return cls(*weights, *((zeros(3 * hidden), zeros(hidden)) if bias else (None, None)))

    def initial(self, x: Array) -> Array:
        """Return the state of zeros for inputs float[..., inputs]."""
        return zeros((*x.shape[:-1], self.recurrent.shape[0]), x.dtype)

    def project(self, x: ArrayLike) -> Array:
        """Return what of a step needs no state, for any number of steps at once."""
        return _project("GRUCell", x, self.weight, self.bias)

    def advance(self, state: Array, projected: Array) -> Array:
        """Return the next state from what `project` returned."""
        size = self.recurrent.shape[0]
        inner = matmul(state, self.recurrent)
        gates = sigmoid(projected[..., : 2 * size] + inner[..., : 2 * size])
        reset, update = gates[..., :size], gates[..., size:]
        candidate = inner[..., 2 * size :]
        if self.candidate_bias is not None:
            candidate = candidate + self.candidate_bias
        new = tanh(projected[..., 2 * size :] + reset * candidate)
        return new + update * (state - new)

    def __call__(self, state: Array, x: ArrayLike) -> Array:
        """Return the next state, float[..., hidden], which is the output too."""
        return self.advance(state, self.project(x))


@layer
@attrs.frozen
class LSTMCell:
    """One step of long short-term memory (Hochreiter & Schmidhuber 1997; forget gate of Gers et al. 2000).

    With gates ``i, f, o = sigmoid(…)`` and ``g = tanh(…)`` of ``x @ weight + h @ recurrent + bias``, the cell becomes
    ``f·c + i·g`` and the state ``o · tanh(cell)``.

    Attributes:
        weight: float[inputs, 4·hidden], for i, f, g and o side by side.
        recurrent: float[hidden, 4·hidden], likewise.
        bias: float[4·hidden], or None; that of f starts at 1 (Jozefowicz et al. 2015).

    >>> cell = LSTMCell.create(0, 3, 4)
    >>> cell(cell.initial(afx.ones((5, 3))), afx.ones((5, 3))).hidden.shape
    (5, 4)
    """

    weight: Array
    recurrent: Array
    bias: Array | None

    @classmethod
    def create(
        cls, seed: Seed, inputs: int, hidden: int, *, bias: bool = True, init: Initializer | None = None
    ) -> LSTMCell:
        """Return a cell with drawn weights, uniform within 1/√hidden by default."""
        weights = _weights("LSTMCell", seed, inputs, hidden, 4, init)
        return cls(*weights, zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0) if bias else None)

    def initial(self, x: Array) -> LSTMState:
        """Return the state of zeros for inputs float[..., inputs]."""
        start = zeros((*x.shape[:-1], self.recurrent.shape[0]), x.dtype)
        return LSTMState(start, start)

    def project(self, x: ArrayLike) -> Array:
        """Return what of a step needs no state, for any number of steps at once."""
        return _project("LSTMCell", x, self.weight, self.bias)

    def advance(self, state: LSTMState, projected: Array) -> LSTMState:
        """Return the next state from what `project` returned."""
        i, f, g, o = split(projected + matmul(state.hidden, self.recurrent), 4, axis=-1)
        cell = sigmoid(f) * state.cell + sigmoid(i) * tanh(g)
        return LSTMState(sigmoid(o) * tanh(cell), cell)

    def __call__(self, state: LSTMState, x: ArrayLike) -> LSTMState:
        """Return the next state, whose ``hidden`` is the output."""
        return self.advance(state, self.project(x))


def _walk(cell: Any, x: ArrayLike, state: Any, reverse: bool) -> tuple[Array, Any]:
    """Return the outputs of all steps, and the last state; products with the inputs are one product for all steps."""
    y = asarray(x)
    who = type(cell).__name__.removesuffix("Cell")
    if y.ndim < 2:
        raise ShapeError(f"{who}: x is [..., time, inputs]: got {y.aval}; use the cell for one step")
    projected = cell.project(y)
    start = cell.initial(zeros((*y.shape[:-2], 0), projected.dtype)) if state is None else state
    if not y.shape[-2]:
        return zeros((*y.shape[:-1], cell.recurrent.shape[0]), projected.dtype), start

    def step(carry: Any, part: Any) -> tuple[Any, Any]:
        carry = cell.advance(carry, part)
        output: Array = carry.hidden if isinstance(carry, LSTMState) else carry
        return carry, output

    last, outputs = scan(step, start, moveaxis(projected, -2, 0), reverse=reverse)
    return moveaxis(outputs, 0, -2), last


@layer
@attrs.frozen
class RNN:
    """A simple recurrent net over whole sequences.

    Attributes:
        cell: one step.
        reverse: walks from the last step to the first; outputs keep their order.

    >>> outputs, state = RNN.create(0, 3, 4)(afx.ones((5, 7, 3)))
    >>> outputs.shape, state.shape
    ((5, 7, 4), (5, 4))
    """

    cell: RNNCell
    reverse: bool = False

    @classmethod
    def create(
        cls,
        seed: Seed,
        inputs: int,
        hidden: int,
        *,
        bias: bool = True,
        activation: Callable[[Array], Array] = tanh,
        reverse: bool = False,
        init: Initializer | None = None,
    ) -> RNN:
        """Return a layer whose cell is `RNNCell.create`'s."""
        return cls(RNNCell.create(seed, inputs, hidden, bias=bias, activation=activation, init=init), reverse)

    def __call__(self, x: ArrayLike, state: Array | None = None) -> tuple[Array, Array]:
        """Return float[..., time, hidden] for float[..., time, inputs], and the last state; it starts from zeros."""
        return _walk(self.cell, x, state, self.reverse)


@layer
@attrs.frozen
class GRU:
    """A gated recurrent unit over whole sequences.

    Attributes:
        cell: one step.
        reverse: walks from the last step to the first; outputs keep their order.

    >>> outputs, state = GRU.create(0, 3, 4)(afx.ones((5, 7, 3)))
    >>> outputs.shape, state.shape
    ((5, 7, 4), (5, 4))
    """

    cell: GRUCell
    reverse: bool = False

    @classmethod
    def create(
        cls,
        seed: Seed,
        inputs: int,
        hidden: int,
        *,
        bias: bool = True,
        reverse: bool = False,
        init: Initializer | None = None,
    ) -> GRU:
        """Return a layer whose cell is `GRUCell.create`'s."""
        return cls(GRUCell.create(seed, inputs, hidden, bias=bias, init=init), reverse)

    def __call__(self, x: ArrayLike, state: Array | None = None) -> tuple[Array, Array]:
        """Return float[..., time, hidden] for float[..., time, inputs], and the last state; it starts from zeros."""
        return _walk(self.cell, x, state, self.reverse)


@layer
@attrs.frozen
class LSTM:
    """Long short-term memory over whole sequences.

    Attributes:
        cell: one step.
        reverse: walks from the last step to the first; outputs keep their order.

    >>> outputs, state = LSTM.create(0, 3, 4)(afx.ones((5, 7, 3)))
    >>> outputs.shape, state.cell.shape
    ((5, 7, 4), (5, 4))
    """

    cell: LSTMCell
    reverse: bool = False

    @classmethod
    def create(
        cls,
        seed: Seed,
        inputs: int,
        hidden: int,
        *,
        bias: bool = True,
        reverse: bool = False,
        init: Initializer | None = None,
    ) -> LSTM:
        """Return a layer whose cell is `LSTMCell.create`'s."""
        return cls(LSTMCell.create(seed, inputs, hidden, bias=bias, init=init), reverse)

    def __call__(self, x: ArrayLike, state: LSTMState | None = None) -> tuple[Array, LSTMState]:
        """Return float[..., time, hidden] for float[..., time, inputs], and the last state; it starts from zeros."""
        return _walk(self.cell, x, state, self.reverse)


# --- Bidirectional recurrence: two nets over the same sequence, one from each end

L = TypeVar("L", RNN, GRU, LSTM)


@layer
@attrs.frozen
class Bidirectional(Generic[L]):
    """Two recurrent nets whose outputs stand side by side: each step sees what is before and behind it.

    Source: Schuster & Paliwal 1997.

    Attributes:
        forward: walks from the first step to the last.
        backward: walks from the last step to the first.

    Raises:
        ArgumentError: the nets do not walk in these directions.

    >>> outputs, (first, last) = Bidirectional.create(0, LSTM, 3, 4)(afx.ones((5, 7, 3)))
    >>> outputs.shape, first.hidden.shape
    ((5, 7, 8), (5, 4))
    """

    forward: L
    backward: L

    def __attrs_post_init__(self) -> None:
        """Check the directions where the layer is made."""
        if self.forward.reverse or not self.backward.reverse:
            raise ArgumentError(
                f"Bidirectional: one net walks forward, the other backward: got reverse={self.forward.reverse} and "
                f"reverse={self.backward.reverse}; make the second with reverse=True"
            )

    @classmethod
    def create(cls, seed: Seed, kind: type[L], inputs: int, hidden: int, **options: Any) -> Bidirectional[L]:
        """Return two nets of one kind (`RNN`, `GRU`, `LSTM`); options are those of its ``create``."""
        first, second = split_key(key_of(seed))
        forward = kind.create(first, inputs, hidden, **options)
        return Bidirectional(forward, kind.create(second, inputs, hidden, reverse=True, **options))

    def __call__(self, x: ArrayLike, state: tuple[Any, Any] | None = None) -> tuple[Array, tuple[Any, Any]]:
        """Return float[..., time, 2·hidden] for float[..., time, inputs], and the last state of each net.

        Args:
            x: the sequences.
            state: where each net starts; zeros without it.
        """
        start = (None, None) if state is None else state
        forward_outputs, last = self.forward(x, start[0])
        backward_outputs, first = self.backward(x, start[1])
        return concat((forward_outputs, backward_outputs), axis=-1), (last, first)
