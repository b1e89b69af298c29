"""Arguments: the differentiated leaves of a transformation's arguments, checked at the border."""

from __future__ import annotations

import contextlib
import functools
import operator
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, NotRequired, ParamSpec, Protocol, TypedDict, TypeVar

import numpy as np

from afx import pytree
from afx.core import Array, Aval, Tracer, Value, any_traced, aval_of, snapshot, to_array, wrap
from afx.core.html import code, function_html
from afx.core.tracing.tape import OPEN_BLOCKS
from afx.errors import AfxError, ArgumentError, DtypeError, OperandError, ShapeError
from afx.pytree.treedef import integers_in_number_fields

# --- Function types: what type checkers see of a transformed function

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Function(Protocol[P, R_co]):
    """A function of these parameters, as ``Callable[P, R]`` is.

    Unlike that, it remains a typed function where a checker cannot tell which overload a lambda means.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it."""
        ...


class Options(TypedDict, total=False):
    """Options of derivatives, as type checkers see them, of a function that returns its result alone."""

    has_aux: Literal[False]
    holomorphic: bool


class AuxOptions(TypedDict):
    """Those of a function that returns ``(result, aux)``."""

    has_aux: Literal[True]
    holomorphic: NotRequired[bool]


class AnyOptions(TypedDict, total=False):
    """Those of either, where checkers do not tell which."""

    has_aux: bool
    holomorphic: bool


# --- Arguments

ARGUMENT = re.compile(r"\[\d+\]")  # the path of an argument that is an array by itself
ONE_LEAF = pytree.structure(0.0)  # of an argument that is an array by itself
DIFFERENTIABLE = frozenset(map(np.dtype, "efdFD"))


def name_of(fn: Callable[..., Any]) -> str:
    """Return a function's name for messages."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__


def check_callable(fn: object, who: str) -> None:
    """Raise where what should be a function is something else, such as a function's result."""
    if not callable(fn):
        raise ArgumentError(
            f"{who}: needs a function: got {describe(fn)}; pass the function itself, not what it returns"
        )


def whole_number(name: str, value: Any, who: str, least: int = 1) -> int:
    """Return a number of steps, examples or the like as Python's, if it is whole and large enough.

    Args:
        name: of the argument, for messages.
        value: the user's number, NumPy's too.
        who: for messages.
        least: the smallest that has a meaning.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ArgumentError(f"{who}: {name} is a whole number from {least} on: got {value!r}; give one")
    return number


def describe(x: Any) -> str:
    """Return what a value is, for messages: shape and dtype of an array, the type and text of anything else."""
    if hasattr(x, "aval"):
        return str(x.aval)
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{x.dtype}{list(x.shape)}"
    text = repr(x)
    return f"{type(x).__name__} ({text if len(text) <= 60 else text[:57] + '…'})"


def pair_of(out: Any, what: str, names: str, who: str) -> tuple[Any, Any]:
    """Return what a user's function returns as the pair that it should be, or raise."""
    if isinstance(out, tuple) and len(out) == 2:  # pyright: ignore[reportUnknownArgumentType]  # a user's value
        return out  # pyright: ignore[reportUnknownVariableType]  # a user's value
    raise OperandError(f"{who}: {what} must return {names}: got {describe(out)}; return a pair")


def named(path: str, labels: Sequence[str]) -> str:
    """Return the path of a leaf in a tuple of arguments with the argument's name in front: ``argument 0.slope``."""
    first, _, rest = path.partition("]")
    return labels[int(first[1:])] + rest


def check_integers(
    leaves: Sequence[Any], treedef: Any, who: str, label: Callable[[str], str] | None, *, arguments: bool = False
) -> None:
    """Raise where a Python integer stands beside trained numbers: it would stay as it is, and nobody would notice.

    Args:
        leaves: the leaves of what is trained.
        treedef: its structure.
        who: the transformation, for messages.
        label: returns the name of a path for messages.
        arguments: whether the structure is a tuple of arguments, each of which may be an integer.

    Raises:
        DtypeError: an unmarked integer beside floating or complex leaves. Arrays of integers are left alone.
    """
    integers = integers_in_number_fields(treedef)
    bare = [(isinstance(x, Tracer) and is_weak_integer(x.aval)) or type(x) is int for x in leaves]
    if not integers and any(bare):
        marked = pytree.marked_leaves(treedef) or [False] * len(leaves)
        paths = pytree.paths(treedef)
        integers = [
            path
            for path, b, m in zip(paths, bare, marked, strict=True)
            if b and not m and not (arguments and ARGUMENT.fullmatch(path))
        ]
    if integers and any(aval_of(x).dtype in DIFFERENTIABLE for x in leaves):
        name = label(integers[0]) if label is not None else f"argument {integers[0]}" if integers[0] else "the argument"
        raise DtypeError(
            f"{who}: a Python integer beside trained numbers is not trained: got {name}; write it as a float to train it, "
            "or mark the field with afx.static() (in a dict, a tuple or a list take a NumPy integer) to leave it as it is"
        )


