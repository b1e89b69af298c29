"""Recurrent layers: the formulas step by step, whole sequences, states that go on."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import nn


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with afx.default_dtype(afx.float64):
        yield


def sigmoid(x: Any) -> Any:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


def drawn(cell: Any, rng: np.random.Generator) -> tuple[Any, list[np.ndarray]]:
    """Return the cell with random numbers in every parameter, and these."""
    values = [rng.normal(size=p.shape) for p in afx.pytree.leaves(cell)]
    return afx.pytree.unflatten(afx.pytree.structure(cell), list(map(afx.asarray, values))), values


class TestCells:
    """One step, written out in NumPy."""

    def test_rnn(self, rng: np.random.Generator) -> None:
        """Tanh of both products and the bias."""
        cell, (w, u, b) = drawn(nn.RNNCell.create(0, 3, 4), rng)
        x, h = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
        np.testing.assert_allclose(np.asarray(cell(afx.asarray(h), x)), np.tanh(x @ w + h @ u + b), rtol=1e-12)
        relu = attrs.evolve(cell, activation=nn.relu)
        np.testing.assert_allclose(np.asarray(relu(afx.asarray(h), x)), np.maximum(x @ w + h @ u + b, 0), atol=1e-12)

    def test_gru(self, rng: np.random.Generator) -> None:
        """Reset, update and candidate, with the reset gate behind the product."""
        cell, (w, u, b, c) = drawn(nn.GRUCell.create(0, 3, 4), rng)
        x, h = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
        p, q = x @ w + b, h @ u
        r, z = sigmoid(p[:, :4] + q[:, :4]), sigmoid(p[:, 4:8] + q[:, 4:8])
        n = np.tanh(p[:, 8:] + r * (q[:, 8:] + c))
        np.testing.assert_allclose(np.asarray(cell(afx.asarray(h), x)), (1 - z) * n + z * h, rtol=1e-12)

    def test_lstm(self, rng: np.random.Generator) -> None:
        """Input, forget, candidate and output; the forget gate starts open."""
        cell, (w, u, b) = drawn(nn.LSTMCell.create(0, 3, 4), rng)
        x, h, c = (rng.normal(size=(2, n)) for n in (3, 4, 4))
        i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=1)
        want = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        state = cell(nn.LSTMState(afx.asarray(h), afx.asarray(c)), x)
        np.testing.assert_allclose(np.asarray(state.cell), want, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(state.hidden), sigmoid(o) * np.tanh(want), rtol=1e-12)
        assert nn.LSTMCell.create(0, 3, 2).bias.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]  # create made one


SEQUENCES = [nn.RNN, nn.GRU, nn.LSTM]


@pytest.mark.parametrize("kind", SEQUENCES)
class TestSequences:
    """Whole sequences are their cells step by step."""

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
    def test_step_by_step(self, kind: Any, reverse: bool, lead: tuple[int, ...], rng: np.random.Generator) -> None:
        """Outputs keep the order of the steps, also backwards, plain and compiled, and with leading axes."""
        model, x = kind.create(0, 3, 4, reverse=reverse), rng.normal(size=(*lead, 5, 3))
        state = model.cell.initial(afx.asarray(x[..., 0, :]))
        outputs: dict[int, Any] = {}
        for t in range(5)[:: -1 if reverse else 1]:
            state = model.cell(state, x[..., t, :])
            outputs[t] = state.hidden if kind is nn.LSTM else state
        want = np.stack([np.asarray(outputs[t]) for t in range(5)], axis=-2)
        for way in (model, afx.jit(lambda x: model(x))):
            found, last = way(x)
            np.testing.assert_allclose(np.asarray(found), want, atol=1e-14)
            assert afx.pytree.structure(last) == afx.pytree.structure(state)
            for a, b in zip(afx.pytree.leaves(last), afx.pytree.leaves(state), strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-14)

    def test_a_sequence_goes_on_from_its_state(self, kind: Any, rng: np.random.Generator) -> None:
        """Two halves, the second from the state of the first, are the whole."""
        model, x = kind.create(0, 3, 4), rng.normal(size=(2, 6, 3))
        whole, _ = model(x)
        first, state = model(x[:, :3])
        second, _ = model(x[:, 3:], state)
        np.testing.assert_allclose(np.concatenate([first, second], axis=1), np.asarray(whole), atol=1e-14)

    def test_no_steps(self, kind: Any) -> None:
        """No outputs, and the state as it came."""
        outputs, state = kind.create(0, 3, 4)(np.ones((2, 0, 3)))
        assert outputs.shape == (2, 0, 4)
        assert {leaf.shape for leaf in afx.pytree.leaves(state)} == {(2, 4)}

    def test_mistakes(self, kind: Any) -> None:
        """A wrong number of features, and one step in the place of a sequence."""
        model = kind.create(0, 3, 4)
        with pytest.raises(afx.errors.ShapeError, match=r"the last axis has as many features.*float64\[2,5,2\]"):
            model(np.ones((2, 5, 2)))
        with pytest.raises(afx.errors.ShapeError, match="use the cell for one step"):
            model(np.ones(3))

    def test_weights_start_within_the_bound(self, kind: Any) -> None:
        """Uniform within 1/√hidden, and an initialiser of one's own."""
        cell = kind.create(0, 3, 16).cell
        assert float(afx.max(abs(cell.recurrent))) == pytest.approx(0.25, rel=0.05)
        assert not np.asarray(kind.create(0, 3, 4, init=nn.initializers.zeros).cell.weight).any()


@pytest.mark.parametrize("kind", SEQUENCES)
class TestBidirectional:
    """Two nets over one sequence."""

    def test_outputs_stand_side_by_side(self, kind: Any, rng: np.random.Generator) -> None:
        """They are those of each net; the states go on from what is given."""
        model, x = nn.Bidirectional.create(0, kind, 3, 4, bias=False), rng.normal(size=(2, 5, 3))
        for state in (None, model(x)[1]):
            outputs, (last, first) = model(x, state)
            ahead, back = model.forward(x, state and state[0]), model.backward(x, state and state[1])
            np.testing.assert_array_equal(np.asarray(outputs), np.concatenate([ahead[0], back[0]], axis=-1))
            assert afx.pytree.equal((last, first), (ahead[1], back[1]))

    def test_reversing_time_swaps_the_nets(self, kind: Any, rng: np.random.Generator) -> None:
        """The net from behind sees the reversed sequence as the other one would."""
        model, x = nn.Bidirectional.create(0, kind, 3, 4), rng.normal(size=(5, 3))
        alone, _ = kind(model.backward.cell)(x[::-1])
        np.testing.assert_allclose(np.asarray(model(x)[0])[:, 4:], np.asarray(alone)[::-1], atol=1e-14)

    def test_directions_are_checked(self, kind: Any) -> None:
        """Two nets that walk the same way are refused."""
        net = kind.create(0, 3, 4)
        with pytest.raises(afx.errors.ArgumentError, match="got reverse=False and reverse=False"):
            nn.Bidirectional(net, net)
