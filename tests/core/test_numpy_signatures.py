"""NumPy's signatures: each keyword of a function that afx has is taken with NumPy's meaning, or refused by name."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from tests.every import together

X = np.array([0.3, -0.5, 1.2])
M = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
Q = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])
I = np.array([2, 0, 1])  # noqa: E741  # indices
MASK = np.array([True, False, True])
# What a function is tried on, until NumPy takes it.
TRIED: list[tuple[Any, ...]] = [
    *[
        (X,),
        (M,),
        (Q,),
        (Q, X),
        (X, X),
        (M, M),
        ([X, X],),
        (X, 1),
        (M, 1),
        (M, 0, 1),
        (3,),
        (I,),
        (X, I),
        (np.abs(X), I, 3),
    ],
    *[
        (X > 0, X, X),
        (X, 0, 1),
        (M, (3, 2)),
        ((3,),),
        ((3,), 1.5),
        (0.0, 3.0),
        (X, np.array([-1.0, 0, 2]), X),
        ("ij,j->i", M, X),
    ],
]
OPERANDS: dict[str, tuple[Any, ...]] = {
    "choose": (I, [X, X, X]),
    "indices": ((2, 3),),
    "roll": (X, 1),
    "select": ([X > 0], [X]),
    "squeeze": (M[None],),
    "tril": (Q,),
    "triu": (Q,),
}
VALUES: dict[str, list[Any]] = {
    "M": [4],
    "UPLO": ["L", "U"],
    "a_max": [0.2],
    "a_min": [-0.1],
    "append": [0.7, [0.7]],
    "assume_unique": [True],
    "atol": [0.1],
    "axes": [None, (1, 0)],
    "axis": [0, -1, None, (0,)],
    "axis1": [1],
    "axis2": [0],
    "base": [3.0],
    "bias": [True],
    "bins": [4],
    "compute_uv": [False],
    "constant_values": [2.0],
    "copy": [True],
    "correction": [1],
    "cov": [True],
    "ddof": [1],
    "decimals": [1],
    "deg": [1],
    "density": [True],
    "destination": [-1],
    "device": [None, "cpu"],
    "discont": [2.0],
    "dtype": [np.float32, np.float64],
    "dx": [0.5],
    "edge_order": [2],
    "endpoint": [False],
    "equal_nan": [True],
    "fill_value": [2.0],
    "full": [True],
    "full_matrices": [False],
    "hermitian": [True],
    "indexing": ["ij"],
    "indices_or_sections": [3],
    "initial": [0.5],
    "invert": [True],
    "k": [1],
    "keepdims": [True],
    "kind": ["stable"],
    "left": [0.1],
    "like": [None],
    "max": [0.2],
    "method": ["linear", "lower"],
    "min": [-0.1],
    "minlength": [5],
    "mode": ["same", "valid", "wrap", "edge"],
    "n": [2],
    "nan": [0.5],
    "neginf": [-1.0],
    "newshape": [(3,)],
    "norm": ["ortho"],
    "num": [4],
    "obj": [1],
    "offset": [1],
    "optimize": [True, False],
    "ord": [1, 2],
    "order": ["C", None],
    "out": [None],
    "overwrite_input": [False],
    "p": [3],
    "period": [2.0],
    "posinf": [1.0],
    "prepend": [0.7, [0.7]],
    "q": [0.3],
    "range": [(-1.0, 2.0)],
    "rcond": [1e-10],
    "repeats": [2],
    "reps": [2],
    "retstep": [True],
    "return_counts": [True],
    "return_index": [True],
    "return_inverse": [True],
    "returned": [True],
    "right": [0.2],
    "rowvar": [False],
    "rtol": [0.1],
    "s": [(2,)],
    "shape": [(3,)],
    "shift": [1],
    "side": ["right"],
    "sorter": [None],
    "source": [0],
    "sparse": [True],
    "stable": [True],
    "start": [1],
    "strict": [True],
    "subok": [False],
    "tol": [0.1],
    "trim": ["f"],
    "upper": [True],
    "values": [1.0],
    "w": [np.array([1.0, 2, 3])],
    "weights": [np.array([0.2, 0.3, 0.5])],
    "where": [MASK],
    "x": [X],
}
FAMILIES: list[tuple[Any, Any]] = [(np, afx), (np.linalg, afx.linalg), (np.fft, afx.fft)]
UNSET = {"empty", "empty_like"}  # their elements are any
SIGNS = {"eigh", "svd"}  # vectors of these are unique up to a sign


def _functions() -> list[Any]:
    found: list[Any] = []
    for theirs, ours in FAMILIES:
        for name in theirs.__all__:
            fn = getattr(theirs, name)
            if name == "put_along_axis":  # which writes, where afx's returns
                continue
            if inspect.isclass(fn) or isinstance(fn, np.ufunc) or not callable(fn) or not hasattr(ours, name):
                continue
            try:
                signature = inspect.signature(fn)
            except ValueError:  # NumPy's functions in C do not say before NumPy 2.4
                continue
            found.append(pytest.param(fn, getattr(ours, name), signature, id=f"{theirs.__name__}.{name}"))
    return found


def _lifted(x: Any) -> Any:
    if isinstance(x, list):
        return [_lifted(v) for v in x]
    return afx.asarray(x) if isinstance(x, np.ndarray) else x


def _assert_same(found: Any, wanted: Any, name: str) -> None:
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for z, want in zip(found, wanted, strict=True):
            _assert_same(z, want, name)
    elif isinstance(wanted, (np.ndarray, np.generic)):
        z = np.asarray(found)
        assert (z.shape, z.dtype.kind) == (wanted.shape, wanted.dtype.kind)
        if name not in UNSET:
            signed = name in SIGNS and wanted.ndim > 1
            np.testing.assert_allclose(
                np.abs(z) if signed else z, np.abs(wanted) if signed else wanted, atol=1e-6, rtol=1e-6
            )
    else:
        assert found == wanted


def _calls(fn: Callable[..., Any], signature: inspect.Signature, key: str) -> Any:
    """Yield operands and values of a keyword that NumPy takes, one for each value."""
    names = list(signature.parameters)
    for value in VALUES.get(key, []):
        for operands in [OPERANDS[fn.__name__]] if fn.__name__ in OPERANDS else TRIED:
            given = operands
            if key in names[: len(given)]:
                if names.index(key) != len(given) - 1:
                    continue
                given = given[:-1]
            try:
                yield given, value, fn(*given, **{key: value})
            except Exception:  # NumPy refuses these
                continue
            break


@pytest.mark.filterwarnings("ignore")
@together(("theirs", "ours", "signature"), sorted(_functions(), key=lambda case: str(case.id)))
def test_keywords_have_numpys_meaning_or_are_refused_by_name(
    theirs: Any, ours: Any, signature: inspect.Signature
) -> None:
    """Called by NumPy's name on an Array and by afx's own, a keyword does as in NumPy or its name is in the error."""
    for key, parameter in signature.parameters.items():
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            continue
        for operands, value, want in _calls(theirs, signature, key):
            for fn, given in ((theirs, tuple(map(_lifted, operands))), (ours, operands)):
                refusal = ""
                try:
                    found = fn(*given, **{key: value})
                except (afx.errors.AfxError, TypeError) as error:
                    found, refusal = want, str(error)
                assert not refusal or key in refusal, (fn, key, value, operands)
                _assert_same(found, want, theirs.__name__)
