"""Filters: recursive ones as scans, forward and in both directions, their responses, and polynomials through windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from afx.control.scan import scan
from afx.core import Array, ArrayLike, floating_dtype, integer, is_known, is_traced, normalize_axis
from afx.core.dtypes import float64, get_default_dtype, promote, real_dtype
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, ShapeError
from afx.ndimage.correlation import convolve1d
from afx.ops import concat, cumsum, exp, flip, matmul, mean, moveaxis, pad, polyval, stack, sum as sum_
from afx.ops._kinds.matrix import choice
from afx.ops.creation.creation import Nested, as_array, asarray, promote_operands, zeros
from afx.ops.fft import fft, ifft
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.nn.convolution import conv
from afx.transforms.compile.jit import jit

__all__ = [
    "detrend",
    "filtfilt",
    "freqz",
    "hilbert",
    "lfilter",
    "lfilter_zi",
    "savgol_coeffs",
    "savgol_filter",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
]

Padtype: TypeAlias = Literal["odd", "even", "constant"] | None


# --- Recursive filters


def _coefficients(b: Nested, a: Nested, who: str) -> tuple[Array, Array]:
    """Return the coefficients of a filter as vectors."""
    num, den = promote_operands(b, a)
    num, den = (reshape(v, (-1,)) if v.ndim == 0 else v for v in (num, den))
    if num.ndim != 1 or den.ndim != 1 or not num.size or not den.size:
        raise ShapeError(f"{who}: coefficients are two vectors: got {num.aval} and {den.aval}; reshape them")
    return num, den


def _normalize(b: Nested, a: Nested, who: str) -> tuple[Array, Array]:
    """Return the coefficients of a filter, the numerator's of the longer one's length, the first of the denominator 1."""
    num, den = _coefficients(b, a, who)
    if not is_traced(den) and not np.asarray(den)[0]:
        raise ArgumentError(f"{who}: the denominator begins with a number that is not 0: got a={a!r}; cut it off")
    count = max(num.size, den.size)
    dtype = floating_dtype(num.dtype, den.dtype)
    num, den = astype(num, dtype), astype(den, dtype)
    return pad(num, (0, count - num.size)) / den[0], (
        pad(den / den[0], (0, count - den.size)) if den.size > 1 else den / den[0]
    )


def _recur(b: Array, a: Array, x: Array, z: Array) -> tuple[Array, Array]:
    """Return the output and the last state of a filter, transposed direct form II, along the first axis."""
    ahead, back = (reshape(c[1:], (-1,) + (1,) * (x.ndim - 1)) for c in (b, a))
    gap = zeros((1, *z.shape[1:]), z.dtype)

    def step(state: Array, v: Array) -> tuple[Array, Array]:
        y = b[0] * v + state[0]
        return concat([state[1:], gap]) + ahead * v - back * y, y

    last, y = scan(step, z, x)
    return y, last


_recur_compiled = jit(_recur)


def _convolve_rows(b: Array, x: Array, z: Array) -> tuple[Array, Array]:
    """Return the output and the last state of a filter without recursion, along the first axis."""
    if x.dtype.kind == "c":
        b = astype(b, x.dtype)
    rows = reshape(moveaxis(x, 0, -1), (-1, x.shape[0], 1))
    order = b.size - 1
    y = conv(rows, flip(b)[:, None, None], padding=order)[..., 0]
    full = moveaxis(reshape(y, (*x.shape[1:], -1)), -1, 0)
    full = concat([full[:order] + z[: full.shape[0]], full[order:]])
    return full[: x.shape[0]], full[x.shape[0] :]


@overload
def lfilter(b: Nested, a: Nested, x: Nested, axis: int = -1, zi: None = None) -> Array: ...
@overload
def lfilter(b: Nested, a: Nested, x: Nested, axis: int, zi: Nested) -> tuple[Array, Array]: ...
@overload
def lfilter(b: Nested, a: Nested, x: Nested, axis: int = -1, *, zi: Nested) -> tuple[Array, Array]: ...
def lfilter(b: Nested, a: Nested, x: Nested, axis: int = -1, zi: Nested | None = None) -> Array | tuple[Array, Array]:
    """Return a signal filtered by a rational transfer function: ``a[0] y[n] = Σⱼ b[j] x[n - j] - Σⱼ a[j] y[n - j]``.

    A scan that compiles, differentiable by the coefficients, the signal and the state.

    Args:
        b: float[m], the numerator.
        a: float[k], the denominator.
        x: any shape of one axis or more.
        axis: the axis of the samples.
        zi: the state before the first one: of x's shape but max(m, k) - 1 long along the axis, or what broadcasts.

    Returns:
        The signal, or ``(signal, state after the last sample)`` where ``zi`` is given.

    Raises:
        ArgumentError: the denominator begins with 0.
        ShapeError: coefficients that are no vectors, or a state of another shape.

    >>> lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
    Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    b, a, given = promote_operands(b, a, x)
    num, den = _normalize(b, a, "lfilter")
    y, last = _filter(num, den, given, axis, zi, "lfilter")
    return y if zi is None else (y, last)


