"""NumPy names: those that differ from afx's, and options of NumPy's that say nothing to immutable arrays."""

from __future__ import annotations

from typing import Literal

from afx.errors import ArgumentError, ImmutableError

# --- NumPy names: tables of names that differ from afx's, for `afx.core.numpy_dispatch`

# NumPy's ufuncs (and SciPy's, which dispatch the same way), by their __name__.
UFUNCS = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "mod": "remainder",
    "power": "pow",
    "psi": "digamma",
    "right_shift": "bitwise_right_shift",
    "_riemann_zeta": "zeta",
    "_zeta": "zeta",
    "true_divide": "divide",
}

# NumPy's functions, by their __name__; `np.concat` and the like report the older one.
FUNCTIONS = {
    "amax": "max",
    "amin": "min",
    "around": "round",
    "concatenate": "concat",
    "trace": "matrix_trace",
    "transpose": "permute_dims",
}

# The families that NumPy keeps in modules of their own; they load when first used.
FAMILIES = {"numpy.linalg": "afx.linalg", "numpy.fft": "afx.fft"}

# NumPy's names of arguments, where afx's function calls them otherwise.
ARGUMENTS = {"N": "n", "a_max": "max", "a_min": "min", "ddof": "correction", "newshape": "shape", "reps": "repetitions"}

# Defaults of NumPy's arguments that are not afx's.
DEFAULTS: dict[str, dict[str, int | str]] = {
    "numpy.diagonal": {"axis1": 0, "axis2": 1},
    "numpy.linalg.eigh": {"UPLO": "L"},
    "numpy.linalg.eigvalsh": {"UPLO": "L"},
    "numpy.trace": {"axis1": 0, "axis2": 1},
}

# Values of NumPy's and SciPy's arguments that mean nothing to afx: arrays are immutable and in row-major order.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "casting": ("same_kind", "unsafe"),
    "copy": (True, False, None),
    "kind": ("heapsort", "introselect", "mergesort", "quicksort", "stable"),
    "order": ("A", "C", "K"),
    "overwrite_input": (True, False),
    "lapack_driver": ("gelsd", "gelss", "gelsy", "gesdd", "gesvd"),
    "subok": (True, False),
    **dict.fromkeys(("check_finite", "overwrite_a", "overwrite_b", "overwrite_c", "overwrite_data"), (True, False)),
}

# The arguments of NumPy's functions in C, which these tell themselves from NumPy 2.4 on.
SIGNATURES = {
    "array": "(object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, ndmax=0, like=None)",
    "asarray": "(a, dtype=None, order=None, *, device=None, copy=None, like=None)",
    "bincount": "(x, /, weights=None, minlength=0)",
    "can_cast": "(from_, to, casting='safe')",
    "concatenate": "(arrays, /, axis=0, out=None, *, dtype=None, casting='same_kind')",
    "empty": "(shape, dtype=None, order='C', *, device=None, like=None)",
    "dot": "(a, b, out=None)",
    "empty_like": "(prototype, /, dtype=None, order='K', subok=True, shape=None, *, device=None)",
    "inner": "(a, b, /)",
    "lexsort": "(keys, axis=-1)",
    "min_scalar_type": "(a, /)",
    "ravel_multi_index": "(multi_index, dims, mode='raise', order='C')",
    "result_type": "(*arrays_and_dtypes)",
    "unravel_index": "(indices, shape, order='C')",
    "vdot": "(a, b, /)",
    "zeros": "(shape, dtype=None, order='C', *, device=None, like=None)",
    "where": "(condition, x=None, y=None, /)",
}

REDUCTIONS = {
    "add": "sum",
    "logaddexp": "logsumexp",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}
ACCUMULATIONS = {
    "add": "cumsum",
    "logaddexp": "cumlogsumexp",
    "maximum": "cummax",
    "minimum": "cummin",
    "multiply": "cumprod",
}

# Functions whose result holds no array: they read values, which a traced array refuses where that loses a derivative.
READING = frozenset(
    {
        "array2string",
        "array_repr",
        "array_str",
        "may_share_memory",
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
        "shares_memory",
    }
)
WRITING = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
CONVERTING = frozenset({"asarray_chkfinite", "atleast_1d", "atleast_2d", "atleast_3d", "require"})


# --- Neutral options: arguments of NumPy and of the array API that say nothing to immutable arrays in row-major order
# on the CPU

CPU = "cpu"

Order = Literal["C", "F", "A", "K"]


def refuse_out(out: object, who: str) -> None:
    """Raise `ImmutableError` where a function is told to write its result into an array; None says nothing."""
    if out is not None:
        raise ImmutableError(
            f"{who}: out= writes into an array: got {type(out).__name__}: afx arrays are immutable; use the result"
        )


def check_memory_order(order: object, who: str, orders: str = "CFAK") -> None:
    """Raise `ArgumentError` where an order of elements in memory is none of NumPy's."""
    if not (isinstance(order, str) and len(order) == 1 and order in orders):
        raise ArgumentError(f"{who}: no such order: got order={order!r}; use one of {', '.join(map(repr, orders))}")


def check_device(device: str | None, who: str) -> None:
    """Raise `ArgumentError` where a device is neither the CPU nor left open."""
    if device is not None and device != CPU:
        raise ArgumentError(f"{who}: there is no such device: got {device!r}; arrays are on 'cpu'")
