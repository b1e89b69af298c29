"""A function as a file of NumPy computes the bits of its operations called one after the other, without afx."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import export
from afx.compiler.numpy_backend.loops import walk_back
from afx.compiler.schedule.schedule import BranchSpec, ScanSpec, WhileBackSpec, WhileSpec
from afx.core.aval import Aval
from afx.core.graph import Atom, Graph, Literal
from afx.core.primitive import Primitive
from afx.core.tracing.traces import silent
from afx.errors import ExportError
from afx.export.traced import prepare, trace_program
from tests.every import together
from tests.export.numpy_cases import FUNCTIONS
from tests.ops import samples as made
from tests.ops.samples import Sample

HELD = frozenset({"scan", "switch", "while_loop", "while_loop_backward"})  # which FUNCTIONS go through
PRIMITIVES = [p for p in afx.primitives() if not made.holds_function(p)]
WRITTEN = made.written()
REFUSED = frozenset({"hermitian_function"})  # holds a Python function


def samples_of(p: Primitive) -> list[Sample]:
    """Return a few calls of a primitive; of elementwise ones one that broadcasts."""
    found = made.elementwise(p) if p.is_elementwise else WRITTEN[p.name]
    return [*found[:1], *found[3:4], *found[1:2]]


def load(text: str) -> Callable[..., Any]:
    """Return the function of a file."""
    space: dict[str, Any] = {}
    exec(compile(text, "<exported>", "exec"), space)
    name = text.rpartition("\ndef ")[2].partition("(")[0]
    found: Callable[..., Any] = space[name]
    return found


def plain(tree: Any) -> Any:
    """Return a tree where classes are dicts of their fields, and arrays are NumPy's."""
    if attrs.has(type(tree)) and not isinstance(tree, afx.Array):
        return {field.name: plain(getattr(tree, field.name)) for field in attrs.fields(type(tree))}
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return list(map(plain, tree)) if isinstance(tree, list) else tuple(map(plain, tree))
    return tree if tree is None or callable(tree) else np.asarray(tree)