def is_weak_integer(aval: Aval) -> bool:
    """Tell whether a traced value was a Python integer."""
    return aval.weak and aval.dtype.kind in "iu" and not aval.shape


def moving_leaves(
    leaves: Sequence[Any],
    treedef: Any,
    who: str,
    label: Callable[[str], str] | None = None,
    *,
    arguments: bool = False,
    strict: bool = False,
) -> list[bool] | None:
    """Tell which leaves are differentiated: floating and complex ones outside of `non_trainable` fields; None for all.

    Args:
        leaves: the leaves of what is differentiated.
        treedef: its structure.
        who: the transformation, for messages.
        label: returns the name of a path for messages.
        arguments: whether the structure is a tuple of arguments; one that is an array by itself must have derivatives.
        strict: whether every leaf must have derivatives.

    Raises:
        ArgumentError: there are no leaves, or all of them stand in marked fields.
        DtypeError: no leaf, or an argument that is one array, has a derivative.
    """
    if not leaves:
        raise ArgumentError(
            f"{who}: nothing to differentiate: got arguments without arrays, of structure {treedef}; "
            "pass floating arrays, or choose other arguments"
        )
    if len(leaves) == 1 and isinstance(leaves[0], Array) and leaves[0].dtype in DIFFERENTIABLE and treedef is ONE_LEAF:
        return None
    check_integers(leaves, treedef, who, label, arguments=arguments)
    marked = pytree.marked_leaves(treedef)
    inexact = [getattr(x, "dtype", None) in DIFFERENTIABLE or isinstance(x, (float, complex)) for x in leaves]
    if all(inexact) and not any(marked):
        return None
    inexact = _check_inexact(leaves, treedef, who, label, arguments=arguments, strict=strict)
    moving = [i and not m for i, m in zip(inexact, marked, strict=True)] if marked else inexact
    if not any(moving):
        raise ArgumentError(
            f"{who}: nothing to differentiate: got arguments whose arrays all stand in fields marked with "
            "afx.non_trainable(); take a mark off, or choose other arguments"
        )
    return None if all(moving) else moving


def _check_inexact(
    leaves: Sequence[Any], treedef: Any, who: str, label: Callable[[str], str] | None, *, arguments: bool, strict: bool
) -> list[bool]:
    """Tell which leaves are floating or complex; raise where none is, or one is not that must be."""
    paths = pytree.paths(treedef)
    names = [label(p) if label is not None else f"argument {p}" if p else "the argument" for p in paths]
    avals = [aval_of(x, f"{who}: {name}") for x, name in zip(leaves, names, strict=True)]
    inexact = [aval.dtype in DIFFERENTIABLE for aval in avals]
    for k, is_inexact in enumerate(inexact):
        if not is_inexact and (strict or not any(inexact) or (arguments and ARGUMENT.fullmatch(paths[k]))):
            raise DtypeError(
                f"{who}: only floating and complex arrays have derivatives: got {names[k]} = {avals[k]}; "
                "convert it to a float, mark the field with afx.static(), or choose other arguments"
            )
    return inexact


def name_argument(path: str) -> str:
    """Return the name of a path in a tuple of arguments, for messages."""
    return f"argument {path[1:].replace(']', '', 1)}"


def untraced(leaf: Any) -> Any:
    """Return a leaf that is not differentiated as the function gets it: out of reach of later writes by the caller."""
    return wrap(snapshot(leaf, "grad")) if type(leaf) is np.ndarray else leaf