def _filter(b: Array, a: Array, x: Array, axis: int, zi: Any, who: str) -> tuple[Array, Array]:
    """Filter along an axis, and return the state behind the last sample as well: by convolution where nothing recurs.

    Raises:
        ShapeError: the state does not fit.
    """
    place = normalize_axis(axis, x.ndim, who)
    state = None if zi is None else promote_operands(zi, x)[0]
    known = [b.dtype, a.dtype, x.dtype, *([] if state is None else [state.dtype])]
    dtype = promote(tuple(known), (False,) * len(known), True)
    rows, order = moveaxis(astype(x, dtype), place, 0), b.size - 1
    shape = (order, *rows.shape[1:])
    if state is None:
        z = zeros(shape, dtype)
    else:
        if state.ndim != x.ndim or state.shape[place] != order:
            raise ShapeError(
                f"{who}: a state has the signal's axes and {order} elements along axis {axis}: got {state.aval} for "
                f"{x.aval}; see lfilter_zi"
            )
        z = broadcast_to(moveaxis(astype(state, dtype), place, 0), shape)
    if not order or not rows.size:
        y, last = rows * b[0], z
    elif a.size == 1:
        y, last = _convolve_rows(astype(b, dtype), rows, z)
    else:
        y, last = _recur_compiled(astype(b, dtype), astype(a, dtype), rows, z)
    return moveaxis(y, 0, place), moveaxis(last, 0, place)


def lfilter_zi(b: Nested, a: Nested) -> Array:
    """Return the state of `lfilter` in which a signal of ones stays as it is but for the filter's gain.

    >>> lfilter_zi([1.0], [1.0, -0.5])
    Array([1.], dtype=float32)
    """
    num, den = _normalize(b, a, "lfilter_zi")
    den = pad(den, (0, num.size - den.size))
    changes = num[1:] - den[1:] * num[0]
    first = sum_(changes) / sum_(den)
    return cumsum(den)[:-1] * first - concat([zeros(1, changes.dtype), cumsum(changes)[:-1]])[: changes.size]


def _sections(sos: Nested, who: str) -> Array:
    s = as_array(sos)
    if s.ndim != 2 or s.shape[1] != 6 or not s.shape[0]:
        raise ShapeError(f"{who}: sections are float[n, 6], numerators beside denominators: got {s.aval}; reshape them")
    return s


