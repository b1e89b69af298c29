"""NumPy's loops that compiled functions call give an element's result wherever a call is cut, but for what nan carries."""

import itertools

import numpy as np
import pytest

from afx.core.primitive import primitives
from tests.every import every

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-310, -1e-40, 1e30, 7.25, -100.0]
WHOLE = [0, 1, 2, 3, 7, -1, -2]
LENGTHS = [
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    13,
    15,
    16,
    17,
    31,
    33,
    37,
    63,
    64,
    65,
    71,
]  # ends of vectors, strips and their tails
UFUNCS = {p.lowering.ufunc for p in primitives() if p.lowering.ufunc is not None}
UFUNCS |= {p.lowering.reduce_ufunc for p in primitives() if p.lowering.reduce_ufunc is not None}
LOOPS = sorted(
    {
        (ufunc.__name__, types)
        for ufunc in UFUNCS
        for types in ufunc.types
        if ufunc.signature is None and set(types) <= set("?bBhHiIlLefdFD->")
    }
)


def edges(char: str) -> np.ndarray:
    """Return numbers of a dtype at which loops differ, if they do."""
    dtype = np.dtype(char)
    if dtype.kind == "c":
        pairs = itertools.product([0.0, -0.0, np.inf, np.nan, 1.0, -2.5], repeat=2)
        return np.array([complex(*pair) for pair in pairs]).astype(dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(EDGES).astype(dtype)
    return np.array([False, True]) if dtype.kind == "b" else np.array(WHOLE).astype(dtype)


@every("name, types", [pytest.param(*loop, id="-".join(loop)) for loop in LOOPS], group=str)
def test_loops_give_one_result_wherever_they_are_cut(name: str, types: str) -> None:
    """Arrays that repeat one pair of operands have one result, in vectors and in what is left behind them."""
    ufunc = next(u for u in UFUNCS if u.__name__ == name)
    operands = [edges(char) for char in types.partition("->")[0]]
    if name == "power" and types[0] not in "efdFD":
        operands[1] = operands[1][operands[1] >= 0]  # negative whole powers are none
    for pair in itertools.product(*operands):
        with np.errstate(all="ignore"):
            calls = [ufunc(*[np.full(length, x) for x in pair], signature=types) for length in LENGTHS]
        for results in zip(*[z if ufunc.nout > 1 else (z,) for z in calls], strict=True):
            z = np.concatenate(results)
            is_one = np.isnan(z).all() or (z.view(np.uint8).reshape(len(z), -1) == z[:1].view(np.uint8)).all()
            assert is_one, f"{name} of {pair}: {np.unique(z)}, signs {np.unique(np.signbit(z.real))}"
