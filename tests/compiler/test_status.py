"""What runs a compiled function, and why: `fn.lower(*args).status` and `.native`."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.native_backend.run import swap
from afx.compiler.target import use_target
from afx.errors import MissingExtraError
from tests.compiler.native_backend.native_run import FIRST_TIER, wait_for

X = np.linspace(0, 1, 20)


@pytest.fixture
def without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide llvmlite."""
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    swap.is_installed.cache_clear()
    yield
    monkeypatch.undo()
    swap.is_installed.cache_clear()


@pytest.mark.usefixtures("without_llvmlite")
class TestWithoutLlvmlite:
    """The extra `native` is not installed."""

    def test_asking_for_machine_code_names_the_extra(self) -> None:
        """`backend="native"` raises as every extra does, and leaves the back end as it is."""
        for ask in (lambda: afx.set_backend("native"), lambda: afx.jit(np.sin, backend="native")):
            with pytest.raises(MissingExtraError, match=r"afx\[native\]"):
                ask()
        assert afx.get_backend() == "auto"

    def test_every_instruction_says_why(self) -> None:
        """Plans run by NumPy's calls; each instruction names its own reason, or the missing extra."""
        lowered = afx.jit(lambda x: afx.special.exprel(x) + 1).lower(X)
        assert lowered.status == afx.PlanStatus("numpy", "the extra native (llvmlite) is not installed")
        assert [reason for _, reason in lowered.native] == [
            "exprel has no native form",
            "the extra native (llvmlite) is not installed",
        ]


def test_a_plan_by_numpy_says_so() -> None:
    """Where NumPy was asked for, there is nothing to wait for."""
    assert "asked for" in afx.jit(np.sin, backend="numpy").lower(X).status.reason
    if swap.is_installed():
        assert "instructions" in afx.jit(lambda x: x).lower(X).status.reason


class TestMachineCode:
    """llvmlite is installed."""

    @pytest.fixture(autouse=True)
    def _needs_llvmlite(self) -> None:
        pytest.importorskip("llvmlite", reason="machine code is an extra")

    def test_it_says_since_when_it_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From waiting through compiling to the kernel, or to NumPy's calls where these were faster."""
        start = time.time()
        fn = afx.jit(lambda x: np.exp(x) * 2 + np.sin(x))
        lowered = fn.lower(X)
        assert (lowered.status.backend, lowered.status.since) == ("numpy", None)
        assert "10 ms" in lowered.status.reason
        with monkeypatch.context() as patch:
            patch.setattr(swap, "start", lambda _: None)
            while "10 ms" in lowered.status.reason:
                fn(X)
            assert lowered.status.reason == "it is being compiled"
        native = lowered.plan.native
        assert native is not None
        swap.start(native)
        wait_for(lambda: native.is_settled)
        assert (lowered.status.backend, "compared" in lowered.status.reason) == ("native", True)
        while isinstance(native.state, swap.OnTrial):
            fn(X)
        assert lowered.status.backend == "native" or "faster" in lowered.status.reason
        assert lowered.status.since is not None
        assert start <= lowered.status.since <= time.time()

    def test_it_is_compiled_before_its_first_call_where_asked_for(self) -> None:
        """`status` does not compile; the first call does."""
        fn = afx.jit(lambda x: np.exp(x) * 2, backend="native")
        assert fn.lower(X).status.reason == "it is compiled before its first call"
        fn(X)
        assert fn.lower(X).status.backend == "native"
        assert fn.lower(X).status.reason == ""

    def test_refused_calls_are_counted(self) -> None:
        """Calls that machine code leaves to NumPy's plan, such as one with an error that is heard, show in `refusals`."""
        with use_target(FIRST_TIER):
            fn = afx.jit(lambda x: afx.sum(1 / x))
            fn(X + 1)
            assert fn.lower(X).status.refusals == 0
            with pytest.warns(RuntimeWarning, match="divide"):
                fn(X)
            status = fn.lower(X).status
        assert (status.backend, status.refusals) == ("native", 1)

    @pytest.mark.parametrize("fn", [lambda x: afx.sin(x).T, lambda x: np.transpose(x * 2)])
    def test_a_refusal_of_the_whole_is_named(self, fn: Any) -> None:
        """A result that is a view in another order has no native form, though each instruction has one."""
        with use_target(FIRST_TIER):  # whose bits are those of NumPy's plan
            again = afx.jit(fn)
            lowered = again.lower(np.ones((3, 4)))
            again(np.ones((3, 4)))
        *pairs, last = lowered.native
        assert not any(reason for _, reason in pairs)
        assert last[0].startswith("return ")
        assert "row-major" in last[1]
        assert lowered.status.reason == last[1]
