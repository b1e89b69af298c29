"""NumPy's dispatch: ``np.sin(x)`` on an Array is ``afx.sin(x)``, found by name; an unknown function raises.

NumPy's functions take their arguments as NumPy names them. They are bound to NumPy's own signature, and those left at
their defaults are dropped. The others go to the arguments of the same name, operands to those at the same position.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from afx.core.aval import aval_of
from afx.core.numpy_names import (
    ACCUMULATIONS,
    ARGUMENTS,
    CONVERTING,
    DEFAULTS,
    FAMILIES,
    FUNCTIONS as NAMES,
    NEUTRAL,
    READING,
    REDUCTIONS,
    SIGNATURES,
    UFUNCS,
    WRITING,
)
from afx.core.registry import FUNCTIONS, Function, is_registered
from afx.errors import ImmutableError, OperandError

OPERANDS = ("ArrayLike", "ArrayLike | None")  # how afx's functions type an operand that takes no list
STATED = ("subok", "where")  # which are True where nothing is said
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, POSITIONAL)


class UntranslatedError(OperandError):
    """A call in NumPy's convention that afx has no function, or no argument, for."""


QUICK: dict[np.ufunc, Function] = {}  # what `_quick` found


# -- ufuncs --
def array_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Answer ``ufunc(*inputs)``, ``reduce``, ``accumulate`` and ``outer`` with afx's own function."""
    if not kwargs and method == "__call__":
        quick = QUICK.get(ufunc) or _quick(ufunc)
        if quick is not None:
            try:
                return quick(*inputs)
            except OperandError:  # lists become arrays below
                if not any(isinstance(x, (list, tuple)) for x in inputs):
                    raise
    name = ufunc.__name__
    shown = f"np.{name}" if hasattr(np, name) else name
    if _writes_to_numpy(method, inputs, kwargs):
        return _call_plain(getattr(ufunc, method), inputs, kwargs)
    if method == "at":
        raise ImmutableError(f"{shown}.at: writes into an array: afx arrays are immutable; use x.at[index].add(values)")
    options = {k: v for k, v in kwargs.items() if k == "axis" or not (v is None or (v is True and k in STATED))}
    if "out" in options or ("where" in options and method != "reduce"):
        raise ImmutableError(
            f"{shown}: out= and where= write into an array: afx arrays are immutable; use the result, or afx.where"
        )
    operands = [_numbers(x, inputs) for x in inputs]
    if method == "__call__":
        return _elementwise(name, shown, operands, options)
    return _along(method, name, shown, operands, options)


def _quick(ufunc: np.ufunc) -> Function | None:
    """Return afx's function that answers a ufunc as it is called, where there is nothing to translate, and note it."""
    name = UFUNCS.get(ufunc.__name__, ufunc.__name__)
    fn: Function | None = getattr(FUNCTIONS, name, None) if is_registered(name) else None
    if fn is None or not fn.__module__.startswith("afx.ops") or len(_parameters(fn)) != ufunc.nin:
        return None
    return QUICK.setdefault(ufunc, fn)


