"""Windows: weights that fall to both ends of a stretch of samples, by SciPy's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, Function, check_dtype, get_default_dtype, integer
from afx.errors import ArgumentError, ShapeError
from afx.ops import abs as abs_, astype, cos, exp, maximum, minimum, sinc, where
from afx.ops.creation.creation import Nested, promote_operands
from afx.ops.creation.windows import taper

__all__ = ["get_window"]

Window: TypeAlias = "str | float | tuple[object, ...] | Nested"

# Each is a function of the places -1 … 1, of how many there are, and of its parameters.

COSINES = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.50, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def _sum_cosines(u: Any, shares: Any) -> Any:
    terms = [a * cos(k * math.pi * u) for k, a in enumerate(shares)]
    return sum(terms[1:], terms[0])


def _parzen(u: Any, m: int) -> Any:
    v = np.abs(u) * (m - 1) / m
    return where(v <= 0.5, 1 - 6 * v**2 + 6 * v**3, 2 * (1 - v) ** 3)


def _tukey(u: Any, _m: int, alpha: Any = 0.5) -> Any:
    alpha = minimum(maximum(alpha, 0.0), 1.0)
    ends = 0.5 * (1 + cos(math.pi * (abs_(u) - (1 - alpha)) / where(alpha > 0, alpha, 1.0)))
    return where(abs_(u) <= 1 - alpha, 1.0, ends)


def _exponential(u: Any, m: int, center: Any = None, tau: Any = 1.0) -> Any:
    place = (u + 1) / 2 * (m - 1)
    return exp(-abs_(place - ((m - 1) / 2 if center is None else center)) / tau)


def _chebwin(_u: Any, m: int, at: float) -> Any:
    """Return the transform of Chebyshev's polynomial, whose side lobes are all ``at`` decibels below the main one."""
    order, k = m - 1, np.arange(m)
    x = math.cosh(math.acosh(10 ** (abs(at) / 20)) / order) * np.cos(math.pi * k / m)
    outside = np.sign(x) ** order * np.cosh(order * np.arccosh(np.maximum(np.abs(x), 1)))
    p: Any = np.where(np.abs(x) > 1, outside, np.cos(order * np.arccos(np.clip(x, -1, 1))))
    half = np.fft.fft(p * np.exp(1j * math.pi / m * k) if m % 2 == 0 else p).real[: m // 2 + 1]
    w = np.concatenate([half[:0:-1], half[1 - m % 2 :]])
    return w / w.max()


def _taylor(u: Any, m: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> Any:
    """Return Taylor's sum of cosines, of which ``nbar - 1`` side lobes are ``sll`` decibels below the main one."""
    a, k = math.acosh(10 ** (sll / 20)) / math.pi, np.arange(1.0, nbar)
    width = nbar**2 / (a**2 + (nbar - 0.5) ** 2)
    tops = np.prod(1 - k[:, None] ** 2 / width / (a**2 + (k - 0.5) ** 2), axis=1)
    ratios = 1 - k[:, None] ** 2 / k**2 + np.eye(len(k))  # of each to the others
    shares = [1.0, *(-((-1) ** k) * tops / np.prod(ratios, axis=1))]
    w = _sum_cosines(u * (m - 1) / m, shares)
    return w / sum(shares) if norm else w


def _dpss(_u: Any, m: int, bandwidth: float) -> Any:
    """Return Slepian's sequence, the eigenvector of three diagonals (Percival & Walden 1993) that is largest in its band."""
    if not 0 < bandwidth < m / 2:
        raise ArgumentError(f"dpss: the half bandwidth lies between 0 and half of the points: got {bandwidth} for {m}")
    k = np.arange(m)
    side = (k[1:] * (m - k[1:]) / 2)[:, None] * np.eye(m - 1, m)
    main = np.diag(((m - 1 - 2 * k) / 2) ** 2 * math.cos(2 * math.pi * bandwidth / m))
    w = np.abs(np.linalg.eigh(main + np.concatenate([np.zeros((1, m)), side]))[1][:, -1])
    return w / w.max() * (1 if m % 2 else m**2 / (m**2 + bandwidth))


def _make_cosines(shares: tuple[float, ...]) -> Callable[[Any, int], Any]:
    return lambda u, _m: _sum_cosines(u, shares)


PLAIN: dict[str, Callable[[Any, int], Any]] = {
    "boxcar": lambda u, _m: np.ones(len(u)),
    "triang": lambda u, m: 1 - np.abs(u) * (m - 1) / (m + m % 2),
    "bartlett": lambda u, _m: 1 - np.abs(u),
    "barthann": lambda u, _m: 0.62 - 0.24 * np.abs(u) + 0.38 * np.cos(math.pi * u),
    "bohman": lambda u, _m: (1 - np.abs(u)) * np.cos(math.pi * u) + np.sin(math.pi * np.abs(u)) / math.pi,
    "cosine": lambda u, m: np.cos(math.pi / 2 * u * (m - 1) / m),
    "lanczos": lambda u, _m: sinc(u),
    "parzen": _parzen,
}
WITH_ONE: dict[str, Callable[[Any, int, Any], Any]] = {
    "gaussian": lambda u, m, std: exp(-0.5 * (u * (m - 1) / (2 * std)) ** 2),
    "general_cosine": lambda u, _m, shares: _sum_cosines(u, shares),
    "general_hamming": lambda u, _m, alpha: _sum_cosines(u, (alpha, 1 - alpha)),
    "kaiser": lambda u, _m, beta: taper(u, beta),
    "chebwin": _chebwin,
    "dpss": _dpss,
}
WITH_TWO: dict[str, Callable[[Any, int, Any, Any], Any]] = {
    "general_gaussian": lambda u, m, p, sig: exp(-0.5 * abs_(u * (m - 1) / (2 * sig)) ** (2 * p))
}
FORMULAS: dict[str, Function] = {
    **{name: _make_cosines(shares) for name, shares in COSINES.items()},
    **PLAIN,
    **WITH_ONE,
    **WITH_TWO,
    "tukey": _tukey,
    "taylor": _taylor,
    "exponential": _exponential,
}
SECOND_NAMES = {"hanning": "hann", "rectangular": "boxcar", "rect": "boxcar", "ones": "boxcar", "black": "blackman"}


def _window(name: str, m: int, sym: bool, dtype: DTypeLike | None, *parameters: Any) -> Array:
    """Return a window of m points; one that is not symmetric is the beginning of a longer one."""
    m = integer(m, name, "the number of points")
    if m < 0:
        raise ArgumentError(f"{name}: a window has points: got {m}; give 0 or more")
    points = m if sym else m + 1
    u = np.linspace(-1.0, 1.0, points) if points > 1 else np.zeros(points)
    w = np.ones(m) if m <= 1 else FORMULAS[name](u, points, *parameters)[:m]
    return astype(w, get_default_dtype() if dtype is None else check_dtype(dtype, name))


def get_window(window: Window, Nx: int, fftbins: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return a window by its name.

    Args:
        window: a name (``hann``, ``hamming``, ``blackman``, ``nuttall``, ``blackmanharris``, ``flattop``, ``boxcar``,
            ``triang``, ``bartlett``, ``barthann``, ``bohman``, ``cosine``, ``lanczos``, ``parzen``, ``tukey``,
            ``taylor``, ``exponential``), the name and parameters as a tuple (``gaussian``, ``general_gaussian``,
            ``general_cosine``, ``general_hamming``, ``kaiser``, ``chebwin``, ``dpss``, ``tukey``, ``taylor``,
            ``exponential``), or kaiser's beta. Names may end in ``_periodic`` or ``_symmetric``.
        Nx: the number of points.
        fftbins: whether the window continues periodically, as Fourier transforms do; symmetric otherwise.
        dtype: that of the result, the default dtype unless given.

    Raises:
        ArgumentError: no such window, or without its parameters.

    >>> get_window("hann", 4)
    Array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    given: Any = window if isinstance(window, tuple) else (window,) if isinstance(window, str) else ("kaiser", window)
    name, *parameters = given
    for ending in ("_periodic", "_symmetric"):
        if str(name).endswith(ending):
            name, fftbins = str(name).removesuffix(ending), ending == "_periodic"
    name = SECOND_NAMES.get(name, name)
    if name not in FORMULAS:
        raise ArgumentError(f"get_window: no such window: got {window!r}; use one of {', '.join(sorted(FORMULAS))}")
    try:
        return _window(name, Nx, not fftbins, dtype, *parameters)
    except TypeError:
        raise ArgumentError(
            f"get_window: {name} takes other parameters: got {window!r}; give them in a tuple"
        ) from None


def window_of(window: Window, n: int, dtype: Any, who: str) -> Array:
    """Return the window that a name stands for, or the array that was given, which has n elements."""
    if isinstance(window, (str, tuple, float, int)):
        return get_window(window, n, dtype=dtype)
    w = promote_operands(window, np.zeros(0, dtype))[0]
    if w.shape != (n,):
        raise ShapeError(f"{who}: a window is a vector of {n}: got {w.aval}; give one of that length")
    return w


def bartlett(M: int, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return a triangle that reaches 0 at both ends.

    >>> bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window("bartlett", M, sym, dtype)


def blackman(M: int, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return the window of Blackman, a sum of three cosines.

    >>> blackman(3).round(4)
    Array([-0.,  1., -0.], dtype=float32)
    """
    return _window("blackman", M, sym, dtype)


def boxcar(M: int, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return ones.

    >>> boxcar(2)
    Array([1., 1.], dtype=float32)
    """
    return _window("boxcar", M, sym, dtype)


def gaussian(M: int, std: ArrayLike, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return a Gaussian whose standard deviation is so many points; differentiable by it.

    >>> gaussian(3, 1.0).round(4)
    Array([0.6065, 1.    , 0.6065], dtype=float32)
    """
    return _window("gaussian", M, sym, dtype, std)


def hamming(M: int, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return the window of Hamming, ``0.54 + 0.46 cos(πu)`` for u from -1 to 1.

    >>> hamming(3).round(4)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _window("hamming", M, sym, dtype)


def hann(M: int, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return the window of von Hann, ``0.5 + 0.5 cos(πu)`` for u from -1 to 1.

    >>> hann(3).round(4)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window("hann", M, sym, dtype)


def kaiser(M: int, beta: ArrayLike, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return the window of Kaiser, which is the narrower the larger ``beta`` is; differentiable by it.

    >>> kaiser(3, 5.0).round(4)
    Array([0.0367, 1.    , 0.0367], dtype=float32)
    """
    return _window("kaiser", M, sym, dtype, beta)


def triang(M: int, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return a triangle that reaches 0 beyond both ends.

    >>> triang(3)
    Array([0.5, 1. , 0.5], dtype=float32)
    """
    return _window("triang", M, sym, dtype)


def tukey(M: int, alpha: ArrayLike = 0.5, sym: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Return ones whose ends, a share ``alpha`` of all, fall to 0 as a cosine; differentiable by it.

    >>> tukey(5, 0.8).round(4)
    Array([0.    , 0.6913, 1.    , 0.6913, 0.    ], dtype=float32)
    """
    return _window("tukey", M, sym, dtype, alpha)
