"""gradbench's twelve evals: their programs agree with jax, SciPy and known answers; messages and files are understood."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import afx
from tests.benchmarks.c_library import compiler
from tests.benchmarks.gradbench import __main__ as tool, by_hand
from tests.benchmarks.gradbench.evals import EVALS
from tests.benchmarks.gradbench.inputs import draw, read_folder
from tests.benchmarks.gradbench.kit import Kit

SMALL = {
    "hello": "1", "ba": "n=3 m=5 p=7", "det": "4", "gmm": "d=3 k=4 n=20", "ht": "points=7", "kmeans": "k=3 n=30 d=2",
    "llsq": "n=16", "lse": "n=20", "lstm": "l=1 c=12", "ode": "n=10 s=5",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _doubles() -> Iterator[None]:  # pytest calls it
    default = afx.get_default_dtype()
    with afx.default_dtype("float64"):
        yield
    afx.set_default_dtype(default)  # which the kit sets for a whole process


def compute(name: str, function: str, library: str = "afx") -> list[np.ndarray[Any, Any]]:
    """Return what a function of an eval gives of its small input."""
    run, kit = EVALS[name], Kit(library)
    operands, fixed = run.read(draw(name, SMALL[name]))
    results = kit.compile(run.functions(kit, **fixed)[function])(*kit.arrays(operands))
    return [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("name", SMALL)
def test_derivatives_agree_with_jax(name: str) -> None:
    """The same lines in afx and in jax give the same derivatives to 1e-12 of the largest."""
    pytest.importorskip("jax", reason="jax is beside whom it is compared")
    function = EVALS[name].names[-1]
    for got, want in zip(compute(name, function), compute(name, function, "jax"), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * max(1.0, float(np.max(abs(want)))))


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", by_hand.EVALS)
def test_derivatives_by_hand_agree(name: str) -> None:
    """Values and derivatives by hand in C are afx's to 1e-12 of the largest, called twice."""
    operands, fixed = EVALS[name].read(draw(name, SMALL[name]))
    for function in EVALS[name].names:
        job = by_hand.make_job(name, function != EVALS[name].names[0], operands, fixed)
        job.run()
        found = job.run()
        for got, want in zip(found if isinstance(found, tuple) else (found,), compute(name, function), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * max(1.0, float(np.max(abs(want)))))


def test_values_agree_with_others_formulas() -> None:
    """Determinants, sums of exponentials, polynomials and clusters as NumPy and SciPy have them; the solution's closed form."""
    given = draw("det", SMALL["det"])
    np.testing.assert_allclose(compute("det", "primal")[0], np.linalg.det(given["A"].reshape(4, 4)), rtol=1e-12)
    np.testing.assert_allclose(
        compute("lse", "primal")[0], scipy.special.logsumexp(draw("lse", "n=20")["x"]), rtol=1e-14
    )
    places, x = np.linspace(-1, 1, 16), draw("llsq", SMALL["llsq"])["x"]
    left = np.sign(places) - np.polyval(x[::-1], places)
    np.testing.assert_allclose(compute("llsq", "primal")[0], np.sum(left**2) / 2, rtol=1e-12)
    given = draw("kmeans", SMALL["kmeans"])
    apart = np.sum((given["points"][:, None] - given["centroids"]) ** 2, axis=2)
    np.testing.assert_allclose(compute("kmeans", "cost")[0], np.sum(apart.min(axis=1)), rtol=1e-12)
    nearest = apart.argmin(axis=1)
    means = np.stack([given["points"][nearest == j].mean(axis=0) for j in range(3)])
    np.testing.assert_allclose(compute("kmeans", "dir")[0], given["centroids"] - means, rtol=1e-9, atol=1e-12)
    x = draw("ode", SMALL["ode"])["x"][:4]
    exact = np.cumprod(x * 2 / np.arange(1, 5))
    np.testing.assert_allclose(compute("ode", "primal")[0][:4], exact, rtol=1e-12)


def test_a_mixtures_posterior_is_that_of_scipys_laws() -> None:
    """The product of normal densities, mixed, and of Wishart's law of each precision."""
    g = draw("gmm", SMALL["gmm"])
    d, freedom = g["d"], g["d"] + g["m"] + 1
    factors = np.zeros((g["k"], d, d))
    factors[:, *np.triu_indices(d, 1)[::-1]] = g["l"]
    factors += np.exp(g["q"])[:, :, None] * np.eye(d)
    precisions = np.swapaxes(factors, 1, 2) @ factors
    each = [
        scipy.stats.multivariate_normal(m, np.linalg.inv(p)).logpdf(g["x"])
        for m, p in zip(g["mu"], precisions, strict=True)
    ]
    shares = g["alpha"] - scipy.special.logsumexp(g["alpha"])
    likelihood = np.sum(scipy.special.logsumexp(np.stack(each, 1) + shares, axis=1))
    prior = sum(scipy.stats.wishart(freedom, np.eye(d) / g["gamma"] ** 2).logpdf(p) for p in precisions)
    np.testing.assert_allclose(compute("gmm", "objective")[0], likelihood + prior, rtol=1e-12)


