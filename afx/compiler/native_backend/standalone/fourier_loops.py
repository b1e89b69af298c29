"""Fourier transforms: loops without NumPy, of any length and in float64, with the signature of the loops of ``np.fft``.

Lengths whose prime factors are small are transformed by Stockham's steps of radix 4, 2, 3, 5 and others (Van Loan 1992,
"Computational frameworks for the fast Fourier transform", sections 1.7 and 2.3), other ones as a convolution of a power of two
points (Bluestein 1970). Real and imaginary parts lie apart, so that steps compute several points at once. Roots of unity come
from an eighth of the circle: polynomials of fdlibm's ``k_sin.c`` and ``k_cos.c``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.pairs import plain
from afx.compiler.native_backend.llvm.op import FLOATS
from afx.compiler.native_backend.llvm.writer import Writer, as_pointers
from afx.compiler.native_backend.lowering.products import LARGEST_RADIX
from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.compiler.native_backend.standalone.matrix_loops import Elements, each, given, repeat, variable

SINE: Final = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COSINE: Final = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
SINE_60, COSINE_72, COSINE_144 = 0.8660254037844386, 0.30901699437494745, -0.8090169943749475
SINE_72, SINE_144 = 0.9510565162951535, 0.5877852522924731
QUARTER_PI = 0.7853981633974483


class Point:
    """A complex number as its two parts."""

    def __init__(self, re: Lanes, im: Lanes) -> None:
        self.re: Lanes = re
        self.im: Lanes = im

    def __add__(self, z: Point) -> Point:
        return Point(self.re + z.re, self.im + z.im)

    def __sub__(self, z: Point) -> Point:
        return Point(self.re - z.re, self.im - z.im)

    def scaled(self, factor: float | Lanes) -> Point:
        """Return a real multiple."""
        return Point(self.re * factor, self.im * factor)

    def turned(self) -> Point:
        """Return the product with ``-i``."""
        return Point(self.im, -self.re)

    def __mul__(self, z: Point) -> Point:
        return Point(self.re * z.re - self.im * z.im, self.re * z.im + self.im * z.re)


class Plane:
    """Complex numbers in memory: so many real parts, and behind them as many imaginary ones."""

    def __init__(self, w: Writer, pointer: str, n: Lanes) -> None:
        self.w = w
        self.pointer = pointer
        self.n = n
        self._parts = [Elements(w, "double", p, [8]) for p in (pointer, w.shifted(pointer, (n * 8).name))]

    def __getitem__(self, i: Lanes) -> Point:
        return Point(*[part[i,] for part in self._parts])

    def __setitem__(self, i: Lanes, z: Point) -> None:
        for part, x in zip(self._parts, (z.re, z.im), strict=True):
            part[i,] = x

    def behind(self, n: Lanes | None = None) -> Plane:
        """Return the numbers that lie behind these."""
        return Plane(self.w, self.w.shifted(self.pointer, (self.n * 16).name), n or self.n)


def _integer(w: Writer, name: str, x: Lanes | int, y: Lanes | int) -> Lanes:
    """Return ``sdiv`` or ``srem`` of positive integers."""
    first, second = [str(v.name if isinstance(v, Lanes) else v) for v in (x, y)]
    return Lanes(w, "i64", w.let(f"{name} i64 {first}, {second}"))


# --- Roots of unity


def _define_roots(w: Writer) -> None:
    """Write ``exp(-2πi k / n)``: of half of the circle, and its mirror image."""
    n = Lanes(w, "i64", "%n")
    roots = Plane(w, "%roots", n)
    for k in each(w, 0, _integer(w, "sdiv", n, 2) + 1):
        z = _root(w, k, n)
        roots[k] = z
        for _ in given(w, k.compare("sgt", 0)):
            roots[n - k] = Point(z.re, -z.im)
    w.line("ret void")


def _root(w: Writer, k: Lanes, n: Lanes) -> Point:
    """Return the k-th root: its angle is counted in eighths of the circle and turned into the first one."""
    eighths = k * 8
    is_left = eighths.compare("sgt", n * 2)
    eighths = is_left.choose(n * 4 - eighths, eighths)
    is_steep = eighths.compare("sgt", n)
    eighths = is_steep.choose(n * 2 - eighths, eighths)
    x = eighths.to_float() / n.to_float() * QUARTER_PI
    z = x * x
    sine = x + x * z * plain(z, SINE)
    half = z * 0.5
    first = x.constant(1.0) - half
    cosine = first + ((x.constant(1.0) - first - half) + z * z * plain(z, COSINE))
    re, im = is_steep.choose(sine, cosine), is_steep.choose(cosine, sine)
    return Point(is_left.choose(-re, re), -im)


# --- Steps of a radix


def _three(x: Sequence[Point]) -> list[Point]:
    both = x[1] + x[2]
    near, far = x[0] - both.scaled(0.5), (x[1] - x[2]).turned().scaled(SINE_60)
    return [x[0] + both, near + far, near - far]


def _four(x: Sequence[Point]) -> list[Point]:
    a, b, c, d = x[0] + x[2], x[0] - x[2], x[1] + x[3], (x[1] - x[3]).turned()
    return [a + c, b + d, a - c, b - d]


def _five(x: Sequence[Point]) -> list[Point]:
    a, b, c, d = x[1] + x[4], x[2] + x[3], (x[1] - x[4]).turned(), (x[2] - x[3]).turned()
    first, second = x[0] + a.scaled(COSINE_72) + b.scaled(COSINE_144), x[0] + a.scaled(COSINE_144) + b.scaled(COSINE_72)
    third, fourth = c.scaled(SINE_72) + d.scaled(SINE_144), c.scaled(SINE_144) - d.scaled(SINE_72)
    return [x[0] + a + b, first + third, second + fourth, second - fourth, first - third]


RADICES: Final[dict[int, Callable[[Sequence[Point]], list[Point]]]] = {
    4: _four,
    2: lambda x: [x[0] + x[1], x[0] - x[1]],
    3: _three,
    5: _five,
}
PARAMETERS = "ptr noalias %x, ptr noalias %y, ptr noalias %roots, i64 %n, i64 %m, i64 %s"


def _operands(w: Writer) -> tuple[Plane, Plane, Plane, Lanes, Lanes, Lanes]:
    n, m, s = [Lanes(w, "i64", name) for name in ("%n", "%m", "%s")]
    x, y, roots = [Plane(w, p, n) for p in ("%x", "%y", "%roots")]
    return x, y, roots, n, m, s


def _define_step(w: Writer, radix: int) -> None:
    """Make of each of m times s sets of points, which lie m times s apart, their transform, times roots."""
    x, y, roots, _, m, s = _operands(w)
    apart = m * s
    for p in each(w, 0, m):
        factors = [roots[p * s * k] for k in range(1, radix)]
        start, end = p * s, p * s * radix
        for q in each(w, 0, s):
            first, *others = RADICES[radix]([x[start + q + apart * k] for k in range(radix)])
            y[end + q] = first
            for k, (z, factor) in enumerate(zip(others, factors, strict=True)):
                y[end + q + s * (k + 1)] = z * factor
    w.line("ret void")


def _define_any_step(w: Writer) -> None:
    """Do the same for a radix that is known when it runs: each point is a sum over all."""
    x, y, roots, n, m, s = _operands(w)
    radix = Lanes(w, "i64", "%radix")
    apart, turn = m * s, _integer(w, "sdiv", n, radix)
    place, re, im = variable(w, "i64"), variable(w, "double"), variable(w, "double")
    for p in each(w, 0, m):
        for q in each(w, 0, s):
            for k in each(w, 0, radix):
                place[()], re[()], im[()] = k.constant(0), Lanes(w, "double", "0.0"), Lanes(w, "double", "0.0")
                for j in each(w, 0, radix):
                    z = Point(re[()], im[()]) + x[p * s + q + apart * j] * roots[place[()]]
                    re[()], im[()] = z.re, z.im
                    ahead = place[()] + turn * k
                    place[()] = ahead.compare("sge", n).choose(ahead - n, ahead)
                y[q + s * (radix * p + k)] = Point(re[()], im[()]) * roots[p * k * s]
    w.line("ret void")


def _define_transform(w: Writer) -> None:
    """Transform points by steps, between two pieces of memory; return where the result is."""
    n = Lanes(w, "i64", "%n")
    left, span = variable(w, "i64"), variable(w, "i64")
    now, then = w.local("ptr", 8), w.local("ptr", 8)
    left[()], span[()] = n, n.constant(1)
    w.line(f"store ptr %x, ptr {now}")
    w.line(f"store ptr %y, ptr {then}")

    def step(function: str, radix: Lanes | int, more: str = "") -> None:
        of, to = [w.let(f"load ptr, ptr {p}") for p in (now, then)]
        m = _integer(w, "sdiv", left[()], radix)
        w.line(f"call void {function}(ptr {of}, ptr {to}, ptr %roots, i64 %n, i64 {m.name}, i64 {span[()].name}{more})")
        left[()], span[()] = m, span[()] * radix
        w.line(f"store ptr {to}, ptr {now}")
        w.line(f"store ptr {of}, ptr {then}")

    for k in RADICES:
        w.define(f"fft.{k}", f"internal void @fft.step{k}({PARAMETERS}) noinline", partial(_define_step, w, k))
        for _ in repeat(w, partial(_is_multiple, w, left, k)):
            step(f"@fft.step{k}", k)
    _step_other_factors(w, n, left, lambda r: step("@fft.step", r, f", i64 {r.name}"))
    w.line(f"ret ptr {w.let(f'load ptr, ptr {now}')}")


def _step_other_factors(w: Writer, n: Lanes, left: Elements, step: Callable[[Lanes], None]) -> None:
    """Take a step for each prime factor from 7 on of what is left."""
    w.define("fft.any", f"internal void @fft.step({PARAMETERS}, i64 %radix) noinline", lambda: _define_any_step(w))
    radix = variable(w, "i64")
    radix[()] = n.constant(7)
    for _ in repeat(w, lambda: left[()].compare("sgt", 1)):
        r = radix[()]
        is_factor = _integer(w, "srem", left[()], r).compare("eq", 0)
        for _ in given(w, is_factor):
            step(r)
        radix[()] = is_factor.choose(r, r + 2)


def _is_multiple(w: Writer, number: Elements, of: int) -> Lanes:
    return _integer(w, "srem", number[()], of).compare("eq", 0)


def _is_smooth(w: Writer, n: Lanes) -> Lanes:
    """Return whether all prime factors are small."""
    left, factor = variable(w, "i64"), variable(w, "i64")
    left[()], factor[()] = n, n.constant(2)
    for _ in repeat(w, lambda: factor[()].compare("sle", LARGEST_RADIX)):
        k, m = factor[()], left[()]
        divides = _integer(w, "srem", m, k).compare("eq", 0)
        left[()], factor[()] = divides.choose(_integer(w, "sdiv", m, k), m), divides.choose(k, k + 1)
    return left[()].compare("eq", 1)


# --- Any length: ``x[j] w[j²/2]`` is folded with ``conj(w[k²/2])``


class _Memory(NamedTuple):
    """Memory behind n points: two planes of m points, their roots, the kernel, and 2 n roots of which chirps are made."""

    a: Plane
    b: Plane
    roots: Plane
    kernel: Plane
    chirp: Plane


def _define_any_length(w: Writer) -> None:
    """Transform points in place, as a cyclic convolution with a chirp of m points."""
    n, m = Lanes(w, "i64", "%n"), Lanes(w, "i64", "%m")
    x, a = Plane(w, "%x", n), Plane(w, "%memory", m)
    b = a.behind()
    roots = b.behind()
    kernel = roots.behind()
    memory = _Memory(a, b, roots, kernel, kernel.behind(n * 2))
    _call_roots(w, roots)
    _call_roots(w, memory.chirp)
    zero = Point(Lanes(w, "double", "0.0"), Lanes(w, "double", "0.0"))
    _write_kernel(w, memory, zero, n, m)
    for k in each(w, 0, m):
        a[k] = zero
    for k in each(w, 0, n):
        a[k] = x[k] * _chirp(w, memory, k, n)
    done = _convolve(w, memory, m)
    for k in each(w, 0, n):
        z = done[k]
        x[k] = (Point(z.im, z.re) * _chirp(w, memory, k, n)).scaled(Lanes(w, "double", "1.0") / m.to_float())
    w.line("ret void")


def _chirp(w: Writer, memory: _Memory, k: Lanes, n: Lanes) -> Point:
    return memory.chirp[_integer(w, "srem", k * k, n * 2)]


def _write_kernel(w: Writer, memory: _Memory, zero: Point, n: Lanes, m: Lanes) -> None:
    """Write the transform of the conjugate chirp, which is even."""
    a = memory.a
    for k in each(w, 0, m):
        a[k] = zero
    for k in each(w, 0, n):
        z = _chirp(w, memory, k, n)
        a[k] = Point(z.re, -z.im)
        for _ in given(w, k.compare("sgt", 0)):
            a[m - k] = Point(z.re, -z.im)
    done = Plane(w, _call_transform(w, a, memory.b, memory.roots), m)
    for k in each(w, 0, m):
        memory.kernel[k] = done[k]


def _convolve(w: Writer, memory: _Memory, m: Lanes) -> Plane:
    """Return where m times the convolution of the first plane with the kernel is, real and imaginary parts exchanged."""
    a, b, roots = memory.a, memory.b, memory.roots
    done = Plane(w, _call_transform(w, a, b, roots), m)
    for k in each(w, 0, m):
        z = done[k] * memory.kernel[k]
        done[k] = Point(z.im, z.re)  # so that the transform is the inverse one
    is_same = w.let(f"icmp eq ptr {done.pointer}, {a.pointer}")
    other = Plane(w, w.let(f"select i1 {is_same}, ptr {b.pointer}, ptr {a.pointer}"), m)
    return Plane(w, _call_transform(w, done, other, roots), m)


def _call_roots(w: Writer, roots: Plane) -> None:
    w.define("fft.roots", "internal void @fft.roots(ptr noalias %roots, i64 %n) noinline", lambda: _define_roots(w))
    w.line(f"call void @fft.roots(ptr {roots.pointer}, i64 {roots.n.name})")


def _call_transform(w: Writer, x: Plane, y: Plane, roots: Plane) -> str:
    head = "internal ptr @fft.transform(ptr %x, ptr %y, ptr %roots, i64 %n) noinline"
    w.define("fft.transform", head, lambda: _define_transform(w))
    args = as_pointers([x.pointer, y.pointer, roots.pointer])
    return w.let(f"call ptr @fft.transform({args}, i64 {x.n.name})")


# --- Loops with the signature of NumPy's


def emit_transform(w: Writer, loop: UfuncLoop) -> None:
    """Transform rows: of the inverse ones real and imaginary parts are exchanged before and after."""
    count, given_points, made_points = [_read(w, "%sizes", k) for k in range(3)]
    steps = [_read(w, "%steps", k) for k in range(5)]
    n = given_points if loop.ufunc.startswith("fft.rfft_") else made_points
    pointers = [w.let(f"load ptr, ptr {w.shifted('%args', 8 * k)}") for k in range(4)]
    x = Plane(w, pointers[3], n)
    y = x.behind()
    roots = y.behind()
    is_smooth = _is_smooth(w, n)
    for _ in given(w, is_smooth):
        _call_roots(w, roots)
    m = _prepare_any_length(w, n)
    for i in each(w, 0, count):
        row, scale, out = [w.shifted(p, (i * s).name) for p, s in zip(pointers[:3], steps[:3], strict=True)]
        _load(w, loop, Elements(w, FLOATS[loop.dtypes[1]], row, [steps[3], _size(loop)]), x, given_points)
        place = w.local("ptr", 8)
        w.line(f"store ptr {x.pointer}, ptr {place}")
        for _ in given(w, is_smooth):
            w.line(f"store ptr {_call_transform(w, x, y, roots)}, ptr {place}")
        for _ in given(w, is_smooth ^ 1):
            w.line(f"call void @fft.any.length(ptr {x.pointer}, ptr {y.pointer}, i64 {n.name}, i64 {m[()].name})")
        factor = Elements(w, FLOATS[loop.dtypes[1]], scale)[()].widen()
        result = Plane(w, w.let(f"load ptr, ptr {place}"), n)
        _store(w, loop, Elements(w, FLOATS[loop.dtypes[1]], out, [steps[4], _size(loop)]), result, made_points, factor)
    w.line("ret void")


def _prepare_any_length(w: Writer, n: Lanes) -> Elements:
    """Define the transform of any length; return where the length of its convolutions is, a power of two."""
    m = variable(w, "i64")
    m[()] = n.constant(1)
    for _ in repeat(w, lambda: m[()].compare("slt", n * 2 - 1)):
        m[()] = m[()] * 2
    head = "internal void @fft.any.length(ptr %x, ptr %memory, i64 %n, i64 %m) noinline"
    w.define("fft.any.length", head, lambda: _define_any_length(w))
    return m


def _read(w: Writer, of: str, k: int) -> Lanes:
    return Lanes(w, "i64", w.let(f"load i64, ptr {w.shifted(of, 8 * k)}"))


def _size(loop: UfuncLoop) -> int:
    return int(loop.dtypes[1][1:])


def _load(w: Writer, loop: UfuncLoop, row: Elements, x: Plane, count: Lanes) -> None:
    """Read a row: of half a spectrum the other half mirrors the conjugate, and what mirrors itself is real."""
    zero, one = count.constant(0), count.constant(1)
    kind, is_inverse, is_half = loop.dtypes[0][0], loop.ufunc.startswith("fft.i"), loop.ufunc == "fft.irfft"
    for k in each(w, 0, count):
        re = row[k, zero].widen()
        im = row[k, one].widen() if kind == "c" else re.constant(0.0)
        if is_half:
            is_own = k.compare("eq", 0) | (k * 2).compare("eq", x.n)
            im = is_own.choose(im.constant(0.0), im)
            for _ in given(w, is_own ^ 1):
                x[x.n - k] = Point(-im, re)
        x[k] = Point(im, re) if is_inverse else Point(re, im)


def _store(w: Writer, loop: UfuncLoop, row: Elements, z: Plane, count: Lanes, factor: Lanes) -> None:
    """Write a row."""
    kind, is_inverse, is_real = FLOATS[loop.dtypes[1]], loop.ufunc.startswith("fft.i"), loop.dtypes[2][0] == "f"
    for k in each(w, 0, count):
        point = z[k].scaled(factor)
        re, im = (point.im, point.re) if is_inverse else (point.re, point.im)
        if loop.ufunc.startswith("fft.rfft"):
            is_own = k.compare("eq", 0) | (k * 2).compare("eq", z.n)
            im = is_own.choose(im.constant(0.0), im)
        row[k, count.constant(0)] = re.narrow(kind)
        if not is_real:
            row[k, count.constant(1)] = im.narrow(kind)


TRANSFORMS: Final = frozenset({"fft.fft", "fft.ifft", "fft.rfft_n_even", "fft.rfft_n_odd", "fft.irfft"})
