"""``backend="portable"`` and ``bits="portable"``: one result on every processor, functions within one ulp, clear refusals."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, pytree
from afx.errors import ArgumentError, IndexRangeError
from afx.export import Machine
from tests.compiler.native_backend.llvm.test_looks import StopError, alarms, stop
from tests.every import together
from tests.portable.programs import CASES, digest

pytest.importorskip("llvmlite", reason="machine code is an extra")

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
MACHINES = {
    "SSE2": Machine("", "x86-64", has_fma=False),
    "AVX2": Machine("", "haswell"),
    "AVX-512": Machine("", "skylake-avx512"),
}
FLAGS = {"SSE2": "sse2", "AVX2": "avx2", "AVX-512": "avx512dq"}
EXTREMES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1.0, -1.0, 0.5, 2.0, 1.7e308, -1.7e308]
)
RNG = np.random.default_rng(11)
LIBM = "acos acosh asin asinh atan atanh cbrt cos cosh exp exp2 expm1 log log10 log1p log2 sin sinh tan tanh".split()  # noqa: SIM905  # names
NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}


@together("name", LIBM)
@together("dtype", [np.float32, np.float64])
def test_limits_are_numpys(name: str, dtype: Any) -> None:
    """At zeros with their sign, infinities, nan, denormals and the largest numbers."""
    ufunc = getattr(np, NAMES.get(name, name))
    with np.errstate(all="ignore"):
        x = EXTREMES.astype(dtype)
        wanted = ufunc(x)
    results = np.asarray(afx.jit(getattr(afx, NAMES.get(name, name)), backend="portable")(x))
    assert results.dtype == dtype
    np.testing.assert_array_max_ulp(results[np.isfinite(wanted)], wanted[np.isfinite(wanted)], 2)
    np.testing.assert_array_equal(results[~np.isfinite(wanted)], wanted[~np.isfinite(wanted)])
    np.testing.assert_array_equal(np.signbit(results[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("name", ["power", "arctan2", "hypot"])
def test_limits_of_two_operands_are_numpys(name: str) -> None:
    """At each pair of extreme operands."""
    more = np.r_[EXTREMES, 3.0, -3.0, -2.5, 2.0**53, 2.0**52 + 1, -(2.0**51) - 0.5]
    x, y = [v.ravel() for v in np.meshgrid(more, more)]
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    results = np.asarray(afx.jit(getattr(afx, name), backend="portable")(x, y))
    finite = np.isfinite(wanted)
    np.testing.assert_array_max_ulp(results[finite], wanted[finite], 1)
    np.testing.assert_array_equal(results[~finite], wanted[~finite])
    np.testing.assert_array_equal(np.signbit(results[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.skipif(not IS_X86, reason="the machines are kinds of x86-64")
@pytest.mark.parametrize("name", sorted(CASES))
def test_one_digest_on_every_kind_of_processor(name: str) -> None:
    """SSE2, AVX2 and, where this machine has it, AVX-512 give the bits that ``jit`` gives."""
    case = CASES[name]
    known = Path("/proc/cpuinfo").read_text(encoding="utf-8").split() if Path("/proc/cpuinfo").exists() else ["sse2"]
    jitted = afx.jit(case.fn, backend="portable")(*case.args)
    wanted = digest([np.asarray(x) for x in pytree.leaves(jitted)])
    for kind, machine in MACHINES.items():
        if FLAGS[kind] in known:
            compiled = export.compile(case.fn, *case.args, target=machine, name="portable_case", bits="portable")
            found = digest([np.asarray(x) for x in pytree.leaves(compiled(*case.args))])
            assert found == wanted, kind
    for x, eager in zip(pytree.leaves(jitted), pytree.leaves(case.fn(*case.args)), strict=True):
        np.testing.assert_allclose(x, eager, rtol=2e-4 if np.asarray(eager).dtype == np.float32 else 1e-11, atol=1e-6)


def test_settings_change_no_bit() -> None:
    """Neither threads nor the treatment of denormals, which are kept."""
    case = CASES["sums"]
    wanted = digest(afx.jit(case.fn, backend="portable")(*case.args))
    threads = afx.get_threads()
    try:
        afx.set_threads(1)
        afx.set_denormals("flush")
        assert digest(afx.jit(case.fn, backend="portable")(*case.args)) == wanted
        halves = afx.jit(lambda x: x * 0.5, backend="portable")(np.full(5000, 1e-39, np.float32))
        assert (np.asarray(halves) > 0).all()
    finally:
        afx.set_threads(threads)
        afx.set_denormals(None)


def large(x: Any, m: Any) -> Any:
    """Return what threads share: elements, sums of and along both axes, products, transforms, sorts, steps of a loop."""
    y = afx.sin(x) * x + afx.exp(-x)
    rows = afx.scan(lambda c, r: (c * 0.5 + afx.tanh(r + c), afx.sum(c)), y[0], y[:3])
    sums = afx.sum(y), afx.sum(y, axis=0), afx.sum(y * y, axis=1), afx.max(y, axis=1), afx.argmax(y, axis=0)
    return (
        y,
        sums,
        m @ m,
        (m @ m[0], m[0] @ m),
        afx.abs(afx.fft.fft(m)),
        afx.sort(m, axis=1),
        afx.cumsum(m, axis=0),
        rows,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_no_bit(dtype: Any) -> None:
    """Of loops that they share: one, two and five of them give what code for one thread gives, call after call."""
    args = [RNG.normal(size=shape).astype(dtype) for shape in ((300, 1001), (256, 256))]
    wanted = digest(pytree.leaves(export.compile(large, *args, name="large", bits="portable")(*args)))
    threads = afx.get_threads()
    try:
        for count in (1, 2, 5):
            afx.set_threads(count)
            jitted = afx.jit(lambda x, m: large(x, m), backend="portable")
            assert {digest(pytree.leaves(jitted(*args))) for _ in range(8)} == {wanted}
            assert "@share" in jitted.lower(*args).plan.llvm
    finally:
        afx.set_threads(threads)


def test_ctrl_c_ends_a_loop() -> None:
    """What a signal's handler raises ends a loop that would go on for hours, and later calls are as before."""
    loop = afx.jit(lambda x, n: afx.fori_loop(0, n, lambda _, y: afx.sin(y), x), backend="portable")
    x = np.linspace(0.1, 1.0, 5)
    wanted = np.asarray(loop(x, np.int64(7)))
    with alarms(0.2, stop), pytest.raises(StopError):
        loop(x, np.int64(1 << 50))
    np.testing.assert_array_equal(loop(x, np.int64(7)), wanted)


