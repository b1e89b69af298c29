"""The hunt for nan: it names the operation and the line, wherever the program runs, and no discarded branch."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import NanError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

BAD = np.array([1.0, -2.0])


def loss(x: Any) -> Any:
    """Return nan below 0, through a root."""
    y = x * 2.0
    z = afx.sqrt(y)  # the line
    return afx.sum(z)


LINE = r"^sqrt: .*test_debug_nans\.py:21"


def stepped(x: Any) -> Any:
    """Return nan from the second step of a loop."""
    return afx.scan(lambda c, e: (c + loss(e), None), 0.0, x[:, None])[0]


FORWARD: dict[str, Callable[[], Any]] = {
    "jit": lambda: afx.jit(loss)(BAD),
    "grad": lambda: afx.grad(loss)(BAD),
    "jit of grad": lambda: afx.jit(afx.grad(loss))(BAD),
    "grad of jit": lambda: afx.grad(afx.jit(loss))(BAD),
    "value_and_grad": lambda: afx.value_and_grad(loss)(BAD),
    "vjp": lambda: afx.vjp(loss, BAD),
    "jvp": lambda: afx.jvp(loss, (BAD,), (BAD,)),
    "jacfwd": lambda: afx.jacfwd(loss)(BAD),
    "jacrev": lambda: afx.jacrev(loss)(BAD),
    "scan": lambda: stepped(BAD),
    "compiled loop": lambda: afx.jit(stepped)(BAD),
    "gradient of a loop": lambda: afx.jit(afx.grad(lambda x: stepped(x)))(BAD),
    "while_loop": lambda: afx.while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + loss(s[1] - 1)), (0, afx.asarray(np.float64(0.0)))
    ),
    "fori_loop": lambda: afx.fori_loop(0, 2, lambda _, c: c + loss(c), afx.asarray(-1.0)),
    "checkpoint": lambda: afx.grad(afx.checkpoint(loss))(BAD),
    "cond": lambda: afx.jit(lambda x: afx.cond(x[0] > 0, loss, lambda x: x[0], x))(BAD),
    "cond, eager": lambda: afx.cond(True, loss, lambda x: x[0], BAD),
    "switch, eager": lambda: afx.switch(1, [lambda x: x[0], loss], BAD),
    "vmap": lambda: afx.vmap(loss)(BAD[:, None]),
    "rows of NumPy's array in a compiled loop": lambda: afx.jit(
        lambda x: afx.fori_loop(0, 2, lambda k, c: c + loss(x[k]), 0.0 * x[0])
    )(BAD),
}


@pytest.mark.parametrize("program", FORWARD)
def test_the_first_nan_of_a_result_is_named(program: str) -> None:
    """In compiled functions, derivatives and loops the message names the root and its line."""
    with afx.debug_nans(), pytest.raises(NanError, match=LINE):
        FORWARD[program]()


def test_a_nan_of_the_backward_pass_is_named() -> None:
    """Where the value is finite and the gradient is not, the note names the forward line, compiled or not."""
    fn = lambda x: afx.sum(afx.sqrt(x) * x * 0.0)
    for run in (afx.grad(fn), afx.jit(afx.grad(fn)), afx.grad(afx.jit(fn))):
        with afx.debug_nans(), pytest.raises(NanError, match="backward") as caught:
            run(np.zeros(1))
        assert any("test_debug_nans.py" in note for note in caught.value.__notes__)


def test_messages_name_the_users_function() -> None:
    """Of Jacobians and linear functions too, and none of afx's own."""
    for run in (afx.jacrev(rooted), lambda x: afx.linearize(rooted, x)[1](x), afx.hessian(rooted)):
        with afx.debug_nans(), pytest.raises(NanError, match=" of rooted: the backward pass of sqrt"):
            run(np.zeros(1))


def rooted(x: Any) -> Any:
    """Return a finite value with a gradient that is nan at 0."""
    return afx.sum(afx.sqrt(x) * x * 0.0)