def wanted(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return what the operations of a function give, called one after the other."""
    program = trace_program(fn, args, "test")
    found = run(program.graph, [np.asarray(x) for x in afx.pytree.leaves(args)])
    return plain(afx.pytree.unflatten(program.out_tree, found))


def run(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """Return the results of a graph's operations, called one after the other."""
    known = [*values, *[c.value for _, c in graph.constants]]

    def read(atom: Atom) -> Any:
        return atom.aval.dtype.type(atom.value) if isinstance(atom, Literal) else known[atom.index]

    for eq in graph.equations:
        with silent(eq.ignored_fp_errors):
            rule, xs = eq.primitive.lowering.control, list(map(read, eq.inputs))
            found = (
                eq.primitive.impl(*xs, **eq.keywords)
                if rule is None
                else LOOPS[rule(eq.keywords).__class__](rule(eq.keywords), xs, [var.aval for var in eq.outputs])
            )
        known += found if eq.primitive.multiple_results else [found]
    return list(map(read, graph.outputs))


def scanned(spec: ScanSpec, xs: list[Any], avals: list[Aval]) -> list[Any]:
    """Run a loop over rows."""
    head = spec.consts + spec.carry
    carry, body = xs[spec.consts : head], prepare(spec.body)
    ys = [np.empty(a.shape, a.dtype) for a in avals[spec.carry :]]
    for t in range(spec.length)[:: -1 if spec.reverse else 1]:
        found = run(body, [*xs[: spec.consts], *carry, *[x[t] for x in xs[head:]]])
        carry = found[: spec.carry]
        for y, row in zip(ys, found[spec.carry :], strict=True):
            y[t] = row
    return [*carry, *ys]


def repeated(spec: WhileSpec, xs: list[Any], _: list[Aval]) -> list[Any]:
    """Run a loop that a condition ends."""
    first = spec.tests + spec.consts
    carry, test, body = xs[first:], prepare(spec.condition), prepare(spec.body)
    while run(test, [*xs[: spec.tests], *carry])[0]:
        carry = run(body, [*xs[spec.tests : first], *carry])
    return carry


def repeated_backward(spec: WhileBackSpec, xs: list[Any], avals: list[Aval]) -> list[Any]:
    """Run a loop and the way back over its steps."""
    step, back = prepare(spec.body), prepare(spec.back)
    test, first = prepare(spec.condition), spec.tests + spec.consts
    given = iter(xs[first + spec.carry :])
    state = [np.zeros(a.shape, a.dtype) if zero else next(given) for a, zero in zip(avals, spec.zeros, strict=True)]
    carry, consts = xs[first : first + spec.carry], xs[spec.tests : first]
    return walk_back(
        lambda *v: run(test, v),
        lambda *v: run(step, v),
        lambda *v: run(back, v),
        xs[: spec.tests],
        consts,
        carry,
        state,
    )


LOOPS: dict[type, Callable[..., list[Any]]] = {
    ScanSpec: scanned,
    WhileSpec: repeated,
    WhileBackSpec: repeated_backward,
    BranchSpec: lambda spec, xs, _: run(prepare(spec.bodies[int(xs[0])]), xs[1:]),
}


def assert_same(found: Any, want: Any) -> None:
    """Assert that two plain trees have the same structure, dtypes, shapes and bits."""
    if isinstance(want, dict):
        assert found.keys() == want.keys()
        found, want = [found[key] for key in want], list(want.values())
    if isinstance(want, tuple | list):
        assert len(found) == len(want)
        for x, y in zip(found, want, strict=True):
            assert_same(x, y)
    elif isinstance(want, np.ndarray):
        x = np.asarray(found)
        assert (x.dtype, x.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(x, want)
        assert x.tobytes() == want.tobytes()


# -- operations --
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@together("p", [p for p in PRIMITIVES if p.name not in REFUSED], ids=lambda p: p.name)
def test_each_operation_has_its_bits(p: Primitive) -> None:
    """NumPy's text of an operation gives what the operation gives, for each of its samples."""
    for sample in samples_of(p):

        def call(*xs: Any, sample: Sample = sample) -> Any:
            return made.call(p, sample, *xs)

        assert_same(load(export.to_numpy(call, *sample.operands))(*sample.operands), wanted(call, sample.operands))


def test_most_operations_have_a_form() -> None:
    """At least 255 of the primitives become text; what is refused holds Python's functions or speaks to other processes."""
    refused = {p.name for p in afx.primitives()} - {p.name for p in PRIMITIVES} - HELD | REFUSED
    assert len(afx.primitives()) - len(refused) >= 255
    assert refused <= {
        "call", "callback", "custom_call", "hermitian_function", "psum", "psum_scatter", "slot_gather", "slot_shift",
    }  # fmt: skip


# -- functions --
@functools.cache
def results() -> dict[str, Any]:
    """Return what every function gives, run where afx cannot be imported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, (fn, args) in FUNCTIONS.items():
            (folder / f"{case}.py").write_text(export.to_numpy(fn, *args, name=case))
            (folder / f"{case}.args").write_bytes(pickle.dumps(plain(args)))
        driver = Path(__file__).with_name("numpy_driver.py")
        subprocess.run([sys.executable, str(driver), name], check=True, timeout=120)
        return {case: pickle.loads((folder / f"{case}.result").read_bytes()) for case in FUNCTIONS}


@together("name", FUNCTIONS)
def test_each_function_runs_without_afx(name: str) -> None:
    """A file gives the bits of its function's operations, in a process that cannot import afx."""
    fn, args = FUNCTIONS[name]
    assert_same(results()[name], wanted(fn, args))


def test_plans_give_the_same_numbers() -> None:
    """A compiled plan gives the file's numbers, but for the order of sums."""
    for name in ("regression", "kalman", "lenet", "chosen_in_loop"):
        fn, args = FUNCTIONS[name]
        found, want = results()[name], plain(afx.jit(fn, backend="numpy")(*args))
        for x, y in zip(afx.pytree.leaves(found), afx.pytree.leaves(want), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


# -- the text --
def test_text_reads_as_its_function() -> None:
    """Arguments, variables and lines are the user's; loops are Python's."""
    offsets = np.array([0.5, -0.5])

    def walk(params: dict[str, Any], steps: Any) -> Any:
        def step(place: Any, push: Any) -> tuple[Any, Any]:
            place = params["drag"] * place + push
            return place, place * place

        end, energies = afx.scan(step, afx.asarray(offsets), steps)
        return end, afx.sum(energies)

    text = export.to_numpy(walk, {"drag": np.float64(0.9)}, np.ones((4, 2)))
    assert (
        text.partition("def walk")[2]
        == """(params, steps):
    params_drag = take(params['drag'], np.float64, (), "params['drag']")
    steps = take(steps, np.float64, (4, 2), "steps")
    # end, energies = afx.scan(step, afx.asarray(offsets), steps)
    end = captured
    energies = np.empty((4, 2), np.float64)
    for step in range(4):
        row = steps[step]
        # place = params["drag"] * place + push
        place = params_drag * end + row
        # return place, place * place
        energies[step] = place * place
        end = place
    # return end, afx.sum(energies)
    return (np.array(end), np.sum(energies))
"""
    )


def test_long_arrays_are_encoded() -> None:
    """A captured array of many elements, in any order of its elements, keeps its bits."""
    weights = np.asfortranarray(np.random.default_rng(0).normal(size=(30, 20)))
    few = np.array([np.nan, -0.0, np.inf, -np.inf])

    def fn(x: Any) -> Any:
        return x @ weights, few * 2.0

    text = export.to_numpy(fn, np.ones(30))
    assert "unpack(" in text
    assert max(map(len, text.splitlines())) < 130
    assert_same(load(text)(np.ones(30)), wanted(fn, (np.ones(30),)))


def test_what_needs_scipy_says_so() -> None:
    """The first line of a file names what it needs."""
    assert "needs NumPy and SciPy alone" in export.to_numpy(afx.special.erf, 0.5).splitlines()[0]
    assert "needs NumPy alone" in export.to_numpy(afx.sin, 0.5).splitlines()[0]


def test_callbacks_are_refused_at_their_line() -> None:
    """What calls back into Python has no text: the message names it and the user's line."""

    def fn(x: Any) -> Any:
        afx.debug.callback(print, x)
        return x

    with pytest.raises(ExportError, match=r"to_numpy: .*fn: .* NumPy: got callback at .*test_to_numpy.py:\d+"):
        export.to_numpy(fn, np.ones(2))


def test_other_arguments_are_refused_by_the_file() -> None:
    """A file's function takes the shapes and dtypes that it was written for, and numbers that convert to them."""
    fn = load(export.to_numpy(afx.sin, np.float32(1.0)))
    assert fn(0).dtype == np.float32
    with pytest.raises(ValueError, match=r"x: got float64\[2\]; it takes float32\[\]"):
        fn(np.ones(2))
    with pytest.raises(ValueError, match="x: got complex128"):
        fn(1j)


def test_results_do_not_share_memory_with_arguments() -> None:
    """A result that is an argument, or a view of one, is a copy."""
    x = np.ones((2, 3))
    same, turned = load(export.to_numpy(lambda x: (x, x.T), x))(x)
    assert not np.shares_memory(same, x)
    assert not np.shares_memory(turned, x)

    def last(x: Any) -> Any:
        return afx.scan(lambda _, row: (row, None), afx.zeros(3, dtype="float64"), x)[0]

    assert not np.shares_memory(load(export.to_numpy(last, x))(x), x)