def test_arguments_of_any_layout() -> None:
    """Arrays that are strided, unaligned, byte-swapped or of another dtype's scalars, and donated ones, give the same bits."""
    function = afx.jit(lambda x, rate: afx.tanh(x * rate), backend="portable")
    x, raw = RNG.normal(size=(40, 30)), np.empty(40 * 30 * 8 + 1, np.uint8)
    unaligned = raw[1:].view(np.float64).reshape(40, 30)
    unaligned[...] = x
    wanted = np.asarray(function(x, 1.5))
    for given in (np.asfortranarray(x), x.astype(">f8"), unaligned, np.repeat(x, 2, axis=0)[::2], x.tolist()):
        np.testing.assert_array_equal(function(np.asarray(given), np.float64(1.5)), wanted)
    donating = afx.jit(lambda x, rate: afx.tanh(x * rate), backend="portable", donate_argnums=(0,))
    np.testing.assert_array_equal(donating(afx.asarray(x), 1.5), wanted)


def test_errors_that_are_heard_change_no_bit() -> None:
    """Nor ``np.errstate``, which decides elsewhere whether a sum shares a loop with what it adds up."""

    def total(x: Any, y: Any) -> Any:
        with np.errstate(invalid="ignore"):
            z = x * y
        return afx.sum(z)

    x, y = RNG.normal(size=(8, 3, 3)), RNG.normal(size=(8, 1, 3))
    found = set[bytes]()
    for state in ("warn", "ignore"):
        with np.errstate(all=state):
            found.add(np.asarray(afx.jit(total, backend="portable")(x, y)).tobytes())
        found.add(np.asarray(export.compile(total, x, y, name="total", bits="portable")(x, y)).tobytes())
    assert len(found) == 1


