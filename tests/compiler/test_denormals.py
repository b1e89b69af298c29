"""Denormal numbers: which compiled functions flush them, with which bits, and whose mode is whose."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import export, optim
from afx.compiler.native_backend.run.swap import is_installed
from afx.compiler.target import Target, current, use_target
from afx.core.scalar_ops import SCALAR_OPS
from afx.errors import ArgumentError, ExportError
from afx.runtime import control_register
from afx.runtime.control_register import can_flush, is_flushing, met_denormals, run_in_mode
from tests.compiler.native_backend.native_run import FIRST_TIER, run_python

pytestmark = pytest.mark.skipif(not can_flush(), reason="nothing is known of this system's control register")
TINY = float(np.finfo(np.float32).smallest_normal)
BACKENDS: list[Any] = ["numpy", *(["native"] if is_installed() else [])]
COUNT = 6000


def denormals(count: int = COUNT, dtype: Any = np.float32) -> Any:
    """Return denormal numbers of both signs, none of which half is 0."""
    numbers = np.random.default_rng(0).uniform(0.1, 0.9, count) * float(np.finfo(dtype).smallest_normal)
    return (numbers * np.where(np.arange(count) % 3, 1, -1)).astype(dtype)


def halve(x: Any) -> Any:
    """Return what is denormal again, or a zero."""
    return x * 0.5


def is_flushed(x: Any) -> bool:
    """Tell whether all numbers are zeros."""
    return not np.asarray(x).any()


@pytest.fixture(autouse=True)
def _leaves_the_register() -> Iterator[None]:
    """The register of the test's thread is the same before and afterwards."""
    assert not is_flushing()
    yield
    assert not is_flushing()


@pytest.mark.parametrize("backend", BACKENDS)
class TestRule:
    """What is flushed follows from the graph and the words given."""

    def test_float32_and_complex64_flush_from_the_first_call_on(self, backend: Any) -> None:
        """Operands and results are zeros of their sign, at every call; eager operations keep them."""
        x = denormals()
        for y in (x, x * np.complex64(1 + 1j)):
            fn = afx.jit(halve, backend=backend)
            for _ in range(3):
                assert is_flushed(fn(y))
            assert not is_flushed(halve(afx.asarray(y)))
        np.testing.assert_array_equal(np.signbit(afx.jit(halve, backend=backend)(x)), np.signbit(x))

    def test_float64_keeps(self, backend: Any) -> None:
        """A sixteenth of all elements is too many, in a loop's body too; single numbers beside arrays are not."""
        x, wide = denormals(), denormals(dtype=np.float64)
        assert not is_flushed(afx.jit(halve, backend=backend)(wide))
        assert not is_flushed(afx.jit(lambda x, y: (halve(x), y + 1), backend=backend)(x, wide)[0])
        assert is_flushed(afx.jit(lambda x, y: (halve(x), y + 1), backend=backend)(x, wide[0])[0])
        inside = afx.jit(
            lambda x: afx.fori_loop(0, 2, lambda k, c: (c.astype(np.float64) * 0.5).astype(np.float32), x),
            backend=backend,
        )
        assert not is_flushed(inside(x))

    def test_little_functions_keep(self, backend: Any) -> None:
        """Setting the register would cost more than what they compute; elements of all equations count, also in loops."""
        x = denormals(20)
        assert not is_flushed(afx.jit(halve, backend=backend)(x))
        assert is_flushed(afx.jit(lambda x: afx.fori_loop(0, 300, lambda k, c: c * 0.999, x), backend=backend)(x))

    def test_kernels_among_views_flush_by_themselves(self, backend: Any) -> None:
        """A result that is looked at transposed, and one of a kernel that threads share; errors of underflow keep them."""
        fn = afx.jit(lambda x: (halve(x).T, x.sum(0)), backend=backend)
        x = denormals(120_000).reshape(300, 400)
        for _ in range(3):
            z, total = fn(x)
            assert is_flushed(z)
            assert is_flushed(total)
            assert not is_flushing()
        with np.errstate(under="call"), np.errstate(call=lambda *_: None):
            assert not is_flushed(fn(x)[0])
        assert is_flushed(fn(x)[0])

    def test_words_decide_otherwise(self, backend: Any) -> None:
        """``jit(denormals=)`` and ``set_denormals`` hold for every dtype and size; each word has an entry of its own."""
        x, wide = denormals(3), denormals(dtype=np.float64)
        assert is_flushed(afx.jit(halve, backend=backend, denormals="flush")(x))
        assert is_flushed(afx.jit(halve, backend=backend, denormals="flush")(wide))
        assert not is_flushed(afx.jit(halve, backend=backend, denormals="keep")(denormals()))
        fn = afx.jit(halve, backend=backend)
        try:
            afx.set_denormals("flush")
            assert is_flushed(fn(wide))
            afx.set_denormals("keep")
            assert not is_flushed(fn(denormals()))
        finally:
            afx.set_denormals(None)
        assert is_flushed(fn(denormals()))
        assert not is_flushed(fn(wide))

    def test_derivatives_from_outside_follow_the_functions_word(self, backend: Any) -> None:
        """Forward, backward, pushed and mapped programs of a jitted function compute as it does."""
        x = denormals()
        for word, flushed in (("keep", False), ("flush", True)):
            fn: Any = afx.jit(lambda x: halve(x) * 0.5, backend=backend, denormals=word)
            value, pullback = afx.vjp(fn, x)
            found = [value, *afx.jvp(fn, (x,), (x,)), afx.vmap(fn)(x.reshape(3, -1)), pullback(afx.asarray(x))]
            assert [is_flushed(afx.pytree.leaves(z)[0]) for z in found] == [flushed] * len(found)

    def test_errstate_that_hears_of_underflow_keeps(self, backend: Any) -> None:
        """Whoever asks for underflow gets it, at any call; else nothing is said."""
        fn = afx.jit(halve, backend=backend)
        for _ in range(2):
            assert is_flushed(fn(denormals()))
            with np.errstate(under="print" if backend == "native" else "call", call=lambda *_: None):
                assert not is_flushed(fn(denormals()))
        with np.errstate(under="raise"):
            if backend == "numpy":
                with pytest.raises(FloatingPointError, match="underflow"):
                    fn(denormals())