def test_a_discarded_branch_is_no_fault() -> None:
    """What `where` does not take may be nan, forward and backward, in every mode."""
    fn = lambda x: afx.sum(afx.where(x > 0, afx.log(x), 0.0))
    for run in (fn, afx.jit(fn), afx.grad(fn), afx.jit(afx.grad(fn)), afx.jacfwd(fn), afx.hessian(fn)):
        with afx.debug_nans():
            want = run(BAD)
        np.testing.assert_allclose(np.asarray(run(BAD)), np.asarray(want))


def test_the_search_does_not_enter_a_discarded_branch() -> None:
    """Of two operations that give nan, the one that reaches the result is named."""

    def fn(x: Any) -> Any:
        guarded = afx.where(x > 0, afx.log(x), 0.0)
        return afx.sum(guarded + afx.sqrt(x))

    for run in (afx.jit(fn), afx.grad(fn), lambda x: afx.jvp(fn, (x,), (x,))):
        with afx.debug_nans(), pytest.raises(NanError, match=r"^sqrt: "):
            run(BAD)


def test_nan_that_came_in_is_no_fault() -> None:
    """A nan among the arguments is the caller's."""
    with afx.debug_nans():
        assert np.isnan(float(afx.jit(loss)(np.array([np.nan]))))


def test_sound_programs_run_on() -> None:
    """Where nothing is nan, results are as outside of the block."""
    x = np.array([1.0, 2.0])
    with afx.debug_nans():
        found = [afx.jit(loss)(x), afx.grad(loss)(x), stepped(x), afx.hessian(loss)(x)]
    want = [loss(x), afx.grad(loss)(x), stepped(x), afx.hessian(loss)(x)]
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)


PLAIN: dict[str, Callable[[], Any]] = {
    "one operation": lambda: loss(BAD),
    "what follows it": lambda: afx.exp(afx.tanh(loss(BAD))[None][0] + 1.0),
    "a loop over an array that it closes over": lambda: afx.fori_loop(0, 2, lambda i, c: c + loss(BAD), 0.0),
    "a loop from a number": lambda: afx.fori_loop(0, 3, lambda i, c: loss(c - 2.0), 1.0),
    "an open loop from numbers": lambda: afx.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, loss(c[1] - 1.0)), (0, 0.5)
    ),
}


@pytest.mark.parametrize("program", PLAIN)
def test_the_first_nan_of_plain_calls_is_named(program: str) -> None:
    """Outside of any transformation the block's end raises for the arrays that are in use."""
    with pytest.raises(NanError, match=LINE), afx.debug_nans():  # noqa: PT012  # the end of the block raises
        kept = PLAIN[program]()
        assert kept is not None
    assert sys.getprofile() is None


def test_plain_nans_that_do_not_count() -> None:
    """Those that `where` discards, that nobody holds, that came with the data, or were reported before."""
    with afx.debug_nans():
        chosen = afx.where(BAD > 0, afx.sqrt(BAD), 0.0)
        afx.log(BAD)
        data = afx.exp(afx.asarray([np.nan])) + afx.full(1, np.nan)
        with pytest.raises(NanError):
            afx.grad(loss)(BAD)
    assert np.asarray(chosen).tolist() == [1.0, 0.0]
    assert np.isnan(np.asarray(data)).all()


def test_blocks_nest_and_leave_profilers_alone() -> None:
    """The outermost block watches, and none where a profiler does."""
    with pytest.raises(NanError, match=LINE), afx.debug_nans():  # noqa: PT012  # the end of the block raises
        with afx.debug_nans():
            kept = loss(BAD)
        assert np.isnan(np.asarray(kept))
    events: list[str] = []
    sys.setprofile(lambda _frame, event, _arg: events.append(event))
    try:
        with afx.debug_nans():
            kept = loss(BAD)
    finally:
        sys.setprofile(None)
    assert events