def _writes_to_numpy(method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a ufunc writes into NumPy's arrays alone: that is NumPy's business, and no Array changes."""
    if method == "at":
        return isinstance(inputs[0], np.ndarray)
    out = kwargs.get("out")
    return out is not None and all(isinstance(z, np.ndarray) for z in (out if isinstance(out, tuple) else (out,)))  # pyright: ignore[reportUnknownVariableType]  # a user's arrays


def _numbers(x: Any, operands: Iterable[Any]) -> Any:
    """Return nested Python numbers as an array, in the dtype of the others where these have one."""
    return (
        FUNCTIONS.promote_operands(x, *[v for v in operands if hasattr(v, "dtype")])[0]
        if isinstance(x, (list, tuple))
        else x
    )


def _elementwise(name: str, shown: str, operands: list[Any], options: dict[str, Any]) -> Any:
    dtype = options.pop("dtype", None)
    if dtype is not None and not _is_truth(name, dtype):
        operands = [FUNCTIONS.astype(x, dtype) for x in operands]
    if name == "divmod":
        return FUNCTIONS.floor_divide(*operands), FUNCTIONS.remainder(*operands)
    fn = find_function(UFUNCS.get(name, name), "numpy", shown)
    extra = options.keys() - _parameters(fn).keys()
    if extra:
        raise _unknown(shown, min(extra))
    return fn(*operands, **options)


def _is_truth(name: str, dtype: Any) -> bool:
    """Tell whether a dtype is that of a ufunc's truth values, to which no operand is converted (``isnan(x, dtype=bool)``)."""
    loops: list[str] = getattr(getattr(np, name, None), "types", [""])
    return np.dtype(dtype) == bool and all(loop.endswith("?") for loop in loops if "O" not in loop)


def _along(method: str, name: str, shown: str, operands: list[Any], options: dict[str, Any]) -> Any:
    """Answer a ufunc's method."""
    if method == "reduce" and name in REDUCTIONS and len(operands) == 1:
        fn, axis = find_function(REDUCTIONS[name], "numpy", f"{shown}.reduce"), options.pop("axis", 0)
        extra = set(options) - set(_parameters(fn))
        if extra:
            raise _unknown(f"{shown}.reduce", min(extra))
        return fn(operands[0], axis=axis, **options)
    if method == "accumulate" and name in ACCUMULATIONS and len(operands) == 1:
        fn, axis = find_function(ACCUMULATIONS[name], "numpy", f"{shown}.accumulate"), options.pop("axis", 0)
        extra = set(options) - set(_parameters(fn))
        if extra:
            raise _unknown(f"{shown}.accumulate", min(extra))
        return fn(operands[0], axis=axis, **options)
    if method == "outer" and len(operands) == 2:
        x, y = (FUNCTIONS.asarray(a) for a in operands)
        return _elementwise(name, f"{shown}.outer", [x.reshape(x.shape + (1,) * y.ndim), y], options)
    raise _missing(f"{shown}.{method}")


# -- functions --
def array_function(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a NumPy function called on an Array with afx's function of that name."""
    if not kwargs and list not in (kinds := [x.__class__ for x in args]) and tuple not in kinds:
        fn, count = _quick_function(func)
        if len(args) <= count:
            return fn(*args)
    if _converts(func.__name__, func.__module__, args, kwargs):
        return _call_plain(func, args, kwargs)
    return answer_function(func, args, kwargs)


def answer_function(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a NumPy function, called on anything, with afx's function of that name."""
    name, module = func.__name__, func.__module__
    shown = f"{module}.{name}".replace("numpy", "np", 1)
    if name in WRITING and not isinstance(args[0] if args else next(iter(kwargs.values())), np.ndarray):
        raise ImmutableError(
            f"{shown}: writes into an array: afx arrays are immutable; use x.at[index].set(values), "
            "or np.asarray(x) where x is only read"
        )
    if name in WRITING or isinstance(kwargs.get("out"), np.ndarray):
        return _call_plain(func, args, kwargs)
    if kwargs.get("out") is not None:
        raise ImmutableError(f"{shown}: out= writes into an array: afx arrays are immutable; use the result")
    if module == "numpy":
        if name in QUERIES:
            return QUERIES[name](*args, **kwargs)
        if name in READING:
            return _call_plain(func, args, kwargs)
    if name == "where" and len(args) == 1:
        name = "nonzero"
    if name.startswith("atleast_") and len(args) > 1:
        return tuple([array_function(func, (x,), {}) for x in args])
    fn = find_function(name, module, shown)
    if (
        len(args) == 1
        and not isinstance(args[0], (list, tuple))
        and f"{module}.{name}" not in DEFAULTS
        and kwargs.keys() <= _keywords(fn)
        and list not in map(type, kwargs.values())
    ):
        return fn(*args, **kwargs)  # nothing to translate: as a rule
    values, options = translate_arguments(func, fn, args, kwargs, shown)
    return fn(*values, **options)


@functools.lru_cache(maxsize=512)
def _quick_function(func: Function) -> tuple[Function, int]:
    """Return afx's function of a name, and how many arguments it takes by place as NumPy's does: 0 where to look closer."""
    name, module = func.__name__, func.__module__
    numpy_signature = signature_of(func)
    special = name in WRITING or name in CONVERTING or name in QUERIES or name in READING or name == "where"
    if special or numpy_signature is None or f"{module}.{name}" in DEFAULTS:
        return func, 0
    fn = find_function(name, module, f"{module}.{name}".replace("numpy", "np", 1))
    count = 0
    for (key, parameter), (own, own_parameter) in zip(
        numpy_signature.parameters.items(), _parameters(fn).items(), strict=False
    ):
        alike = key == own or ARGUMENTS.get(key, key) == own or parameter.default is inspect.Parameter.empty
        if not alike or parameter.kind not in BY_PLACE or own_parameter.kind not in BY_PLACE:
            break
        count += 1
    return fn, count


def _converts(name: str, module: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a function makes NumPy's arrays of Arrays that no transformation traces, as np.asarray does."""
    return module == "numpy" and name in CONVERTING and not any(map(holds_traced, (*args, *kwargs.values())))


def holds_traced(x: Any) -> bool:
    """Tell whether a value is a traced Array, or a list or tuple that holds one."""
    return any(map(holds_traced, x)) if isinstance(x, (list, tuple)) else hasattr(x, "_trace")  # pyright: ignore[reportUnknownArgumentType]  # a user's sequence


def _call_plain(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return func(*map(to_plain, args), **{k: to_plain(v) for k, v in kwargs.items()})


def to_plain(x: Any) -> Any:
    """Return an Array as a NumPy array; a traced one of floats raises."""
    if isinstance(x, (list, tuple)):
        items = [to_plain(v) for v in x]  # pyright: ignore[reportUnknownVariableType]  # a user's sequence
        return tuple(items) if type(x) is tuple else items  # pyright: ignore[reportUnknownArgumentType]  # a user's tuple
    return np.asarray(x) if hasattr(x, "aval") else x


def _is_complex(x: Any) -> bool:
    return aval_of(x, "np.iscomplexobj").dtype.kind == "c"


def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Return arrays in their common shape; None stays NumPy's array of None, as Matplotlib asks of what is left out."""
    arrays = FUNCTIONS.broadcast_arrays(*[x for x in args if x is not None])
    rest = iter(arrays)
    nothing = np.broadcast_to(np.array(None), arrays[0].shape)
    return tuple([nothing if x is None else next(rest) for x in args])


def _is_real(x: Any) -> bool:
    return not _is_complex(x)


# What needs no translation.
QUERIES: dict[str, Function] = {
    "broadcast_arrays": _broadcast_arrays,
    "iscomplexobj": _is_complex,
    "isrealobj": _is_real,
}


def translate_arguments(
    func: Function, fn: Function, args: tuple[Any, ...], kwargs: dict[str, Any], shown: str
) -> tuple[list[Any], dict[str, Any]]:
    """Return afx's arguments for those of a call in NumPy's convention."""
    numpy_signature = signature_of(func)
    if numpy_signature is None:
        return list(args), kwargs
    parameters = _parameters(fn)
    values, options = list[Any](), dict[str, Any]()
    stated = DEFAULTS.get(f"{func.__module__}.{func.__name__}", {})
    given: dict[str, Any] = {**stated, **numpy_signature.bind(*args, **kwargs).arguments}
    for place, (key, parameter) in enumerate(numpy_signature.parameters.items()):
        if key not in given or (key not in parameters and given[key] in NEUTRAL.get(key, ())):
            continue
        value = given[key]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            # the annotation tells lists of axes from numbers
            as_given = key in parameters and parameters[key].annotation not in OPERANDS
            values.extend(value if as_given else [_numbers(v, value) for v in value])
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            options.update(value)
        elif key in stated or not _is_default(value, parameter.default):
            own, by_name = _find_parameter(parameters, key, place, parameter, len(values))
            if own is None:
                raise _unknown(shown, key)
            if own.annotation in OPERANDS:
                value = _numbers(value, given.values())
            if by_name:
                options[own.name] = value
            else:
                values.append(value)
    unknown = [k for k in options if k not in parameters]
    if unknown:
        raise _unknown(shown, unknown[0])
    return values, options


def _find_parameter(
    parameters: Mapping[str, inspect.Parameter], key: str, place: int, theirs: inspect.Parameter, filled: int
) -> tuple[inspect.Parameter | None, bool]:
    """Return afx's parameter for one of NumPy's, and whether it is given by name; an operand's may stand at its place."""
    named = parameters.get(key if key in parameters else ARGUMENTS.get(key, key))
    if named is not None and named.kind is not inspect.Parameter.POSITIONAL_ONLY:
        return named, True
    here = [*parameters.values(), None][min(place, len(parameters))]
    if here is None or not (theirs.default is inspect.Parameter.empty or here is named):
        return None, False
    if place == filled and here.kind is not inspect.Parameter.KEYWORD_ONLY:
        return here, False
    return here if here.kind is POSITIONAL else None, True  # behind one by name


def _is_default(value: Any, default: Any) -> bool:
    """Tell whether an argument says what NumPy does without it."""
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, (bool, int, float, str)) and value == default


@functools.lru_cache(maxsize=512)
def signature_of(func: Function) -> inspect.Signature | None:
    """Return the signature of a NumPy function, where it is known."""
    try:
        return inspect.signature(func)
    except ValueError:  # NumPy's functions in C do not say before NumPy 2.4
        return _written(func.__name__)


def _written(name: str) -> inspect.Signature | None:
    if name not in SIGNATURES:
        return None
    space: dict[str, Any] = {}
    exec(f"def function{SIGNATURES[name]}: ...", space)
    return inspect.signature(space["function"])


@functools.lru_cache(maxsize=512)
def _parameters(fn: Function) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(fn).parameters


@functools.lru_cache(maxsize=512)
def _keywords(fn: Function) -> frozenset[str]:
    """Return the names of the arguments that may follow the first."""
    return frozenset(list(_parameters(fn))[1:])


# -- names --
def find_function(name: str, module: str, shown: str) -> Function:
    """Return afx's function of a name, from a family that loads on first use where NumPy has it in one, or raise."""
    if module not in ("numpy", "numpy.lib.stride_tricks", *FAMILIES):  # np.emath.sqrt is another function
        raise _missing(shown)
    if module in FAMILIES:
        family: Function | None = getattr(importlib.import_module(FAMILIES[module]), name, None)
        if family is None:
            raise _missing(shown)
        return family
    name = NAMES.get(name, name)
    # the package knows second names, such as concatenate
    fn: Function | None = getattr(FUNCTIONS if is_registered(name) else sys.modules["afx"], name, None)
    if fn is None or not fn.__module__.startswith(("afx.core", "afx.ops")):
        raise _missing(shown)
    return fn


def _missing(shown: str) -> UntranslatedError:
    return UntranslatedError(
        f"{shown}: afx has no such function: got an afx.Array; write it with afx's functions, "
        "or call NumPy's on np.asarray(x), which has no derivative"
    )


def _unknown(shown: str, argument: str) -> UntranslatedError:
    return UntranslatedError(
        f"{shown}: afx's function has no argument {argument}=: got an afx.Array; leave it out, "
        "or call NumPy's on np.asarray(x), which has no derivative"
    )