@overload
def sosfilt(sos: Nested, x: Nested, axis: int = -1, zi: None = None) -> Array: ...
@overload
def sosfilt(sos: Nested, x: Nested, axis: int, zi: Nested) -> tuple[Array, Array]: ...
@overload
def sosfilt(sos: Nested, x: Nested, axis: int = -1, *, zi: Nested) -> tuple[Array, Array]: ...
def sosfilt(sos: Nested, x: Nested, axis: int = -1, zi: Nested | None = None) -> Array | tuple[Array, Array]:
    """Return a signal filtered by sections of second order, one after the other; see `lfilter`.

    Args:
        sos: float[sections, 6], three coefficients of the numerator and three of the denominator each.
        x: any shape of one axis or more.
        axis: the axis of the samples.
        zi: the states before the first sample: ``float[sections, ...]``, 2 long along the axis.

    Returns:
        The signal, or ``(signal, states after the last sample)`` where ``zi`` is given.

    Raises:
        ShapeError: sections or states of another shape.

    >>> sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0, 0.0])
    Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    given, y = promote_operands(sos, x)
    sections = _sections(given, "sosfilt")
    states = None if zi is None else promote_operands(zi, y)[0]
    if states is not None and (states.ndim != y.ndim + 1 or states.shape[0] != sections.shape[0]):
        raise ShapeError(
            f"sosfilt: there is a state for each section: got {states.aval} for {sections.aval}; see sosfilt_zi"
        )
    ends: list[Array] = []
    for k in range(sections.shape[0]):
        num, den = _normalize(sections[k, :3], sections[k, 3:], "sosfilt")
        y, last = _filter(num, den, y, axis, None if states is None else states[k], "sosfilt")
        ends.append(last)
    return y if zi is None else (y, stack(ends))


def sosfilt_zi(sos: Nested) -> Array:
    """Return the states of `sosfilt` in which a signal of ones stays as it is but for the filter's gain.

    >>> sosfilt_zi([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
    Array([[1., 0.]], dtype=float32)
    """
    sections = _sections(sos, "sosfilt_zi")
    gain: Any = 1.0
    states: list[Array] = []
    for k in range(sections.shape[0]):
        b, a = sections[k, :3], sections[k, 3:]
        states.append(gain * lfilter_zi(b, a))
        gain = gain * sum_(b) / sum_(a)
    return stack(states)


EXTENSIONS: dict[Any, dict[str, Any]] = {  # how signals go on, in the words of `afx.pad`
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
}


def _beside(x: Array, coefficients: Array) -> Array:
    """Return a signal in the floating dtype that it has beside coefficients, so that whole numbers go on as they would."""
    return astype(x, floating_dtype(x.dtype, coefficients.dtype))


def _extend(x: Array, padtype: Padtype, padlen: Any, place: int, taps: int, who: str) -> tuple[Array, int]:
    """Return a signal that goes on at both ends, and by how much."""
    choice(who, "padtype", padtype, (*EXTENSIONS, None))
    edge = 0 if padtype is None else 3 * taps if padlen is None else integer(padlen, who, "padlen")
    if edge < 0 or x.shape[place] <= edge:
        raise ArgumentError(
            f"{who}: a signal is longer than its padding: got {x.aval} and padlen={edge}; give a smaller one"
        )
    if not edge:
        return x, 0
    widths = [(edge, edge) if a == place else (0, 0) for a in range(x.ndim)]
    return pad(x, widths, **EXTENSIONS[padtype]), edge


def _run_both_ways(x: Array, edge: int, place: int, run: Callable[[Array, Array], Array]) -> Array:
    """Return a signal filtered forward and backward, each time from the state of its first sample."""

    def once(v: Array) -> Array:
        return flip(run(v, v[(*(slice(None),) * place, slice(0, 1))]), place)

    z = once(once(x))
    return z[(*(slice(None),) * place, slice(edge, z.shape[place] - edge))]


def filtfilt(
    b: Nested,
    a: Nested,
    x: Nested,
    axis: int = -1,
    padtype: Padtype = "odd",
    padlen: int | None = None,
    method: Literal["pad"] = "pad",
) -> Array:
    """Return a signal filtered forward and backward, so that nothing is delayed.

    Args:
        b: float[m], the numerator.
        a: float[k], the denominator.
        x: any shape of one axis or more.
        axis: the axis of the samples.
        padtype: how the signal goes on at its ends: turned about its end, mirrored, constant, or not.
        padlen: so many samples; three times as many as coefficients unless given.
        method: ``pad``; Gustafsson's is not there.

    Raises:
        ArgumentError: another method or padtype, or a signal that is not longer than the padding.

    >>> filtfilt([0.5], [1.0, -0.5], np.ones(8)).round(4)
    Array([1., 1., 1., 1., 1., 1., 1., 1.], dtype=float64)
    """
    who = "filtfilt"
    if method != "pad":
        raise ArgumentError(
            f"{who}: method {method!r} is not there: use method='pad', or scipy.signal.filtfilt without derivatives"
        )
    b, a, given = promote_operands(b, a, x)
    num, den = _normalize(b, a, who)
    given = _beside(given, num)
    place = normalize_axis(axis, given.ndim, who)
    wide, edge = _extend(given, padtype, padlen, place, num.size, who)
    state = reshape(lfilter_zi(num, den), (-1,) + (1,) * (given.ndim - place - 1)) if num.size > 1 else None
    if state is None:
        return given * num[0] ** 2
    return _run_both_ways(wide, edge, place, lambda v, first: _filter(num, den, v, place, state * first, who)[0])


def sosfiltfilt(sos: Nested, x: Nested, axis: int = -1, padtype: Padtype = "odd", padlen: int | None = None) -> Array:
    """Return a signal filtered forward and backward by sections of second order; see `filtfilt`.

    Raises:
        ConcreteValueError: the sections are not known, and the padding is not given.

    >>> sosfiltfilt([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]], np.ones(8)).round(4)
    Array([1., 1., 1., 1., 1., 1., 1., 1.], dtype=float64)
    """
    who = "sosfiltfilt"
    given, x = promote_operands(sos, x)
    sections = _sections(given, who)
    given = _beside(x, sections)
    place = normalize_axis(axis, given.ndim, who)
    count = 2 * sections.shape[0] + 1
    if padlen is None and padtype is not None:  # zeros at the ends of both make a section shorter
        ends = sections[:, 2::3] == 0
        if not is_known(ends):
            raise ConcreteValueError(
                f"{who}: the padding depends on zeros in {sections.aval}: got them traced; give padlen="
            )
        count -= int(ends.concrete(who).sum(axis=0).min())
    wide, edge = _extend(given, padtype, padlen, place, count, who)
    states = sosfilt_zi(sections)
    states = reshape(states, (states.shape[0], *(1,) * place, 2, *(1,) * (given.ndim - place - 1)))
    return _run_both_ways(wide, edge, place, lambda v, first: sosfilt(sections, v, place, states * first)[0])


def freqz(
    b: Nested,
    a: Nested = 1.0,
    worN: int | Nested = 512,
    whole: bool = False,
    *,
    fs: float = 2 * math.pi,
    include_nyquist: bool = False,
) -> tuple[Array, Array]:
    """Return frequencies and the response of a filter to them.

    Args:
        b: float[m], the numerator.
        a: float[k], the denominator.
        worN: how many frequencies, or which.
        whole: whether they go once around the unit circle and not half.
        fs: the rate of the samples; frequencies are in its unit.
        include_nyquist: whether half of it is the last of them.

    Raises:
        ShapeError: coefficients that are no vectors.

    >>> freqz([1.0, 1.0], worN=2)[1].round(3)
    Array([2.+0.j, 1.-1.j], dtype=complex64)
    """
    num, den = _coefficients(b, a, "freqz")
    dtype = floating_dtype(num.dtype, den.dtype)
    if isinstance(worN, int):
        w = asarray(
            np.linspace(0, 2 * math.pi if whole else math.pi, worN, endpoint=include_nyquist and not whole), float64
        )
    else:
        w = asarray(worN, float64) * (2 * math.pi / fs)
    turn = exp(-1j * w)
    response = polyval(flip(num), turn) / polyval(flip(den), turn)
    return astype(w * (fs / (2 * math.pi)), real_dtype(dtype)), astype(response, np.result_type(dtype, np.complex64))


def hilbert(x: Nested, N: int | None = None, axis: int = -1) -> Array:
    """Return the analytic signal, whose real part is x and whose frequencies are not negative.

    Args:
        x: real, any shape of one axis or more.
        N: the number of points; x is cut to it, or padded with zeros at its end.
        axis: the axis of the samples.

    Raises:
        DtypeError: x is complex.

    >>> hilbert(np.array([1.0, 0.0, -1.0, 0.0])).round(3)
    Array([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j], dtype=complex128)
    """
    given = as_array(x)
    if given.dtype.kind == "c":
        raise DtypeError(f"hilbert: the signal is real: got {given.aval}; take a part")
    place = normalize_axis(axis, given.ndim, "hilbert")
    if not given.shape[place]:
        raise ShapeError(f"hilbert: a signal has samples: got {given.aval}; give some")
    z = moveaxis(fft(given, N, place), place, -1)
    n = z.shape[-1]
    shares = np.zeros(n, real_dtype(z.dtype))
    shares[: (n + 1) // 2] = 2
    shares[0] = 1
    if n % 2 == 0:
        shares[n // 2] = 1
    return moveaxis(ifft(z * shares), -1, place)


def detrend(
    data: Nested, axis: int = -1, type: Literal["linear", "constant"] = "linear", bp: int | Sequence[int] = 0
) -> Array:
    """Return a signal without its mean or its straight line of least squares.

    Args:
        data: any shape of one axis or more.
        axis: the axis of the samples.
        type: ``linear`` or ``constant``.
        bp: where new lines begin.

    Raises:
        ArgumentError: another type, or places beyond the samples.

    >>> detrend([1.0, 2.0, 4.0, 5.0]).round(3)
    Array([ 0.1, -0.3,  0.3, -0.1], dtype=float32)
    """
    x = as_array(data)
    place = normalize_axis(axis, x.ndim, "detrend")
    choice("detrend", "type", type, ("linear", "constant"))
    x = astype(x, floating_dtype(x.dtype))
    if type == "constant":
        return x - mean(x, axis=place, keepdims=True)
    rows = moveaxis(x, place, -1)
    ends = sorted({0, rows.shape[-1], *(bp if isinstance(bp, Sequence) else (bp,))})
    if ends[0] < 0 or ends[-1] > rows.shape[-1]:
        raise ArgumentError(f"detrend: lines begin at samples: got bp={bp} for {x.aval}; give others")
    parts = [_subtract_line(rows[..., i:j]) for i, j in itertools.pairwise(ends)]
    return moveaxis(concat(parts, -1) if parts else rows, -1, place)


def _subtract_line(x: Array) -> Array:
    t = np.arange(x.shape[-1]) - (x.shape[-1] - 1) / 2
    share = (t / max(float(t @ t), 1e-300)).astype(real_dtype(x.dtype))
    x = x - mean(x, axis=-1, keepdims=True)
    return x - sum_(x * share, axis=-1, keepdims=True) * t.astype(real_dtype(x.dtype))


# --- Polynomials through windows


def savgol_coeffs(
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: ArrayLike = 1.0,
    pos: float | None = None,
    use: Literal["conv", "dot"] = "conv",
) -> Array:
    """Return the weights of Savitzky and Golay: the value or a derivative of the polynomial of least squares.

    Args:
        window_length: how many samples the polynomial goes through.
        polyorder: its order, less than that.
        deriv: which derivative.
        delta: the distance of the samples.
        pos: at which of them, the middle one unless given.
        use: in the order for a convolution, or that of the samples.

    Raises:
        ArgumentError: an order that is too high, or a place beyond the window.

    >>> savgol_coeffs(5, 2).round(4)
    Array([-0.0857,  0.3429,  0.4857,  0.3429, -0.0857], dtype=float32)
    """
    n, order = _check_fit(window_length, polyorder, deriv, "savgol_coeffs")
    place = (n - 1) / 2 if pos is None else pos
    if not 0 <= place < n or use not in ("conv", "dot"):
        raise ArgumentError(
            f"savgol_coeffs: the place lies within the window, use is 'conv' or 'dot': got window_length={n}, pos={pos}, "
            f"use={use!r}; change them"
        )
    weights = _fit_weights(n, order, deriv, [place])[0]
    return asarray(weights[::-1] if use == "conv" else weights, get_default_dtype()) / as_array(delta) ** deriv


def _check_fit(window_length: Any, polyorder: Any, deriv: int, who: str) -> tuple[int, int]:
    """Return the length of a window and the order of its polynomial, which is less."""
    n, order = integer(window_length, who, "window_length"), integer(polyorder, who, "polyorder")
    if not 0 <= order < n or deriv < 0:
        raise ArgumentError(
            f"{who}: a polynomial's order is less than the window's length, and a derivative's is not negative: got "
            f"window_length={n}, polyorder={order}, deriv={deriv}; change them"
        )
    return n, order


def _fit_weights(n: int, order: int, deriv: int, places: Sequence[float]) -> Any:
    """Return float[places, n], what takes n samples to a derivative of the fitted polynomial at places."""
    middle = (n - 1) / 2
    powers = np.vander((np.arange(n) - middle) / max(middle, 1.0), order + 1, increasing=True)
    rows = np.zeros((len(places), order + 1))
    for k in range(deriv, order + 1):
        rows[:, k] = math.perm(k, deriv) * ((np.asarray(places) - middle) / max(middle, 1.0)) ** (k - deriv)
    return rows @ np.linalg.pinv(powers) / max(middle, 1.0) ** deriv


def savgol_filter(
    x: Nested,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: ArrayLike = 1.0,
    axis: int = -1,
    mode: Literal["interp", "mirror", "constant", "nearest", "wrap"] = "interp",
    cval: ArrayLike = 0.0,
) -> Array:
    """Return a signal smoothed by polynomials through windows, or its derivative.

    Args:
        x: any shape of one axis or more.
        window_length: how many samples a polynomial goes through.
        polyorder: its order.
        deriv: which derivative.
        delta: the distance of the samples.
        axis: the axis of the samples.
        mode: ``interp`` evaluates the first and last polynomials at the ends; others continue the signal.
        cval: what it continues with where ``mode`` is ``constant``.

    Raises:
        ArgumentError: an order that is too high, no such mode, or a window longer than the signal for ``interp``.

    >>> savgol_filter(np.array([1.0, 4.0, 9.0, 16.0, 25.0]), 3, 2, deriv=1).round(6)
    Array([ 2.,  4.,  6.,  8., 10.], dtype=float64)
    """
    who = "savgol_filter"
    given = as_array(x)
    place, (n, order) = normalize_axis(axis, given.ndim, who), _check_fit(window_length, polyorder, deriv, who)
    choice(who, "mode", mode, ("interp", "mirror", "constant", "nearest", "wrap"))
    dtype = floating_dtype(given.dtype)
    rows = moveaxis(astype(given, dtype), place, -1)
    middle = _fit_weights(n, order, deriv, [n // 2 if n % 2 else n / 2 - 0.5])[0]
    weights, scale = asarray(middle[::-1], real_dtype(dtype)), as_array(delta) ** deriv
    if mode != "interp":
        return moveaxis(convolve1d(rows, weights, -1, None, mode, cval) / scale, -1, place)
    if n > rows.shape[-1]:
        raise ArgumentError(
            f"{who}: a window is not longer than the signal: got {given.aval} and {n}; use another mode"
        )
    z = convolve1d(rows, weights, -1, None, "constant")
    half = n // 2
    ends = [range(half), range(n - half, n)]
    first, last = (asarray(_fit_weights(n, order, deriv, list(e)).T, real_dtype(dtype)) for e in ends)
    inner = z[..., half : z.shape[-1] - half]
    z = concat([matmul(rows[..., :n], first), inner, matmul(rows[..., rows.shape[-1] - n :], last)], -1)
    return moveaxis(z / scale, -1, place)
