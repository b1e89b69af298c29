"""Exported functions compute what they compute in Python: called here, from C, on another processor, and in WebAssembly."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, special
from afx.errors import (
    AfxError,
    ArgumentError,
    ExportError,
    FileFormatError,
    IndexRangeError,
    ShapeError,
)
from afx.export.compiled import read_note, write_note
from tests.export.cases import CASES, Case
from tests.export.drivers import leaves_of, run_driver
from tests.export.forms import has_c_form

pytest.importorskip("llvmlite", reason="machine code is an extra")

HAS_ZIG = importlib.util.find_spec("ziglang") is not None
FILES = Path(__file__).parent / "files"
OTHER_PROCESSOR = 1e-11  # where sums of fused operations are the same, but not libm's


@functools.cache
def exported(name: str, target: str = "host") -> export.Exported:
    """Return an exported case, made once."""
    case = CASES[name]
    return export.compile(case.fn, *case.args, name=name, target=target)


@functools.cache
def wanted(name: str) -> list[Any]:
    """Return what NumPy's plan gives for a case."""
    case = CASES[name]
    return [np.asarray(x) for x in afx.pytree.leaves(afx.jit(case.fn, backend="numpy")(*case.args))]


def assert_close(name: str, found: list[Any], tolerance: float) -> None:
    """Assert that results are those of NumPy's plan, up to rounding."""
    for x, y in zip(found, wanted(name), strict=True):
        assert (np.asarray(x).shape, np.asarray(x).dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * np.max(np.abs(y), initial=1e-300))


@pytest.mark.parametrize("name", CASES)
def test_an_exported_function_computes_what_its_plan_does(name: str) -> None:
    """Called in this process: NumPy's results up to rounding; where all code is the module's own, the native back end's bits."""
    case = CASES[name]
    found = afx.pytree.leaves(exported(name)(*case.args))
    assert_close(name, [np.asarray(x) for x in found], case.tolerance)
    if case.has_own_bits:
        native = afx.pytree.leaves(afx.jit(case.fn, backend="native")(*case.args))
        assert all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(found, native, strict=True))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler is installed")
def test_c_calls_every_function(tmp_path: Path) -> None:
    """A C program gets the bits that Python gets, and no byte beyond an array is touched."""
    made = {name: exported(name) for name in CASES}
    results = run_driver(tmp_path, made, {name: case.args for name, case in CASES.items()}, ["gcc"], [])
    for name, (status, outs) in results.items():
        here = [np.asarray(x) for x in afx.pytree.leaves(made[name](*CASES[name].args))]
        assert status == 0
        assert all(np.array_equal(x, y) for x, y in zip(outs, here, strict=True)), name


