"""NumPy's warnings of a plan: they are NumPy's own, at the line of the user's code that they are about."""

import inspect
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.numpy_backend.emit import module_globals, relocate
from afx.core.tracing.tracer import SourceLocation

X = np.array([-1.0, 2.0])


def logarithm(x: Any) -> Any:
    """Return a logarithm, in the third line."""
    y = afx.sin(x)
    return y + afx.log(x)


def scanned(x: Any) -> Any:
    """Return a loop of logarithms, in the second line."""
    return afx.scan(lambda c, y: (afx.log(c) + y, c), x[0], x)[0]


def stepped(x: Any) -> Any:
    """Return a loop whose step stands by itself, in the fourth line."""

    def step(c: Any, y: Any) -> Any:
        return afx.log(c) + y, c

    return afx.scan(step, x[0], x)[0]


@afx.jit
def compiled_inside(x: Any) -> Any:
    """Return a root of a logarithm, in the third line below the decorator."""
    return afx.sqrt(afx.log(x))


def calling(x: Any) -> Any:
    """Return what another compiled function gives."""
    return afx.sum(compiled_inside(x))


def sloped(x: Any) -> Any:
    """Return a gradient whose backward pass divides by zero, in the second line of the root."""
    return afx.grad(rooted)(x)


def rooted(x: Any) -> Any:
    """Return roots, in the second line."""
    y = afx.sqrt(x)
    return afx.sum(y)


def branched(x: Any) -> Any:
    """Return a logarithm from a branch, in the second line."""
    return afx.cond(x[0] > 0, lambda v: v, lambda v: afx.log(v), x)


def powers(x: Any) -> Any:
    """Return a sum of powers, in the last line."""
    return afx.sum(
        x,
    ) + afx.sum(x**0.5)


def products(x: Any) -> Any:
    """Return a product that overflows, in the second line."""
    return (1e200 * x) @ (1e200 * x)


LINES: dict[str, tuple[Callable[[Any], Any], Any, int]] = {  # a function, its argument, and the line that warns
    "ufunc": (logarithm, X, 3),
    "loop": (scanned, X, 2),
    "step": (stepped, X, 4),
    "branch": (branched, X, 2),
    "power": (powers, X, 4),
    "product": (products, X, 2),
    "fused": (logarithm, np.full(300_000, -1.0), 3),
}


def shown(fn: Callable[..., Any], *args: Any) -> list[warnings.WarningMessage]:
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fn(*args)
    return found


@pytest.mark.parametrize("case", LINES)
def test_warnings_point_at_the_users_line(case: str) -> None:
    """File and line of a warning are those of the operation in the function that was compiled."""
    fn, x, line = LINES[case]
    found = shown(afx.jit(fn, backend="numpy"), x)
    assert found
    for warning in found:
        assert warning.category is RuntimeWarning
        assert warning.filename == __file__
        assert warning.lineno == inspect.getsourcelines(fn)[1] + line


def test_warnings_of_other_functions_point_there() -> None:
    """What compiled functions inside compute, and the backward pass of an operation, warn at the operation's line."""
    for fn, x, other, line in (
        (calling, X, compiled_inside, 3),
        (afx.grad(calling), X, compiled_inside, 3),
        (sloped, np.zeros(2), rooted, 2),
        (afx.vmap(sloped), np.zeros((2, 2)), rooted, 2),
    ):
        found = shown(afx.jit(fn, backend="numpy"), x)
        start = inspect.getsourcelines(inspect.unwrap(other))[1]
        assert {(w.filename, w.lineno) for w in found} == {(__file__, start + line)}


def test_filters_see_the_users_module() -> None:
    """A warning is shown once a line, ignored by the module's name, and raised where warnings are errors."""
    compiled = afx.jit(logarithm, backend="numpy")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for fn in (compiled, compiled, afx.jit(logarithm, backend="numpy")):
            fn(X)
    assert len(found) == 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        compiled(X)
    assert not found
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="invalid value encountered in log"):
            compiled(X)


def test_filters_see_the_namespace_that_code_ran_in() -> None:
    """A warning counts as one of the module by whose name its code ran, though no module has such a file."""
    space: dict[str, Any] = {"__name__": "session.cells", "afx": afx}
    exec(compile("def fn(x):\n    return afx.log(x) * 2", "<cell 7>", "exec"), space)
    compiled = afx.jit(space["fn"], backend="numpy")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=r"session\.cells")
        compiled(X)
    assert not found


def test_files_of_graphs_from_elsewhere_are_those_of_modules() -> None:
    """Where no code of a file was traced here, its module is looked up; a file of none counts as the main module's."""
    assert module_globals(str(warnings.__file__))["__name__"] == "warnings"
    assert module_globals("<none>")["__name__"] == "__main__"


def test_error_states_and_tracebacks() -> None:
    """``np.errstate`` rules as it does for NumPy, and the traceback of what it raises ends in the user's line."""
    compiled = afx.jit(logarithm, backend="numpy")
    with np.errstate(invalid="ignore"):
        assert not shown(compiled, X)
    with pytest.raises(FloatingPointError, match="log") as caught, np.errstate(invalid="raise"):
        compiled(X)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (__file__, inspect.getsourcelines(logarithm)[1] + 3)
    seen: list[str] = []
    with np.errstate(invalid="call", call=lambda kind, _: seen.append(kind)):
        compiled(X)
    assert seen == ["invalid value"]


def test_functions_of_several_files() -> None:
    """Each line has the file that it comes from, in whatever order they run."""
    spaces: list[dict[str, Any]] = [{"afx": afx}, {"afx": afx}]
    for space, name, blank in zip(spaces, ("first.py", "second.py"), (2, 7), strict=True):
        exec(compile("\n" * blank + "def fn(x): return 1.0 / afx.floor(x)", name, "exec"), space)
    compiled = afx.jit(lambda x: spaces[0]["fn"](x) + spaces[1]["fn"](x + 0.25), backend="numpy")
    found = shown(compiled, np.array([0.5]))
    assert {(w.filename, w.lineno) for w in found} == {("first.py", 3), ("second.py", 8)}


def test_masked_values_do_not_warn() -> None:
    """A gradient that a mask discards is computed in silence, and its line warns for the values that are alive."""
    loss = lambda x: afx.sum(afx.where(x > 0, afx.sqrt(afx.maximum(x, 0.0)), 0.0))
    assert not shown(afx.jit(afx.grad(loss), backend="numpy"), np.array([0.0, 1.0]))


@pytest.mark.parametrize("lines", [[5, 6, 7], [70, 3, 3000], [1, 2, 100_000]], ids=["near", "far", "farther"])
def test_relocated_code_has_the_lines_it_was_given(lines: list[int]) -> None:
    """The table of lines holds any distance, also for long lines of code, and the code computes as before."""
    text = "def f(a):\n b = a + 1\n c = " + " + ".join(["a * b"] * 50) + "\n return b + c"
    locations = [None, *[SourceLocation("file.py", line, "f") for line in lines]]
    space: dict[str, Any] = {}
    exec(relocate(compile(text, "<plan>", "exec"), locations), space)
    function = space["f"]
    assert function(2) == 3 + 50 * 6
    code = function.__code__
    assert code.co_filename == "file.py"
    found = [line for _, _, line in code.co_lines() if line is not None]
    assert list(dict.fromkeys(found)) == lines
    assert list(code.co_positions())[-1][0] == lines[-1]
