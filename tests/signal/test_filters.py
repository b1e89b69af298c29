"""Recursive filters, responses and smoothing beside SciPy's."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.signal

import afx
from afx import signal
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, ShapeError
from tests.every import together
from tests.signal.test_convolution import assert_scipys, numbers

PAIRS: Any = [  # numerators and denominators
    ([0.5, 1.0, -0.3], [2.0, 0.3, 0.1]),
    ([0.5, 1.0, -0.3, 0.2], [2.0, 0.3]),
    ([0.7], [1.0, 0.5, 0.2]),
    ([0.5, 1.0, -0.3, 0.2, 0.1], [2.0]),
    ([0.7], [2.0]),
    ([1.0, 0.0], [1.0, 0.3j]),
]
SECTIONS: Any = [scipy.signal.butter(4, 0.3, output="sos"), scipy.signal.butter(3, 0.2, output="sos")]
PADTYPES: Any = ("odd", "even", "constant", None)


@together("pair", PAIRS)
@together("dtype", [float, complex])
def test_filters(pair: Any, dtype: Any) -> None:
    """Of all shapes and axes, from rest and from a state, also one that broadcasts."""
    b, a = map(np.asarray, pair)
    order = max(b.size, a.size) - 1
    for shape, axis in (((12,), -1), ((3, 12), 1), ((12, 3), 0), ((2,), 0), ((2, 9, 3), 1)):
        x, state = numbers(*shape, dtype=dtype), list(shape)
        assert_scipys("lfilter", b, a, x, axis=axis)
        state[axis] = order
        assert_scipys("lfilter", b, a, x, axis=axis, zi=numbers(*state))
    assert_scipys("lfilter", b, a, numbers(3, 12), zi=numbers(1, order))
    assert signal.lfilter(b, a, numbers(0)).shape == (0,)


@pytest.mark.parametrize("sos", SECTIONS)
@pytest.mark.parametrize("dtype", [float, complex])
def test_sections(sos: Any, dtype: Any) -> None:
    """One after the other, from rest and from states, and in both directions."""
    for shape, axis in (((50,), -1), ((3, 50), 1), ((50, 3), 0)):
        x, state = numbers(*shape, dtype=dtype), list(shape)
        assert_scipys("sosfilt", sos, x, axis=axis)
        state[axis] = 2
        assert_scipys("sosfilt", sos, x, axis=axis, zi=numbers(len(sos), *state))
        for padtype in PADTYPES:
            assert_scipys("sosfiltfilt", sos, x, axis=axis, padtype=padtype)


def test_padding_of_sections_is_that_of_their_values() -> None:
    """Zeros at their ends shorten it, under derivatives too; where they are not known it is asked for."""
    sos, x = SECTIONS[1], numbers(50)
    expected = scipy.signal.sosfiltfilt(sos, x)
    value, _ = afx.jvp(lambda s: signal.sosfiltfilt(s, x), (sos,), (sos,))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(afx.jit(lambda x: signal.sosfiltfilt(sos, x))(x), expected, rtol=1e-12)
    padded = afx.jit(lambda s: signal.sosfiltfilt(s, x, padlen=12))(sos)
    np.testing.assert_allclose(padded, scipy.signal.sosfiltfilt(sos, x, padlen=12), rtol=1e-12)
    with pytest.raises(ConcreteValueError, match=r"sosfiltfilt: the padding depends on zeros .*; give padlen="):
        afx.jit(lambda s: signal.sosfiltfilt(s, x))(sos)


def test_both_directions_and_states() -> None:
    """As the signal goes on at its ends, and the states of steps."""
    b, a = scipy.signal.butter(3, 0.3)
    for padtype, padlen in itertools.product(PADTYPES, (None, 4)):
        assert_scipys("filtfilt", b, a, numbers(40, 2), axis=0, padtype=padtype, padlen=padlen)
        assert_scipys("filtfilt", b, [1.0], numbers(2, 40, dtype=complex), padtype=padtype)
    assert_scipys("lfilter_zi", b, a)
    assert_scipys("lfilter_zi", np.array([1.0, 2.0]), np.array([1.0, 0.1, 0.2, 0.3]))
    for sos in SECTIONS:
        assert_scipys("sosfilt_zi", sos)


def test_responses() -> None:
    """At so many frequencies or at given ones."""
    for b, a in PAIRS:
        b, a = np.asarray(b), np.asarray(a)
        assert_scipys("freqz", b, a, 64)
        assert_scipys("freqz", b, a, 7, whole=True, fs=100.0)
        assert_scipys("freqz", b, a, 9, include_nyquist=True)
        if a.dtype == float:
            assert_scipys("freqz", b, a, np.array([0.1, 0.5, 2.0]))


def test_analytic_signals_and_trends() -> None:
    """Of even and odd lengths, and in pieces."""
    for n in (1, 5, 6):
        assert_scipys("hilbert", numbers(n, 3), axis=0)
        assert_scipys("hilbert", numbers(n, 3), 8, axis=0)
    for kind, dtype in itertools.product(("linear", "constant"), (float, complex)):
        assert_scipys("detrend", numbers(9, 4, dtype=dtype), type=kind)
        assert_scipys("detrend", numbers(9, 4, dtype=dtype), 0, kind, [3, 5])


@pytest.mark.parametrize("mode", ["interp", "mirror", "constant", "nearest", "wrap"])
def test_polynomials(mode: Any) -> None:
    """Odd and even windows, and derivatives, those beyond the order too."""
    for n, order, deriv in ((5, 2, 0), (5, 2, 1), (7, 4, 2), (4, 2, 0), (6, 3, 1), (5, 4, 3), (5, 2, 3)):
        assert_scipys("savgol_filter", numbers(3, 20), n, order, deriv, 0.5, mode=mode, atol=1e-11)
        assert_scipys("savgol_filter", numbers(20, 2), n, order, deriv, axis=0, mode=mode, atol=1e-11)
        with afx.default_dtype(np.float64):
            assert_scipys("savgol_coeffs", n, order, deriv, 0.5, atol=1e-12)
            assert_scipys("savgol_coeffs", n, order, deriv, pos=1, use="dot", atol=1e-12)


def test_precision() -> None:
    """Single precision stays, and rounds as itself."""
    x = numbers(200).astype(np.float32)
    b, a = (v.astype(np.float32) for v in scipy.signal.butter(2, 0.3))
    assert_scipys("lfilter", b, a, x, atol=1e-5)
    assert_scipys("sosfilt", SECTIONS[0].astype(np.float32), x, atol=1e-5)
    assert signal.savgol_filter(x, 5, 2).dtype == np.float32
    assert signal.hilbert(x).dtype == np.complex64


def test_derivatives_compiled_and_batched() -> None:
    """By coefficients, signals and states; `jit` and `vmap` give the same values."""
    x = afx.asarray(numbers(2, 16))
    b, a = afx.asarray(numbers(3)), afx.asarray([1.3, -0.4, 0.2], dtype=afx.float64)
    state = afx.asarray(numbers(2, 2))
    functions: Any = (
        lambda x, b, a, z: signal.lfilter(b, a, x, zi=z),
        lambda x, b, a, z: signal.lfilter(b, 1.0, x * z[0, 0]),
        lambda x, b, a, z: signal.filtfilt(b, a, x, padlen=4),
        lambda x, b, a, z: signal.sosfilt(afx.concat([b, a])[None], x),
        lambda x, b, a, z: signal.sosfiltfilt(afx.concat([b, a])[None], x, padlen=3),
        lambda x, b, a, z: signal.freqz(b, a, 5)[1],
        lambda x, b, a, z: signal.hilbert(x),
        lambda x, b, a, z: signal.detrend(x, bp=3),
        lambda x, b, a, z: signal.savgol_filter(x, 5, 2, 1, b[0]),
    )
    for fn in functions:
        afx.testing.check_grads(fn, (x, b, a, state), 1)
        compiled, eager = afx.jit(fn)(x, b, a, state), fn(x, b, a, state)
        for got, want in zip(afx.pytree.leaves(compiled), afx.pytree.leaves(eager), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    rows = afx.vmap(lambda x: signal.lfilter(b, a, x))(x)
    np.testing.assert_allclose(rows, signal.lfilter(b, a, x), rtol=1e-13)
    filters = afx.vmap(lambda b: signal.lfilter(b, a, x[0]))(afx.stack([b, 2 * b]))
    np.testing.assert_allclose(filters[1], 2 * filters[0], rtol=1e-13)


def test_refusals() -> None:
    """Errors name what is wrong."""
    x = numbers(12)
    with pytest.raises(ArgumentError, match="lfilter: the denominator begins with a number that is not 0"):
        signal.lfilter([1.0], [0.0, 1.0], x)
    with pytest.raises(ShapeError, match="hilbert: a signal has samples"):
        signal.hilbert(np.zeros((3, 0)))
    with pytest.raises(ShapeError, match="lfilter: coefficients are two vectors"):
        signal.lfilter(np.eye(2), [1.0], x)
    with pytest.raises(ShapeError, match="lfilter: a state has the signal's axes and 1 elements"):
        signal.lfilter([1.0], [1.0, 0.5], x, zi=np.zeros(2))
    with pytest.raises(ShapeError, match="sosfilt: sections are float"):
        signal.sosfilt(np.ones((2, 5)), x)
    with pytest.raises(ShapeError, match="sosfilt: there is a state for each section"):
        signal.sosfilt(SECTIONS[0], x, zi=np.zeros((1, 2)))
    with pytest.raises(ArgumentError, match="filtfilt: a signal is longer than its padding"):
        signal.filtfilt(np.ones(5), [1.0], x)
    with pytest.raises(ArgumentError, match="filtfilt: method 'gust' is not there"):
        signal.filtfilt([1.0], [1.0], x, method="gust")  # a wrong word on purpose
    with pytest.raises(ArgumentError, match="filtfilt: padtype is"):
        signal.filtfilt([1.0], [1.0, 0.5], x, padtype="zeros")  # a wrong word on purpose
    with pytest.raises(DtypeError, match="hilbert: the signal is real"):
        signal.hilbert(x + 1j)
    with pytest.raises(ArgumentError, match="detrend: type is"):
        signal.detrend(x, type="mean")  # a wrong word on purpose
    with pytest.raises(ArgumentError, match="detrend: lines begin at samples"):
        signal.detrend(x, bp=20)
    with pytest.raises(ArgumentError, match="savgol_coeffs: a polynomial's order is less"):
        signal.savgol_coeffs(3, 3)
    with pytest.raises(ArgumentError, match="savgol_filter: a window is not longer than the signal"):
        signal.savgol_filter(x[:4], 5, 2)
    with pytest.raises(IndexError, match="lfilter: axis"):
        signal.lfilter([1.0], [1.0], 3.0)
