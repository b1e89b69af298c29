"""`afx.interop.array_api` lets libraries of the array API take Arrays as they are."""

import ast
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.externals import array_api_compat, array_api_extra as xpx

import afx
from afx import errors, interop
from tests.markdown import can_be_had

ROOT = Path(__file__).parents[2]
X = np.array([0.2, 0.7, 0.4])


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, Any]]:
    """Return what becomes of every call of the table, run where SciPy follows the array API."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.interop.calls"]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    judged: dict[str, dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return judged


def test_no_call_gives_a_wrong_number(table: dict[str, dict[str, Any]]) -> None:
    """What runs gives NumPy's values, and gradients that differences show."""
    assert [name for name, row in table.items() if row["runs"] and not row["right"]] == []
    assert [name for name, row in table.items() if row.get("gradient") == "wrong"] == []


def test_most_calls_run_and_have_gradients(table: dict[str, dict[str, Any]]) -> None:
    """Of some 300 functions of SciPy, scikit-learn and array-api-extra most take Arrays as they are; all of afx's do."""
    assert sum(row["runs"] for row in table.values()) >= 415
    assert sum(row.get("gradient") == "right" for row in table.values()) >= 340
    assert [name for name, row in table.items() if name.endswith(", afx's") and row.get("gradient") != "right"] == []


def test_scipys_functions_are_differentiated_where_afx_has_them(table: dict[str, dict[str, Any]]) -> None:
    """Of SciPy's families of converting functions the gradients are right but for those that afx has not, each by name."""
    families = ("linalg.", "interpolate.", "ndimage.", "signal.", "vq.")
    refused = {name for name, row in table.items() if name.startswith(families) and row.get("gradient") == "refused"}
    assert refused == {
        *("linalg.cosm", "linalg.sinm", "linalg.tanhm", "linalg.sinhm", "linalg.coshm"),
        *("linalg.solve_continuous_lyapunov", "ndimage.maximum_filter", "ndimage.median_filter", "signal.bilinear"),
    }


def test_what_errors_advise_is_there(table: dict[str, dict[str, Any]]) -> None:
    """Each name of afx in an error exists, and has SciPy's name where the error says no more than to call it."""
    advised = {
        name: row["error"] for name, row in table.items() if "error" in row and not row["error"].startswith("NumPy")
    }
    paths = {
        name: re.findall(r"afx(?:\.[A-Za-z]\w*)+", text.replace("'s functions", "")) for name, text in advised.items()
    }
    assert sum(map(len, paths.values())) > 30
    assert [path for found in paths.values() for path in found if not can_be_had(path)] == []


def test_what_does_not_run_says_why(table: dict[str, dict[str, Any]]) -> None:
    """Calls that are refused raise an error of afx's, or of the library's, that names the cause."""
    refused = [row["error"] for row in table.values() if not row["runs"]]
    assert [text for text in refused if "Error(" not in text or text.startswith("NumPy")] == []


def test_estimators_and_filters_that_write_run(table: dict[str, dict[str, Any]]) -> None:
    """What writes into arrays of its own gives NumPy's values and has gradients."""
    names = (
        "Ridge",
        "LinearDiscriminantAnalysis",
        "preprocessing.StandardScaler",
        "signal.hilbert",
        "optimize.rosen_der",
    )
    rows = {name: row for name, row in table.items() if name.startswith(names)}
    assert len(rows) >= 11
    assert all(row["right"] and row["gradient"] == "right" for row in rows.values())


WRITING = [path for paths in interop.WRITING.values() for path in paths]


@pytest.mark.parametrize("path", WRITING)
def test_each_function_that_writes_is_taught_and_taken_back(path: str) -> None:
    """Its code is another one inside of the block alone, of the same file; with a branch, where this version still writes."""
    fn = inspect.unwrap(pkgutil.resolve_name(path))
    code = fn.__code__
    parts = [n for n in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(fn)))) if isinstance(n, ast.Subscript)]
    writes = any(isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name) for n in parts)
    with interop.array_api():
        assert fn.__code__ is not code
        assert fn.__code__.co_filename == code.co_filename
        answers = [inspect.unwrap(c) for c in fn.__code__.co_consts if callable(c)]  # where traced Arrays are passed on
        written = answers[0].__code__ if answers else fn.__code__
        assert ("__afx_leaf__" in written.co_consts) is writes
        assert written.co_varnames[: code.co_argcount] == code.co_varnames[: code.co_argcount]
        assert written.co_freevars == code.co_freevars
    assert fn.__code__ is code