def check_holomorphic(
    leaves: Sequence[Any], treedef: Any, who: str, label: Callable[[str], str], moving: Sequence[bool] | None
) -> None:
    """Raise where a differentiated leaf is not complex, naming its path: a holomorphic function has complex arguments."""
    for k, leaf in enumerate(leaves):
        aval = aval_of(leaf, who)
        if aval.dtype.kind != "c" and (moving is None or moving[k]):
            path = pytree.paths(treedef)[k]
            raise DtypeError(
                f"{who}: holomorphic=True differentiates by complex numbers: got {label(path)} = {aval}; "
                "convert it with astype, or leave holomorphic= out"
            )


def scalar_output(out: Any, fn: Callable[..., Any], who: str, holomorphic: bool) -> Any:
    """Return the output of a function to be differentiated, or raise where it is not a real (a complex) scalar."""
    if isinstance(out, Tracer) and out.shape == () and out.dtype.kind == ("c" if holomorphic else "f"):
        return out
    if isinstance(out, (tuple, list, dict)) or out is None:
        raise OperandError(
            f"{who}: {name_of(fn)} must return one scalar: got {type(out).__name__}; "  # pyright: ignore[reportUnknownArgumentType]  # a user's value
            "return the loss alone, or (loss, aux) with has_aux=True"
        )
    aval = aval_of(out, f"{who}: the result of {name_of(fn)}")
    if aval.shape != ():
        raise ShapeError(
            f"{who}: {name_of(fn)} must return a scalar: got {aval}; reduce it with afx.sum or afx.mean, "
            "or take afx.jacrev for the derivative of every element"
        )
    if holomorphic and aval.dtype.kind != "c":
        raise DtypeError(
            f"{who}: {name_of(fn)} is no holomorphic function: got the result {aval}, which is not complex; "
            "leave holomorphic= out for the gradient of a real result"
        )
    if aval.dtype.kind == "c" and not holomorphic:
        raise DtypeError(
            f"{who}: {name_of(fn)} must return a real number: got {aval}; return its abs or real part; pass "
            "holomorphic=True if it is a complex-differentiable function of complex numbers, or take afx.vjp"
        )
    if holomorphic:
        return out
    if aval.dtype.kind != "f":
        raise DtypeError(
            f"{who}: {name_of(fn)} must return a floating scalar: got {aval}; its derivative is 0 everywhere"
        )
    return out


def direction_aval(x: Any, who: str) -> Aval:
    """Return the Aval of a tangent or cotangent; integers fit any dtype, as Python's numbers do."""
    aval = aval_of(x, who)
    return Aval(aval.shape, aval.dtype, True) if aval.dtype.kind in "biu" else aval


def zero_like(leaf: Any) -> Value:
    """Return a lower-level zero of a leaf's shape and dtype."""
    aval = aval_of(leaf)
    return np.zeros(aval.shape, aval.dtype)


def result_tree(treedef: Any, cts: Sequence[Value], leaves: Sequence[Any]) -> Any:
    """Return cotangents as a tree of the arguments' type; zeros for leaves that nothing depends on."""
    if treedef is ONE_LEAF and cts[0] is not None:
        return to_array(cts[0])
    return pytree.unflatten(
        treedef, [wrap(zero_like(x)) if ct is None else to_array(ct) for ct, x in zip(cts, leaves, strict=True)]
    )


def bound_position(position: int, count: int, fn: Callable[..., Any], who: str) -> int:
    """Return an argnum counted from the front, or raise."""
    if not -count <= position < count:
        raise ArgumentError(
            f"{who}: argnums={position} is out of range: {name_of(fn)} was called with {count} positional arguments; "
            "name keyword arguments with argnames="
        )
    return position % count


# -- what a transformation returns --
FN = object()  # stands for the function in keys
UNKNOWN: Any = object()  # what a jitted function gives for arguments of which it has no code


class Transformed(functools.partial[Any]):
    """A function that was transformed: it can be pickled if that one can, and is a method in a class."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # partial has one from 3.14 on
        return self if instance is None else functools.partial(self, instance)

    def _repr_html_(self) -> str:
        fn = self.__dict__["__wrapped__"]
        inner = getattr(fn, "_repr_html_", None)
        options = self.__dict__["_make"]
        given = [f"{name}={value!r}" for name, value in options.keywords.items()]
        return function_html(repr(self)[1:-1], fn, [*map(code, given), *([] if inner is None else [inner()])])

    def __repr__(self) -> str:
        return f"<{self.__dict__['_who']} of {name_of(self.__dict__['__wrapped__'])}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Return the name, as for functions, or where another function has that name what makes it anew."""
        return own_name(self, self.__dict__["__wrapped__"]) or (self.__dict__["_make"], ())