def test_another_word_names_both() -> None:
    """What is no word for denormals is refused where it is given."""
    wrong: Any = "zero"
    for ask in (
        lambda: afx.jit(halve, denormals=wrong),
        lambda: afx.set_denormals(wrong),
        lambda: export.compile(halve, denormals(), name="halve", denormals=wrong),
    ):
        with pytest.raises(ArgumentError, match=r'"keep" or "flush": got \'zero\''):
            ask()


def test_the_word_is_pickled() -> None:
    """A copy of a jitted function computes as it does."""
    copy = pickle.loads(pickle.dumps(afx.jit(np.negative, denormals="flush")))
    assert copy.lower(denormals(3)).plan.flushes


# -- whose mode ------------------------------------------------------------------------------------------------------
class Boom(Exception):
    """What a callback raises."""


def _raise() -> None:
    raise Boom


def of_its_own(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a function as one whose caller has set the register by other means."""
    control_register._thread.mode = None
    return fn(*args)


@pytest.mark.parametrize("backend", BACKENDS)
class TestExits:
    """The register is the caller's again, however a call ends: `_leaves_the_register` looks."""

    def test_python_within_a_call_sees_the_callers_mode(self, backend: Any) -> None:
        """Callbacks compute as their caller does, compiled functions that they call flush, and the call goes on flushing."""
        seen = list[Any]()

        def look(x: Any) -> None:
            seen.append((is_flushing(), is_flushed(x * np.float32(0.5)), is_flushed(afx.jit(halve)(x))))

        def fn(x: Any) -> Any:
            afx.debug.callback(look, x)
            return halve(x)

        x = denormals()
        assert is_flushed(afx.jit(fn, backend=backend)(x))
        assert is_flushed(run_in_mode(True, of_its_own, afx.jit(fn, backend=backend), x))
        assert seen == [(False, False, True), (True, True, True)]

    def test_errors(self, backend: Any) -> None:
        """Errors of callbacks, of NumPy's error state and of LAPACK end a call that flushes."""

        def fn(x: Any) -> Any:
            afx.debug.callback(_raise)
            return halve(x)

        with pytest.raises(Boom):
            afx.jit(fn, backend=backend)(denormals())
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            afx.jit(lambda x: halve(x) / 0, backend=backend)(denormals() * 0 + 1)
        with pytest.raises(np.linalg.LinAlgError):
            afx.jit(lambda x: afx.linalg.inv(halve(x)), backend=backend)(afx.zeros((40, 40)))

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timer")
    def test_interrupts(self, backend: Any) -> None:
        """What a signal's handler raises ends a long call."""

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        fn = afx.jit(lambda x: afx.while_loop(lambda c: c[0] < np.inf, lambda c: c * 0.999, x), backend=backend)
        fn(afx.ones(COUNT) * np.inf)
        before = signal.signal(signal.SIGALRM, stop)
        try:
            for delay in (0.003, 0.01, 0.02):
                signal.setitimer(signal.ITIMER_REAL, delay)
                with pytest.raises(KeyboardInterrupt):
                    fn(afx.ones(COUNT))
                assert not is_flushing()
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_threads_that_die(self, backend: Any) -> None:
        """A thread that ends within a call leaves others as they are, and one started within it has the caller's mode."""
        seen = list[Any]()

        def start() -> None:
            thread = threading.Thread(target=lambda: seen.append(is_flushing()))
            thread.start()
            thread.join()
            raise SystemExit

        def fn(x: Any) -> Any:
            afx.debug.callback(start)
            return halve(x)

        def run() -> None:
            with pytest.raises(SystemExit):
                afx.jit(fn, backend=backend)(denormals())
            seen.append(is_flushing())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert seen == [False, False]

    def test_handlers_of_errors_are_the_callers(self, backend: Any) -> None:
        """What shows warnings, and functions and files of ``np.seterrcall``, have the caller's mode, errstate and threads."""
        seen = list[Any]()

        def look(*found: Any) -> None:
            thread = threading.Thread(target=lambda: seen.append(is_flushing()))
            thread.start()
            thread.join()
            seen.append((is_flushing(), np.geterr()["divide"], isinstance(np.geterrcall(), type(None)), *found))

        class File:
            write = staticmethod(look)

        fn: Any = afx.jit(lambda x: afx.sort(1.0 / x), backend=backend)
        x = np.linspace(0, 1, 2 * COUNT, dtype=np.float32)
        line = fn.__wrapped__.__code__.co_firstlineno

        def show(message: Any, category: Any, filename: str, lineno: int, *_: Any) -> None:
            look(str(message), category, filename == __file__, lineno == line)

        text = "divide by zero encountered in divide"
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = show
                fn(x)
            assert seen[-2:] == [False, (False, "warn", True, text, RuntimeWarning, True, True)]
            with np.errstate(divide="call", call=look):
                fn(x)
            assert seen[-2:] == [False, (False, "call", False, "divide by zero", 1)]
            with np.errstate(divide="log", call=File()):
                fn(x)
            assert seen[-2:] == [False, (False, "log", False, f"Warning: {text}\n")]
            assert len(seen) == 6
            seen.clear()
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            fn(x)
        with np.errstate(divide="call", call=None), pytest.raises(NameError, match="no function found"):
            fn(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match=text):
                fn(x)
        assert (np.geterr()["divide"], np.geterrcall()) == ("warn", None)

    def test_errors_are_printed_where_the_caller_prints(self, backend: Any, capsys: pytest.CaptureFixture[str]) -> None:
        """With ``np.errstate(divide="print")`` the text goes to `sys.stderr`."""
        fn = afx.jit(lambda x: afx.sort(1.0 / x), backend=backend)
        with np.errstate(divide="print"):
            fn(np.linspace(0, 1, 2 * COUNT, dtype=np.float32))
        assert capsys.readouterr().err == "Warning: divide by zero encountered in divide\n"

    def test_an_interrupt_leaves_the_callers_errstate(self, backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also one that comes right behind the call that sets another."""
        context = control_register._context

        class Interrupted:
            get, reset = staticmethod(context.get), staticmethod(context.reset)
            count = 0

            def set(self, state: Any) -> Any:
                context.set(state)
                self.count += 1
                if self.count == 1:
                    raise KeyboardInterrupt
                return None

        fn: Any = afx.jit(lambda x: afx.sort(1.0 / x), backend=backend)
        x = np.linspace(1, 2, 2 * COUNT, dtype=np.float32)
        with np.errstate(divide="call", call=print):
            for _ in range(2):
                control_register.run_flushing(fn, x)
            with monkeypatch.context() as patch:
                interrupted = Interrupted()
                patch.setattr(control_register, "_context", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    control_register.run_flushing(fn, x)
            assert interrupted.count == 2
            assert (np.geterr()["divide"], np.geterrcall()) == ("call", print)
        assert (np.geterr()["divide"], np.geterrcall()) == ("warn", None)

    def test_callbacks_have_the_callers_errstate(self, backend: Any) -> None:
        """A callback within a flushing call sees what its caller set."""
        seen = list[Any]()

        def fn(x: Any) -> Any:
            afx.debug.callback(lambda: seen.append((np.geterr(), np.geterrcall())))
            return halve(x)

        with np.errstate(divide="call", call=seen.append):
            want = np.geterr(), np.geterrcall()
            afx.jit(fn, backend=backend)(denormals())
        assert seen == [want]

    def test_modules_are_loaded_in_the_callers_mode(self, backend: Any) -> None:
        """What an operation imports at its first call computes its constants with denormals."""
        program = f"""
            import sys, types
            import numpy as np
            import afx
            from afx.runtime.control_register import is_flushing
            seen = []
            class Finder:
                def find_spec(self, name, path=None, target=None):
                    if name.partition(".")[0] == "scipy":
                        seen.append(is_flushing())
            sys.meta_path.insert(0, Finder())
            x = np.full({COUNT}, 0.5, np.float32)
            afx.jit(afx.special.zeta, backend={backend!r})(x + 1, x)
            print(bool(seen), any(seen))
        """
        assert run_python(program).split() == ["True", "False"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
    @pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
    def test_forks_within_a_call(self, backend: Any) -> None:
        """A child that a callback forks off has the caller's mode, and its compiled functions flush."""
        children = list[int]()

        def fork() -> None:
            child = os.fork()
            if not child:
                good = not is_flushing() and is_flushed(afx.jit(halve, backend="numpy")(denormals()))
                os._exit(0 if good else 1)
            children.append(child)

        def fn(x: Any) -> Any:
            afx.debug.callback(fork)
            return halve(x)

        afx.jit(fn, backend=backend)(denormals())
        assert [os.waitpid(child, 0)[1] for child in children] == [0]

    def test_donated_arguments(self, backend: Any) -> None:
        """Results in an argument's memory are flushed too."""
        fn = afx.jit(halve, backend=backend, donate_argnums=(0,))
        assert is_flushed(fn(afx.asarray(denormals(100_000))))

    def test_threads_that_help_flush(self, backend: Any) -> None:
        """Whichever thread computes a part, it is flushed where the caller's is, and kept where it is not."""
        x = denormals(600_000)
        for word, flushed in (("flush", True), ("keep", False), ("flush", True)):
            fn: Any = afx.jit(lambda x: afx.exp(x) * x * 0.5 + x * 0.25, backend=backend, denormals=word)
            for _ in range(5):
                found = np.asarray(fn(x))
                assert is_flushed(found) if flushed else found.all()


# -- the processor's flag --------------------------------------------------------------------------------------------
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: afx.exp(-x * x) * 0.5 + x,
    "reductions": lambda x: (afx.sum(x, 0), afx.max(x, 1), afx.nn.softmax(x, -1)),
    "product": lambda x: x @ x.T,
    "scan": lambda x: afx.scan(lambda c, r: (c * 0.9 + r, c), x[0], x),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_flag_of_denormal_operands_stays_clear(name: str, backend: Any) -> None:
    """No operation meets a denormal operand where a program flushes, and some do where it keeps them."""
    x = denormals(60 * 50).reshape(60, 50)
    fn: Any = PROGRAMS[name]
    flushing, keeping = [
        afx.jit(fn, backend=backend, denormals=word) for word in ("flush", "keep")
    ]  # a str, not the words themselves
    flushing(x), keeping(x)  # compiled, when operations are none of theirs

    def met(fn: Any) -> bool:
        met_denormals(forgetting=True)
        fn(x)
        return met_denormals()

    assert not run_in_mode(True, met, flushing)
    assert met(keeping)


# -- bits ------------------------------------------------------------------------------------------------------------
def numbers_of(dtype: Any) -> tuple[Any, Any]:
    """Return two arrays in which every pair of special values meets."""
    info = np.finfo(dtype)
    tiny, least = float(info.smallest_normal), float(info.smallest_subnormal)
    some = [0, 1, 0.5, 3, least, tiny / 4, tiny / 2, tiny, tiny * 1.5, 1e-20, float(info.max), np.inf]
    pool = np.array([*some, *[-x for x in some], np.nan], dtype)
    x, y = (np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(pool, pool))
    return x, y


def bits(fn: Callable[..., Any], args: tuple[Any, ...], target: Target) -> list[bytes]:
    """Return the bytes of the results of a flushing function."""
    with use_target(attrs.evolve(target, denormals="flush")), np.errstate(all="ignore"):
        return [np.asarray(z).tobytes() for z in afx.pytree.leaves(afx.jit(fn)(*args))]


BOTH = [attrs.evolve(current.target, backend="numpy"), FIRST_TIER]
ROWS: dict[str, Callable[[Any], Any]] = {
    "extremes": lambda x: [f(x, k) for f in (afx.max, afx.min, afx.argmax) for k in (0, 1)],
    "sums": lambda x: [afx.sum(x, 0), afx.sum(x, 1), afx.cumsum(x, 1), afx.mean(x), afx.prod(x, 1)],
    "clip": lambda x: [afx.clip(x, -1, 1), afx.where(x > 0, x, 0), afx.maximum(x * 0.5, x[::-1])],
    "units": lambda x: [x * 1.0, x + 0.0, x - 0.0, x / 1.0, -x, abs(x), x**2],
    "tests": lambda x: [x == 0, x < 0, x.astype(bool), afx.sign(x), afx.any(x, 1), afx.floor(x), afx.ceil(x)],
    "sorts": lambda x: [afx.sort(x, 1), afx.argsort(x, 1)],
    "loops": lambda x: [afx.fori_loop(0, 9, lambda k, c: c * 0.5 + x, x), afx.nn.softmax(x, -1)],
}


@pytest.mark.skipif(not is_installed(), reason="machine code is an extra")
class TestBits:
    """Machine code of the first tier has the bits of NumPy's plan, where both flush."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_of_every_operation(self, dtype: Any) -> None:
        """Operations on all pairs of special values, among them denormal ones of both signs."""
        pair, name = numbers_of(dtype), np.dtype(dtype).str[1:]
        ufuncs = [getattr(np, n) for n, op in SCALAR_OPS.items() if name in op.dtypes]
        for count in (1, 2):
            own = [u for u in ufuncs if u.nin == count]
            by_numpy, by_code = [
                bits(lambda *xs, own=own: [u(*xs) for u in own], pair[:count], t) for t in BOTH
            ]  # a lambda with defaults has no type
            assert [u.__name__ for u, x, y in zip(own, by_numpy, by_code, strict=True) if x != y] == []

    @pytest.mark.parametrize("name", ROWS)
    def test_of_rows(self, name: str) -> None:
        """Reductions, sorts, loops and comparisons of rows that are long, short, of denormals alone or mixed."""
        rng = np.random.default_rng(1)
        for shape in ((8, 6), (30, 100), (300, 20)):
            for share in (0.0, 0.4):
                x = rng.normal(size=shape) * np.where(rng.random(shape) < share, 1, TINY * 0.3)
                found = [bits(ROWS[name], (x.astype(np.float32),), target) for target in BOTH]
                assert found[0] == found[1], (shape, share)


STEPS: tuple[Callable[[Any, Any, float], Any], ...] = (
    lambda a, b, _: (a + b) * 0.5,
    lambda a, b, _: a - b * 0.25,
    lambda a, b, _: afx.tanh(a),
    lambda a, b, _: afx.maximum(a, b),
    lambda a, b, number: abs(a) * number,
    lambda a, b, _: afx.sin(a) * afx.cos(b),
    lambda a, b, _: afx.clip(a, -1, b),
    lambda a, b, _: a / (2 + b * b),
    lambda a, b, _: a - afx.mean(b),
)


def random_program(seed: int) -> Callable[[Any, Any], Any]:
    """Return a program that enlarges no difference by much."""
    rng = random.Random(seed)
    steps = [(rng.choice(STEPS), rng.random()) for _ in range(12)]

    def fn(x: Any, y: Any) -> Any:
        values = [x, y]
        for step, number in steps:
            values.append(step(values[int(number * len(values))], values[-1], number))
        return values[2:]

    return fn


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("start", [0, 6])
def test_random_programs_differ_from_numpy_below_the_smallest_normal_number(start: int, backend: Any) -> None:
    """With denormals among their numbers compiled programs give what they give with them, but for some times 1.2e-38."""
    rng = np.random.default_rng(start)
    for seed in range(start, start + 6):
        x, y = [(rng.normal(size=400) * rng.choice([0, TINY * 1e-3, TINY, 1], 400)).astype(np.float32) for _ in "xy"]
        flushed, kept = [
            afx.jit(random_program(seed), backend=backend, denormals=word)(x, y)  # a str, not the words themselves
            for word in ("flush", "keep")
        ]
        for z, wanted in zip(flushed, kept, strict=True):
            far = np.abs(np.asarray(z).astype(np.float64) - np.asarray(wanted)) > 20 * TINY
            assert not far.any(), seed


def test_moments_of_adam_become_zero() -> None:
    """Without gradients the first moment falls to 0 in a compiled step, where rounding else keeps it at 5.6e-45."""
    adam = optim.adam(1e-3)
    x, g = afx.ones(2000), afx.zeros(2000)

    def steps(word: Any) -> Any:
        fn = afx.jit(lambda x, s: afx.fori_loop(0, 900, lambda k, c: adam.step(c[0], g, c[1]), (x, s)), denormals=word)
        state = adam.step(x, afx.ones(2000), adam.init(x))[1]
        return fn(x, fn(x, state)[1])[1]

    moment = [
        np.asarray(min(afx.pytree.leaves(steps(word))[1:], key=lambda m: float(afx.max(m)))) for word in ("keep", None)
    ]
    assert float(moment[0].max()) > 0
    assert not moment[1].any()


@pytest.mark.skipif(not is_installed(), reason="machine code is an extra")
def test_exported_functions_keep_unless_asked() -> None:
    """They set the register where ``denormals="flush"`` is given, and set it back; some processors have none."""
    x = denormals()
    assert not is_flushed(export.compile(halve, x, name="halve")(x))
    assert is_flushed(export.compile(halve, x, name="halve", denormals="flush")(x))
    assert export.compile(halve, x, name="halve", denormals="flush", target="linux-aarch64").object
    with pytest.raises(ExportError, match="riscv64"):
        export.compile(halve, x, name="halve", denormals="flush", target="linux-riscv64")


def test_the_status_tells_what_becomes_of_denormals() -> None:
    """It says that they are flushed, kept, or kept and met, and what to write."""
    wide = denormals(dtype=np.float64)
    assert afx.jit(halve).lower(denormals()).status.denormals == "flushed"
    fn = afx.jit(halve, backend="numpy")
    fn(wide * 0)
    assert fn.lower(wide).status.denormals == "kept"
    fn(wide)
    assert 'denormals="flush"' in fn.lower(wide).status.denormals


def test_the_profile_names_the_line() -> None:
    """Lines with denormal operands are named, with what to write; those of a function that flushes have none."""

    def fn(x: Any, z: Any) -> Any:
        y = afx.sin(z + 1)
        return y, x * 0.5

    wide = denormals(dtype=np.float64)
    found = afx.debug.profile(fn, wide, wide * 0 + 1, seconds=0.0)
    assert [line.names for line in found.lines if line.meets_denormals] == [("multiply",)]
    assert 'denormals="flush"' in str(found)
    assert "denormal operands" not in str(afx.debug.profile(fn, denormals(), denormals(), seconds=0.0))


def test_the_first_call_hears_nothing_of_its_own(tmp_path: Path) -> None:
    """Whether the register works is tried in silence, whatever the caller wants to hear of."""
    text = 'import numpy as np, afx; np.seterr(all="raise"); print(afx.jit(lambda x: x * 2.0)(np.ones(3)).tolist())'
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split("\n")[0] == "[2.0, 2.0, 2.0]", done.stderr