def test_writes_keep_the_dtype_and_what_others_hold() -> None:
    """Assignments and changes of places: dtypes stay, NumPy's arrays are written in place, an Array outside is as it was."""
    x, before = afx.asarray(np.arange(4)), np.arange(4)
    changes = interop.ArrayApi()
    interop._write_by_at(f"{__name__}:writes", changes)
    result = writes(x, 1)
    assert (x.tolist(), result.tolist(), result.dtype) == ([0, 1, 2, 3], [1, 11, 4, 3], afx.int64)
    assert afx.jit(writes)(x, 1).tolist() == [1, 11, 4, 3]
    assert writes(before, 1) is before
    assert before.tolist() == [1, 11, 4, 3]
    gradient = afx.grad(lambda x: afx.sum(writes(x, 1)))(afx.asarray(X[[0, 1, 2, 0]]))
    assert gradient.tolist() == [0.0, 1.0, 2.0, 1.0]
    assert writes(afx.asarray(np.arange(4, dtype=np.float32)), 2.5).dtype == afx.float32
    with pytest.raises(errors.DtypeError, match="does not fit into int64"):  # NumPy cuts it off in silence
        writes(x, 1.5)
    changes.undo()
    with pytest.raises(errors.ImmutableError):
        writes(x, 1)
    interop._write_by_at(f"{__name__}:nothing", changes)  # another version has no such function


def writes(x: Any, value: Any) -> Any:
    """Write in every way that is known."""
    x[0] = value
    x[1:2] += 10
    x[..., 2] *= 2
    table = {}
    table["x"] = x
    return table["x"]


def test_what_still_writes_is_told_of_the_guide() -> None:
    """A library's write that nobody read raises, and names the call and the page."""
    x = afx.asarray(X)
    with pytest.raises(errors.ImmutableError, match=r"afx\.interop\.array_api\(\), examples/guides/array_api\.md"):
        x[0] = 1.0  # what is refused


def test_updates_are_functional() -> None:
    """Every update of array-api-extra gives a changed copy, in the dtype that was there, with derivatives and compiled."""
    x = afx.asarray(X)
    with interop.array_api(["sklearn"]):
        for name in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
            expected = getattr(xpx.at(X.copy())[1:], name)(0.5)
            assert np.array_equal(getattr(xpx.at(x)[1:], name)(0.5), expected)
            assert np.array_equal(afx.jit(lambda x, name=name: getattr(xpx.at(x)[1:], name)(0.5))(x), expected)
        assert xpx.at(x)[x > 0.3].set(0.0).tolist() == [0.2, 0.0, 0.0]
        gradient = afx.grad(lambda x: afx.sum(xpx.at(x)[1].multiply(3.0)))(x)
        assert gradient.tolist() == [1.0, 3.0, 1.0]
        assert np.array_equal(xpx.at(X.copy())[0].set(1.0), [1.0, 0.7, 0.4])
    assert x.tolist() == X.tolist()


def test_it_is_taken_back() -> None:
    """After the block, after `undo`, and after an error nothing is changed; twice is as once."""
    x = afx.asarray(X)
    before = xpx.at._op
    assert array_api_compat.is_writeable_array(x)
    outer = interop.array_api(["sklearn"])
    assert not array_api_compat.is_writeable_array(x)
    assert array_api_compat.is_writeable_array(X)
    assert xpx.at._op is not before
    outer.undo()
    outer.undo()
    assert xpx.at._op is before
    assert array_api_compat.is_writeable_array(x)
    with pytest.raises(errors.ArgumentError, match="no such library: got 'nothing'"):
        interop.array_api(["sklearn", "nothing"])
    assert array_api_compat.is_writeable_array(x)


def test_laziness() -> None:
    """Arrays are not lazy, those of a derivative hold values, those that are compiled are lazy."""
    seen: list[bool] = []

    def ask(x: afx.Array) -> afx.Array:
        seen.append(array_api_compat.is_lazy_array(x))
        return afx.sum(x)

    with interop.array_api(["sklearn"]):
        ask(afx.asarray(X))
        afx.grad(ask)(X)
        afx.jit(ask)(X)
    assert seen == [False, False, True]


def test_versions_that_nobody_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of a version that afx does not know is refused by name, and left as it is."""
    monkeypatch.setattr(xpx, "__version__", "9.1.0")
    before = xpx.at._op
    with pytest.raises(errors.ArgumentError, match=r"array_api_extra has a version .* got 9\.1\.0; known are 0\.9"):
        interop.array_api(["sklearn"])
    assert xpx.at._op is before
    monkeypatch.setattr(interop, "COPIES", {"sklearn": ("sklearn.gone", "sklearn.externals"), "nowhere": ("nowhere",)})
    with pytest.raises(errors.ArgumentError, match=r"known are 0\.9"):  # found where another version keeps it
        interop.array_api(["sklearn"])
    monkeypatch.setitem(interop.COPIES, "sklearn", ("sklearn.gone",))
    with pytest.raises(errors.ArgumentError, match=r"got version \d.*, looked in sklearn\.gone; leave sklearn out"):
        interop.array_api(["sklearn"])
    with pytest.raises(errors.MissingExtraError, match="nowhere is not installed"):
        interop.array_api(["nowhere"])