@pytest.mark.skipif(
    not (shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-gcc")),
    reason="no aarch64 compiler and emulator are installed",
)
def test_another_processor_computes_the_same(tmp_path: Path) -> None:
    """On aarch64, what is the module's own has this processor's bits; what calls libm differs in last digits."""
    made = {name: exported(name, "linux-aarch64") for name in CASES}
    args = {name: case.args for name, case in CASES.items()}
    results = run_driver(tmp_path, made, args, ["aarch64-linux-gnu-gcc", "-static"], ["qemu-aarch64"])
    for name, (status, outs) in results.items():
        here = [np.asarray(x) for x in afx.pytree.leaves(exported(name)(*CASES[name].args))]
        assert status == 0
        if CASES[name].has_own_bits:
            assert all(np.array_equal(x, y) for x, y in zip(outs, here, strict=True)), name
        assert_close(name, outs, max(CASES[name].tolerance, OTHER_PROCESSOR))


WASM_CASES = ("network", "catenary", "kalman", "inverse_functions", "determinant", "newton", "simulated", "indices")


@pytest.mark.skipif(not HAS_ZIG or shutil.which("node") is None, reason="no ziglang, or no node, is installed")
def test_webassembly_computes_the_same(tmp_path: Path) -> None:
    """In node, without any import, results differ by rounding alone: there is no fused multiplication and addition."""
    runner = Path(__file__).with_name("run_wasm.mjs")
    for name in WASM_CASES:
        e = exported(name, "wasm32")
        path = e.save(tmp_path, "wasm")[1]
        given = b"".join([np.ascontiguousarray(x).tobytes() for x in leaves_of(CASES[name].args, e)])
        sizes = [[slot.size * slot.dtype.itemsize for slot in slots] for slots in (e.inputs, e.outputs)]
        command = ["node", str(runner), str(path), name, *[",".join(map(str, s)) for s in sizes]]
        done = subprocess.run(command, input=given, capture_output=True, check=True, timeout=120)
        outs, at = list[Any](), 4
        assert int(np.frombuffer(done.stdout, np.int32, 1)[0]) == 0
        for slot in e.outputs:
            outs.append(np.frombuffer(done.stdout, slot.dtype, slot.size, at).reshape(slot.shape))
            at += slot.size * slot.dtype.itemsize
        assert_close(name, outs, max(CASES[name].tolerance, 1e-11))


@pytest.mark.skipif(not HAS_ZIG, reason="ziglang is not installed")
def test_a_freestanding_object_needs_nothing(tmp_path: Path) -> None:
    """A network's gradient for a microcontroller links without any library."""
    path = exported("network_jacobian", "cortex-m7").save(tmp_path)[1]
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "ld.lld",
        "-e",
        "network_jacobian",
        "-o",
        str(tmp_path / "a.elf"),
        str(path),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.mark.skipif(not HAS_ZIG, reason="ziglang is not installed")
def test_zig_calls_a_function(tmp_path: Path) -> None:
    """Another compiled language links the object and calls it by C's convention."""
    exported("rosenbrock").save(tmp_path)
    n = CASES["rosenbrock"].args[0].size
    (tmp_path / "main.zig").write_text(
        "extern fn rosenbrock(x: [*]const f64, value: *f64, gradient: [*]f64, work: [*]u8) c_int;\n"
        "pub fn main() u8 {\n"
        f"    var x: [{n}]f64 = undefined; for (&x) |*e| e.* = 1.0;\n"
        f"    var value: f64 = undefined; var gradient: [{n}]f64 = undefined;\n"
        "    var work: [4096]u8 align(64) = undefined;\n"
        "    if (rosenbrock(&x, &value, &gradient, &work) != 0) return 2;\n"
        "    return if (value == 0.0 and gradient[3] == 0.0) 0 else 1;\n}\n"
    )
    zig = [sys.executable, "-m", "ziglang"]
    build = [*zig, "build-exe", "main.zig", "rosenbrock.o", "-lc", "-femit-bin=main"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    subprocess.run([str(tmp_path / "main")], check=True, timeout=60)


# -- callbacks --
def test_scipy_integrates_an_exported_function() -> None:
    """``quad`` takes the low-level callable, ``solve_ivp`` the function itself."""
    integrate = pytest.importorskip("scipy.integrate", reason="SciPy is the oracle")
    bell = export.compile(lambda x, a: afx.exp(-a * x * x), np.float64(0), np.float64(1), name="bell")
    value, _ = integrate.quad(bell.low_level_callable(), -10, 10, args=(2.0,))
    assert value == pytest.approx(np.sqrt(np.pi / 2), rel=1e-12)
    decay = export.compile(lambda t, y: -y * afx.cos(t), np.float64(0), np.ones(2), name="decay")
    found = integrate.solve_ivp(decay, (0.0, 2.0), np.ones(2), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.y[:, -1], np.exp(-np.sin(2.0)), rtol=1e-8)


def test_ctypes_and_numba_find_the_function() -> None:
    """The callback takes one pointer a slot and one to its memory; numba is told its signature."""
    double = export.compile(lambda x: 2.0 * x, np.zeros(3), name="double_")
    x, out, work = np.arange(3.0), np.zeros(3), np.zeros(double.work_bytes + 64, np.uint8)
    assert double.callback()(x.ctypes.data, out.ctypes.data, work.ctypes.data) == 0
    assert out.tolist() == [0.0, 2.0, 4.0]
    assert double.numba_signature == "int32(CPointer(float64), CPointer(float64), voidptr)"
    assert ctypes.cast(double.callback(), ctypes.c_void_p).value  # a function of ctypes


def test_complex_numbers_and_halves_are_their_parts_and_bits() -> None:
    """In C a complex number is two floats, half precision its bits; rounding and Bessel functions have forms too."""
    z, half = np.array([1 + 2j, -0.5j, 3.0]), np.array([1.5, -2.25, 1e-7], np.float16)
    compiled = export.compile(
        lambda z, h: (afx.exp(z) / z, h * h, afx.round(z.real), special.i0(z.real)), z, half, name="f"
    )
    assert "const double *z, const uint16_t *h" in compiled.header
    assert "complex128[3], real and imaginary parts in turn" in compiled.header
    quotient, square, rounded, bessel = compiled(z, half)
    np.testing.assert_allclose(quotient, np.exp(z) / z, rtol=1e-14)
    np.testing.assert_array_equal(square, half * half)
    np.testing.assert_array_equal(rounded, [1.0, 0.0, 3.0])
    np.testing.assert_allclose(bessel, [1.2660658777520084, 1.0, 4.880792585865024], rtol=1e-14)


def test_a_function_of_several_numbers_is_no_callback_of_scipy() -> None:
    """What SciPy's callbacks cannot pass is refused with the slots."""
    with pytest.raises(ExportError, match=r"float32\[3\]"):
        export.compile(lambda x: x, afx.ones(3), name="same").low_level_callable()


# -- what cannot leave, and what is given wrongly --
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "an integral": (lambda x: special.expi(x), (np.ones(3),), "expi"),
    "an eigenvalue": (lambda x: afx.linalg.eigvals(x), (np.eye(3),), "eig"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_leave_is_refused_by_name(what: str) -> None:
    """The operation is named before anything is written."""
    fn, args, pattern = REFUSED[what]
    with pytest.raises(ExportError, match=pattern):
        export.compile(fn, *args, name="refused")


def call_of(name: str) -> Callable[[Any], Any] | None:
    """Return a function of `special` as one of its last argument, for the first arguments that it takes."""
    fn: Any = getattr(special, name)
    for first in ((), (9.5,), (1,), (2.0, 3.0), (1.0, 2.0, 3.0)):
        with contextlib.suppress(TypeError, ValueError, AfxError):
            fn(*first, np.full(2, 0.3))
            return lambda x, first=first: fn(*first, x)
    return None


def test_the_guide_lists_what_cannot_leave() -> None:
    """All functions of `special` of some numbers, and of `linalg` of a matrix, that are refused; none that has a form."""
    guide = (Path(__file__).parents[2] / "examples" / "guides" / "export.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(\w+)`", guide.partition("## What cannot leave")[2]))
    listed = names & set(special.__all__)
    calls = {name: call_of(name) for name in special.__all__ if callable(getattr(special, name))}
    refused = {name for name, call in calls.items() if call and not has_c_form(call, np.full(2, 0.3))}
    assert refused ^ listed == {"i0"}  # which the list has for a bound
    matrix, of_one = np.array([[4.0, 1.0, 0.3], [1.0, 5.0, 0.2], [0.3, 0.2, 6.0]]), dict[str, Callable[[Any], Any]]()
    for name in afx.linalg.__all__:
        with contextlib.suppress(TypeError, AfxError):
            getattr(afx.linalg, name)(matrix)
            of_one[name] = getattr(afx.linalg, name)
    assert len(of_one) > 20
    assert {name for name, fn in of_one.items() if not has_c_form(fn, matrix)} == (names & set(of_one)) - {"inv"}


def test_the_refusal_names_the_users_line() -> None:
    """The line of this file where the operation stands is in the message."""
    with pytest.raises(ExportError, match=r"test_compile\.py:\d+"):
        export.compile(lambda x: special.expi(x) + 1.0, np.ones(3), name="refused")


def test_faults_are_errors() -> None:
    """An index out of range and a matrix without factors return codes, which Python raises."""
    with pytest.raises(IndexRangeError, match="indices"):
        exported("indices")(CASES["indices"].args[0], np.array([3, 9, 0]))
    with pytest.raises(np.linalg.LinAlgError, match="determinant"):
        exported("determinant")(np.zeros((4, 4)))


@pytest.mark.parametrize("n", [2, 3, 5, 8, 17])
def test_singular_systems_have_the_status_of_matrices(n: int) -> None:
    """Substitution that is written out, as small systems are, tells a singular matrix as the library's loops do: 2."""
    x = np.eye(n)
    for fn in (lambda a: afx.linalg.solve(a, x[0]), lambda a: afx.linalg.solve_triangular(a, x), afx.linalg.inv):
        compiled = export.compile(fn, x, name="singular")
        np.testing.assert_array_equal(compiled(2 * x), fn(2 * x))
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            compiled(np.zeros((n, n)))


@pytest.mark.parametrize(
    "forged",
    [
        {"name": "f(void); int main"},
        {"name": "double"},
        {"inputs": [["x", "while", [3], "<f8"]]},
        {"inputs": [["x", "work", [3], "<f8"]]},
        {"inputs": [["x", "x */ int y", [3], "<f8"]]},
        {"inputs": [["x", "result", [3], "<f8"]], "outputs": [["y", "result", [3], "<f8"]]},
    ],
)
def test_forged_notes_write_no_header(tmp_path: Path, forged: dict[str, Any]) -> None:
    """Names that are none in C, reserved, or there twice never come into the text of a header."""
    _, path = export.compile(lambda x: x + 1, np.ones(3), name="plain").save(tmp_path)
    note = read_note(path.read_bytes(), "the file")
    path.write_bytes(write_note(note | forged))
    with pytest.raises(FileFormatError, match=r"no name of C|two slots of one name"):
        export.load(path)


def test_wrong_arguments_are_named() -> None:
    """Shape, dtype and structure are compared with the slots."""
    with pytest.raises(ShapeError, match=r"x: float64\[7\]"):
        exported("polynomial")(np.ones(8))
    with pytest.raises(ArgumentError, match="dtype"):
        exported("polynomial")(np.ones(7, complex))
    with pytest.raises(ArgumentError, match="structure"):
        exported("polynomial")(np.ones(7), 1.0)
    with pytest.raises(ArgumentError, match="cortex-m7"):
        export.compile(afx.sin, 1.0, name="f", target="toaster")
    with pytest.raises(ArgumentError, match="name="):
        export.compile(afx.sin, 1.0, name="no name")
    with pytest.raises(ArgumentError, match="a function of the C library: got 'erf'"):
        export.compile(afx.special.erf, 1.0)
    with pytest.raises(ArgumentError, match="form"):
        exported("polynomial").save("nowhere", "tape")


TAKEN = (
    "double",
    "int",
    "main",
    "while",
    "printf",
    "restrict",
    "errno",
    "class",
    "size_t",
    "INT8_MAX",
    "NULL",
    "__x",
    "_Bool",
    "y0",
)


@pytest.mark.parametrize("name", TAKEN)
def test_names_of_c_are_refused(name: str) -> None:
    """No function is called as a word, a macro, a type or a function of C, in whatever form, given or Python's own."""

    def fn(x: Any) -> Any:
        return x

    fn.__name__ = name
    for target, given in (("host", name), ("host", None), ("wasm32", name)):
        with pytest.raises(ArgumentError, match=f"name is .*: got '{name}'; give another name="):
            export.compile(fn, np.ones(3), name=given, target=target)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler is installed")
def test_arguments_called_as_c_have_other_names(tmp_path: Path) -> None:
    """Leaves that are called as words and macros are renamed, so that C and C++ read the header behind any other."""
    made = export.compile(lambda tree: [x + 1 for x in tree.values()], {n: np.ones(2) for n in TAKEN}, name="every")
    assert not {slot.name for slot in made.inputs} & {"double", "class", "errno", "NULL", "INT8_MAX", "size_t"}
    made.save(tmp_path)
    heads = "".join(
        [f"#include <{n}.h>\n" for n in ("stdio", "stdlib", "errno", "complex", "math", "assert", "iso646")]
    )
    for language in ("c", "c++"):
        source = tmp_path / f"user.{language}"
        source.write_text(f'{heads}#include "every.h"\n')
        command = ["gcc", "-x", language, "-Werror", "-Wall", "-fsyntax-only", "-I", str(tmp_path), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_code_of_another_machine_does_not_run_here() -> None:
    """Calling it names the triple."""
    with pytest.raises(ExportError, match="aarch64"):
        exported("polynomial", "linux-aarch64")(np.ones(7))


# -- files --
@pytest.mark.parametrize("form", ["object", "static", "shared"])
def test_a_saved_file_knows_its_function(tmp_path: Path, form: str) -> None:
    """Each form is read again with its slots; an object file of this machine can be called."""
    if form != "object" and shutil.which("gcc") is None:
        pytest.skip("no C compiler is installed")
    e = exported("kalman")
    again = export.load(e.save(tmp_path, form)[1])
    assert (again.name, again.inputs, again.outputs, again.header) == (e.name, e.inputs, e.outputs, e.header)
    assert again.graph == e.graph
    if form == "object":
        found = again(*leaves_of(CASES["kalman"].args, e))
        assert_close("kalman", [np.asarray(x) for x in found], 1e-12)


def test_a_file_without_a_note_is_refused(tmp_path: Path) -> None:
    """Also one whose note is damaged at any place."""
    path = tmp_path / "other.o"
    path.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(FileFormatError, match="no note"):
        export.load(path)
    code = bytearray(exported("polynomial").object)
    start = code.find(b"afx.export\x00\x01")
    for at in range(start, start + 200, 7):
        damaged = bytearray(code)
        damaged[at] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError):
            export.load(path)


@pytest.mark.parametrize("path", sorted(FILES.glob("*.o")), ids=lambda path: path.stem)
def test_files_of_each_release_load(path: Path) -> None:
    """A file that any release made is read by this one."""
    found = export.load(path)
    assert found.name == "polynomial"
    assert [str(slot) for slot in (*found.inputs, *found.outputs)] == ["x: float64[7]", "result: float64[7]"]


def test_the_command_line_writes_files(tmp_path: Path) -> None:
    """``python -m afx.export`` compiles a function of a module, or its gradient."""
    (tmp_path / "model.py").write_text("import afx\n\ndef energy(x):\n    return afx.sum(x**2)\n")
    command = [sys.executable, "-m", "afx.export", "model:energy", "float64[3]", "--grad", "--output", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert "energy.h" in done.stdout
    value, gradient = export.load(tmp_path / "out" / "energy.o")(np.arange(3.0))
    assert (float(value), np.asarray(gradient).tolist()) == (5.0, [0.0, 2.0, 4.0])
    wrong = subprocess.run(
        [*command[:4], "floaty"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert wrong.returncode == 1
    assert "float64[8,3]" in wrong.stderr


def test_the_table_has_thirty_cases() -> None:
    """As many as the promise says, ten with gradients through loops or batches among them."""
    assert len(CASES) >= 30
    assert all(isinstance(case, Case) for case in CASES.values())


def test_portable_bits_on_arm_of_32_bits_are_the_scalar_units() -> None:
    """Its vectors take denormal numbers for zeros: portable code there uses none."""
    x = np.ones(64, np.float32)
    bits: list[Any] = ["target", "portable"]
    features = [
        export.compile(lambda x: x * x + 1, x, name="f", target="linux-armhf", bits=kind).machine.features
        for kind in bits
    ]
    assert features == ["+vfp3,+neon", "+vfp3,-neon"]