def test_nan_is_one_pattern() -> None:
    """The positive quiet one, of exports too, also where operands have another payload, and of complex numbers' parts."""
    wide = np.array([0xFFF8000000000123, 0x7FF8000000000001], np.uint64).view(np.float64)
    for x in (wide, np.array([0xFFC00001, 0x7FC00000], np.uint32).view(np.float32), wide + 1j * wide):
        results = [afx.jit(afx.flip, backend="portable")(x)]
        if x.dtype.kind == "f":
            results.append(afx.jit(np.negative, backend="portable")(x))
            results.append(export.compile(np.negative, x, name="f", bits="portable")(x))
        for parts in [np.asarray(z).view(x.real.dtype) for z in results]:
            nan, bits = np.array(np.nan, parts.dtype), f"u{parts.itemsize}"
            np.testing.assert_array_equal(parts.view(bits), nan.view(bits))


def test_halves_that_are_written_in_any_order() -> None:
    """The memory of a loop's body is filled from its end on, and read at once, in a branch that is put into its caller."""

    def body(carry: Any, _: Any) -> Any:
        first, second = carry
        return (second, afx.tanh(afx.concatenate([first[::2], first[1::2] * 0.5]) * afx.cos(first) + second)), None

    def loop(x: Any) -> Any:
        first, second = afx.scan(body, (x, x * 0.5), None, length=3)[0]
        return first - second

    def branch(x: Any) -> Any:
        return afx.cond(x[0] > 0.0, loop, lambda y: y, x * 0.7)

    x = RNG.normal(size=4) * np.array([0.0, 1.0, 1.0, 1.0]) + np.array([1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(afx.jit(branch, backend="portable")(x), branch(x), rtol=1e-13)


def test_what_is_refused_is_named_with_its_dtype() -> None:
    """Sorts and factorizations of complex numbers, and what has no form of any dtype."""
    with pytest.raises(ArgumentError, match=r"sort of c16 at .*test_portable\.py:\d+"):
        afx.jit(lambda x: afx.sort(x), backend="portable")(np.ones(3) * 1j)
    with pytest.raises(ArgumentError, match=r"got det of c16 at .*test_portable\.py:\d+"):
        afx.jit(lambda x: afx.linalg.det(x), backend="portable")(np.eye(3) * 1j)
    with pytest.raises(ArgumentError, match=r"got eig at .*test_portable\.py:\d+"):
        afx.jit(lambda x: afx.linalg.eig(x), backend="portable")(np.eye(3))


def test_faults_are_errors() -> None:
    """Indices out of range and singular matrices raise, with the user's line."""
    with pytest.raises(IndexRangeError, match=r"index is out of range.* at .*test_portable\.py:\d+"):
        afx.jit(lambda x, i: x[i], backend="portable")(np.ones(3), np.array([5]))
    with pytest.raises(IndexRangeError, match=r"index is out of range.* at .*test_portable\.py:\d+"):
        afx.jit(lambda x, i: x.at[i].set(0.0), backend="portable")(np.ones(3), np.array([5]))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        afx.jit(afx.linalg.inv, backend="portable")(np.zeros((3, 3)))


def test_wrong_words_are_named() -> None:
    """Portable bits belong to one function, and keep denormals."""
    with pytest.raises(ArgumentError, match='keep denormals: got denormals="flush"'):
        afx.jit(lambda x: x, backend="portable", denormals="flush")
    with pytest.raises(ArgumentError, match="a back end is one of auto, numpy, native: got 'portable'"):
        afx.set_backend("portable")  # a wrong word on purpose
    with pytest.raises(ArgumentError, match=r"got .exact"):
        export.compile(lambda x: x, np.ones(2), bits="exact")  # a wrong word on purpose


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Its first call takes the code that an earlier one kept, and gives the same bits."""
    program = (
        "import afx, numpy as np\n"
        "from afx.compiler.native_backend.run import portable\n"
        "compile_apart, calls = portable.compile_apart, []\n"
        "portable.compile_apart = lambda *args: calls.append(1) or compile_apart(*args)\n"
        "result = afx.jit(lambda x: afx.tanh(x) * 1.625, backend='portable')(np.linspace(-1, 1, 5))\n"
        "print(len(calls), np.asarray(result).tobytes().hex())\n"
    )
    env = {**os.environ, "AFX_CODE_CACHE": str(tmp_path / "code")}
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert [run[0] for run in runs] == ["1", "0"]
    assert runs[0][1] == runs[1][1]
