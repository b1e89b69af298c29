"""Every mode of `pad` gives NumPy's elements, and the derivative of what they are made of."""

import itertools
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.ops.agreement import compiled_agrees, derivatives_agree, same

RNG = np.random.default_rng(41)
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "constant": [{}, {"constant_values": (2, 3)}],
    "edge": [{}],
    "linear_ramp": [{}, {"end_values": (2, -5)}],
    "maximum": [{}, {"stat_length": 2}],
    "mean": [{}, {"stat_length": ((1, 3),)}],
    "median": [{}, {"stat_length": (2, 3)}],
    "minimum": [{}, {"stat_length": 1}],
    "reflect": [{}, {"reflect_type": "odd"}],
    "symmetric": [{}, {"reflect_type": "odd"}],
    "wrap": [{}],
}
CALLS = [(mode, options) for mode, each in OPTIONS.items() for options in each]
each_call = pytest.mark.parametrize(("mode", "options"), CALLS)


@each_call
def test_elements_are_numpys(mode: str, options: dict[str, Any]) -> None:
    """Elements are NumPy's, of short and long widths, floats and integers, in one dimension and two."""
    for n, widths in itertools.product((1, 2, 4), [(1, 1), (2, 0), (0, 3), (5, 9)]):
        for x in (RNG.normal(size=n), RNG.integers(0, 9, size=n), RNG.normal(size=(n, 2))):
            want = np.pad(x, widths, mode, **options)
            got = afx.pad(x, widths, mode, **options)
            assert got.dtype == want.dtype
            same(got, want, rtol=1e-12)


@each_call
def test_derivatives_are_right(mode: str, options: dict[str, Any]) -> None:
    """Derivatives agree with differences, plain, compiled and mapped."""
    x = RNG.normal(size=(3, 4))

    def fn(v: Any) -> Any:
        return afx.pad(v, ((1, 2), (5, 0)), mode, **options)

    derivatives_agree(fn, x)
    compiled_agrees(fn, x)


def test_ends_of_ramps_differentiate() -> None:
    """The numbers that a ramp ends at are differentiable."""
    derivatives_agree(lambda v: afx.pad(np.ones(3), (2, 4), "linear_ramp", end_values=(v, 2 * v)), np.array(0.3))


def test_widths_by_axis() -> None:
    """A dict names the axes that are padded."""
    x = RNG.normal(size=(2, 3))
    for widths in ({1: 2}, {-1: (1, 0), 0: 1}):
        want = [widths.get(0, (0, 0)), widths.get(1, widths.get(-1, (0, 0)))]
        same(afx.pad(x, widths, "edge"), np.pad(x, [(w, w) if isinstance(w, int) else w for w in want], "edge"))


@pytest.mark.parametrize("mode", ["maximum", "mean", "median", "minimum"])
def test_statistics_of_booleans(mode: Any) -> None:
    """A share of half of them is true, as in NumPy, which rounds integers alone."""
    for x in ([True, True, False, False], [True, False, False, False], [False, False]):
        same(afx.pad(np.array(x), 1, mode), np.pad(np.array(x), 1, mode))


def test_wrong_arguments() -> None:
    """Unknown modes and types of reflection raise, and so do empty axes."""
    with pytest.raises(errors.ArgumentError, match="pad: no such mode: got 'mirror'; use one of constant, edge"):
        afx.pad(np.ones(2), 1, "mirror")
    with pytest.raises(errors.ArgumentError, match="pad: reflect_type is 'even' or 'odd': got 'both'"):
        afx.pad(np.ones(2), 1, "reflect", reflect_type="both")
    with pytest.raises(errors.ArgumentError, match="pad: an empty axis has nothing to repeat: got float64"):
        afx.pad(np.ones((2, 0)), 1, "mean")
    with pytest.raises(errors.ArgumentError, match="pad: a maximum needs elements: got stat_length=0"):
        afx.pad(np.ones(2), 1, "maximum", stat_length=0)