class CompiledTransformed(Transformed):
    """A transformation of a jitted function: compiled as a whole, where it is called with plain values."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return run_whole(self.__dict__["_jitted"], super().__call__, args, kwargs)


def run_whole(jitted: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a transformation gives, compiled as a whole for plain values, else, and where that fails, by ``run``."""
    if not OPEN_BLOCKS:
        found = jitted.run_known(args, kwargs)
        if found is not UNKNOWN:
            return found
        # of Python's numbers derivatives are taken in the default dtype, not in their own
        has_number = any(isinstance(x, (float, complex)) for x in pytree.leaves(args[:1]))
        if not has_number and not any_traced(pytree.leaves((args, kwargs))):
            # an error is raised by `run`: in the transformation's name, or at a line of the user's
            with contextlib.suppress(AfxError):
                return jitted(*args, **kwargs)
    return run(*args, **kwargs)


def jitted_of(fn: Callable[..., Any]) -> Any:
    """Return the jitted function that a function is, or as which a transformation of one is compiled; else None."""
    jitted = fn.__dict__["_jitted"] if isinstance(fn, CompiledTransformed) else fn
    return None if getattr(jitted.__class__, "derive", None) is None else jitted


def run_of_trees(run: Callable[..., Any], fn: Callable[..., Any], *trees: Any) -> Any:
    """Return ``run(fn, *trees)``, compiled as a whole where ``fn`` is jitted, without static arguments, and values are plain."""
    jitted = jitted_of(fn)
    if jitted is None or jitted.has_static:
        return run(fn, *trees)

    def of(inner: Callable[..., Any]) -> Any:
        return functools.update_wrapper(functools.partial(run, inner), inner)

    return run_whole(jitted.derive((run, FN), of), functools.partial(run, fn), trees, {})


def compile_whole(fn: Callable[..., Any], make: functools.partial[Any]) -> Any:
    """Return a transformation of a jitted function, or of such a transformation, jitted as a whole; else None.

    It is kept with the jitted function, and knows none but the function inside of it.

    Args:
        fn: any function.
        make: the transformation with its arguments, of which ``fn`` is one.
    """
    jitted = jitted_of(fn)
    if jitted is None:
        return None
    key = (make.func, *[FN if x is fn else x for x in make.args], *make.keywords.items())
    try:
        hash(key)
    except TypeError:
        return None

    def of(inner: Callable[..., Any]) -> Any:
        return make.func(*[inner if x is fn else x for x in make.args], **make.keywords)

    return jitted.derive(key, of)


def transformed(
    run: Callable[..., Any], who: str, fn: Callable[..., Any], make: functools.partial[Any], *, whole: bool = False
) -> Any:
    """Return ``run`` with the name and docstring of ``fn``, pickled as the call that makes it anew.

    Args:
        run: what the transformed function does.
        who: the transformation, for the repr.
        fn: the user's function.
        make: the transformation with its arguments; called, it returns such a function.
        whole: whether it is compiled as a whole where ``fn`` is jitted: it takes ``fn``'s arguments, and runs nothing of
            the user's but ``fn``.
    """
    jitted = compile_whole(fn, make) if whole else None
    made = Transformed(run) if jitted is None else CompiledTransformed(run)
    functools.update_wrapper(made, fn)
    made.__dict__.update(__wrapped__=fn, _who=who, _make=make, _jitted=jitted)
    return made


def own_name(self: object, fn: object) -> str | None:
    """Return the qualified name by which a decorated function is found that replaced ``fn``, None where there is none.

    There is none of a script's function for picklers that take functions by value, as cloudpickle does for workers that
    never run the script.
    """
    path: str = getattr(fn, "__qualname__", "")
    module: str = getattr(fn, "__module__", "")
    owner = sys.modules.get(module)
    for name in path.split("."):
        owner = getattr(owner, name, None)
    pickler = sys._getframe(2).f_locals.get("self")  # who asked for `__reduce__`, which asked for this
    return path if owner is self and not (module == "__main__" and hasattr(pickler, "reducer_override")) else None