@pytest.mark.parametrize("modes", ["rr", "ff", "fr", "rf"])
def test_derivatives_within_derivatives_of_loops_find_gradbenchs_answers(modes: str) -> None:
    """The charge's place and the saddle's point are those of gradbench, in each pair of modes."""
    pytest.importorskip("llvmlite", reason="machine code is the extra native")
    for name, want in (("particle", 0.2071918746486116), ("saddle", [8.246324826140356e-06] * 4)):
        run, kit = EVALS[name], Kit("afx")
        operands, fixed = run.read(draw(name, 0))
        found = kit.compile(run.functions(kit, **fixed)[modes], run.has_long_loops)(*kit.arrays(operands))
        np.testing.assert_allclose(found, want, rtol=1e-11)


def ask(*messages: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return afx's answers to messages of gradbench."""
    lines, out = [json.dumps({"id": k, **m}) for k, m in enumerate(messages)], io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    monkeypatch.setattr(sys, "stdout", out)
    tool.main()
    monkeypatch.undo()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_messages_of_gradbench_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its number: results as lists, a time for each run, failures with their reason."""
    blocks = json.loads(json.dumps({k: np.asarray(v).tolist() for k, v in draw("ba", "n=3 m=5 p=40").items()}))
    runs = {"min_runs": 3, "min_seconds": 0.0}
    call = {"kind": "evaluate", "module": "ba", "function": "jacobian"}
    start, known, unknown, jacobian, failed, note = ask(
        {"kind": "start", "eval": "ba"}, {"kind": "define", "module": "ba"}, {"kind": "define", "module": "other"},
        {**call, "input": {**blocks, **runs}}, {**call, "input": {}}, {"kind": "analysis", "of": 3, "valid": True},
        monkeypatch=monkeypatch,
    )  # fmt: skip
    assert start == {"id": 0, "tool": "afx"}
    assert (known["success"], unknown["success"], failed["success"]) == (True, False, False)
    assert "KeyError" in failed["error"]
    assert note == {"id": 5}
    assert len(jacobian["timings"]) == 3
    n, m, p = blocks["n"], blocks["m"], blocks["p"]
    found = jacobian["output"]
    assert found["rows"] == [*range(0, 450, 15), 31 * p]
    assert found["cols"][:15] == [*range(11), *range(11 * n, 11 * n + 3), 11 * n + 3 * m]
    assert found["vals"][-1] == -2 * blocks["w"]


def test_files_of_gradbench_are_read(tmp_path: Path) -> None:
    """Bundles in five lines; hands by their bones, vertices and triangles, and poses with or without places in triangles."""
    (tmp_path / "ba1_small.txt").write_text("2 3 4\n" + " ".join(["0.5"] * 11) + "\n1 2 3\n0.25\n7 8\n")
    (bundle,) = read_folder("ba", tmp_path).values()
    assert (bundle["n"], bundle["m"], bundle["p"], bundle["w"], bundle["feat"]) == (2, 3, 4, 0.25, [7.0, 8.0])
    model = tmp_path / "complicated_small" / "model"
    model.mkdir(parents=True)
    matrix = ":".join(map(str, np.eye(4).ravel()))
    (model / "bones.txt").write_text(f"wrist:-1:{matrix}:{matrix}\npalm:0:{matrix}:{matrix}\n")
    (model / "vertices.txt").write_text("1:2:3:0:0:0:0:0:1:1:0.75\n4:5:6:0:0:0:0:0:2:0:0.5:1:0.5\n")
    (model / "triangles.txt").write_text("0:1:0\n1:0:1\n")
    (model.parent / "hand1_t2_c2.txt").write_text("2 3\n0 1 2 3\n1 4 5 6\n0.1 0.2\n0.3 0.4\n7\n8\n9\n")
    (pose,) = read_folder("ht", model.parent).values()
    assert pose["data"]["model"]["parents"] == [-1, 0]
    np.testing.assert_array_equal(pose["data"]["model"]["weights"], [[0, 0.75], [0.5, 0.5]])
    np.testing.assert_array_equal(pose["data"]["points"], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(pose["us"], [[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_array_equal(pose["theta"], [7, 8, 9])
