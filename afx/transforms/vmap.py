"""Vectorization: `vmap` turns a function of one value into a function of many."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from afx import pytree
from afx.core import Array, aval_of, broadcast_shapes, normalize_axis
from afx.core.tracing.tape import OPEN_BLOCKS
from afx.core.tracing.traces import BatchTrace, BatchTracer
from afx.errors import ArgumentError, ShapeError
from afx.ops import asarray, broadcast_to, permute_dims, reshape
from afx.pytree import Tree
from afx.transforms._arguments import check_callable, name_of, transformed
from afx.transforms.derivatives.nan_check import check_nan

P = ParamSpec("P")
R = TypeVar("R")


def vmap(fn: Callable[P, R], in_axes: Tree = 0, out_axes: Tree = 0, *, axis_size: int | None = None) -> Callable[P, R]:
    """Return a function that applies ``fn`` along an axis of its arguments, all at once.

    Args:
        fn: a function of pytrees of arrays, written for one element; a Python branch on its values raises.
        in_axes: the axis of each argument to walk along, None for arguments that are the same for all. One value counts
            for every positional argument; a tuple has an entry per argument. An entry may be a tree of axes of the
            argument's classes (a model with axes instead of arrays). Keyword arguments are walked along their first
            axis.
        out_axes: where the axis stands in the results; one value or a tree of them; None where all are equal.
        axis_size: the number of elements, needed only where no argument has a batch axis.

    Raises:
        ShapeError: an argument lacks the axis, or lengths differ; the message names the path.
        TreeError: a tree of axes does not fit what it describes.

    >>> import afx
    >>> vmap(afx.sum)(afx.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    check_callable(fn, "vmap")

    make = functools.partial(vmap, fn, in_axes, out_axes, axis_size=axis_size)

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, treedef = pytree.flatten((args, kwargs))
        fronts, axes, size = read_batch(in_axes, args, leaves, treedef, axis_size, name_of(fn))
        batch = BatchTrace(f"vmap of {name_of(fn)}", size)
        try:
            traced = [x if a is None else batch.input(x) for x, a in zip(fronts, axes, strict=True)]
            new_args, new_kwargs = pytree.unflatten(treedef, traced)
            out = fn(*new_args, **new_kwargs)
        finally:
            batch.alive = False
        outputs, out_tree = pytree.flatten(out)
        places = _axes_of_leaves(out_axes, out, "vmap with out_axes")
        results = [_place_axis(batch, x, a) for x, a in zip(outputs, places, strict=True)]

        if OPEN_BLOCKS:  # what it closes over is others' business
            check_nan(batch.name, make(), args, kwargs, results, only_named=True)
        return pytree.unflatten(out_tree, results)

    mapped: Callable[P, R] = transformed(run, "vmap", fn, make, whole=True)
    return mapped


def read_batch(
    in_axes: Any, args: tuple[Any, ...], leaves: list[Any], treedef: Any, axis_size: int | None, name: str
) -> tuple[list[Any], list[int | None], int]:
    """Return the leaves of ``(args, kwargs)`` with their axis in front, these axes, and the number of elements."""
    own = _argument_axes(in_axes, args)
    axes, paths = [*own, *[0] * (len(leaves) - len(own))], pytree.paths(treedef)
    fronts = [x if a is None else _to_front(x, a, path) for x, a, path in zip(leaves, axes, paths, strict=True)]
    return fronts, axes, _size(fronts, axes, paths, axis_size, name)


def _argument(path: str) -> str:
    """Return the path of a leaf among ``(args, kwargs)`` in words: ``argument 0.weight``, ``argument 'x'``."""
    name, _, rest = path[4:].partition("]")
    return f"argument {name}{rest}"


def _to_front(x: Any, axis: int, path: str) -> Array:
    x = asarray(x)
    if not x.ndim:
        raise ShapeError(f"vmap: {_argument(path)} has no axis to walk along: got {x.aval}; give it in_axes=None")
    return x if axis == 0 else _move_axis(x, normalize_axis(axis, x.ndim, f"vmap: {_argument(path)}"), 0)


def _move_axis(x: Array, source: int, target: int) -> Array:
    """Return x with one axis moved to another position."""
    if source == target:
        return x
    order = [a for a in range(x.ndim) if a != source]
    order.insert(target, source)
    return permute_dims(x, order)


def _size(leaves: list[Any], axes: list[Any], paths: list[str], given: int | None, name: str) -> int:
    sizes = {path: x.shape[0] for x, a, path in zip(leaves, axes, paths, strict=True) if a is not None}
    if given is not None:
        sizes[""] = given
    if not sizes:
        raise ArgumentError(f"vmap: no argument of {name} has an axis to walk along; set in_axes, or give axis_size=")
    if len(set(sizes.values())) > 1:
        got = ", ".join(f"{_argument(path) if path else 'axis_size'} of length {n}" for path, n in sizes.items())
        raise ShapeError(f"vmap: lengths along the batch axis differ: got {got}; make them equal or use in_axes=None")
    size: int = next(iter(sizes.values()))
    return size


def _argument_axes(in_axes: Any, args: tuple[Any, ...]) -> list[int | None]:
    """Return the axis of each leaf of the positional arguments."""
    if not isinstance(in_axes, (tuple, list)):
        return _axes_of_leaves(in_axes, args, "vmap with in_axes")
    if len(in_axes) != len(args):  # pyright: ignore[reportUnknownArgumentType]  # a user's tree
        raise ArgumentError(f"vmap: in_axes names {len(in_axes)} arguments: got a call with {len(args)}; match them")  # pyright: ignore[reportUnknownArgumentType]  # a user's tree
    return _axes_of_leaves(tuple(in_axes), args, "vmap with in_axes")  # pyright: ignore[reportUnknownArgumentType]  # a user's tree


def _axes_of_leaves(axes: Any, tree: Any, who: str) -> list[int | None]:
    """Return the axis of each leaf of a tree, where ``axes`` is one for all or a tree whose leaves cover subtrees."""
    if _is_axis(axes):
        return [axes if axes is None else int(axes)] * len(pytree.leaves(tree))
    axes_by_leaf = pytree.broadcast_prefix(axes, tree, is_leaf=_is_axis, who=who)
    return [None if axis is None else int(axis) for axis in axes_by_leaf]


def _is_axis(x: object) -> bool:
    return x is None or isinstance(x, (int, np.integer))


def _place_axis(batch: BatchTrace, x: Any, axis: int | None) -> Array:
    """Return an output with its batch axis where it was asked for; one that does not depend on the batch is repeated."""
    own = isinstance(x, BatchTracer) and x._trace is batch
    if axis is None:
        if own:
            raise ArgumentError(
                f"vmap: an output differs along the batch: got {aval_of(x)} with out_axes=None; give it an axis"
            )
        return asarray(x)
    value: Array = x._value if own else asarray(x)
    if not own:
        value = broadcast_to(value, (batch.size, *value.shape))
    return _move_axis(value, 0, normalize_axis(axis, value.ndim, "vmap: out_axes"))


# --- Vectorization by signature: NumPy's generalised ufuncs, of functions of arrays

_NAMED = re.compile(r"\(([\w,\s]*)\)")


def vectorize(
    pyfunc: Callable[..., R], *, excluded: Iterable[int | str] = (), signature: str | None = None
) -> Callable[..., R]:
    """Return a function that applies ``pyfunc`` to each element of arrays that broadcast, all at once.

    `numpy.vectorize` calls Python for each element; here it is traced once, as by `vmap`.

    Args:
        pyfunc: a function of numbers, or of arrays as ``signature`` says.
        excluded: positions and names of arguments that are the same for all elements.
        signature: the last axes of operands and results that belong to one call, such as ``"(m,n),(n)->(m)"``.

    Raises:
        ArgumentError: a malformed signature, or one for another number of arguments; from the function returned.
        ShapeError: operands do not broadcast, or an axis has two lengths; from the function returned.

    >>> import afx
    >>> vectorize(afx.dot, signature="(n),(n)->()")(afx.ones((4, 3)), afx.ones(3))
    Array([3., 3., 3., 3.], dtype=float32)
    """
    check_callable(pyfunc, "vectorize")
    fixed = frozenset(excluded)

    @functools.wraps(pyfunc)
    def run(*args: Any, **kwargs: Any) -> R:
        places = [k for k in range(len(args)) if k not in fixed]
        names = [name for name in kwargs if name not in fixed]
        xs = [asarray(args[k]) for k in places] + [asarray(kwargs[name]) for name in names]
        ranks = _core_ranks(signature, xs)
        lead = broadcast_shapes([x.shape[: x.ndim - rank] for x, rank in zip(xs, ranks, strict=True)])
        if lead is None:
            raise ShapeError(f"vectorize: got {', '.join([str(x.aval) for x in xs])}, which do not broadcast; reshape")
        cores = [x.shape[x.ndim - rank :] for x, rank in zip(xs, ranks, strict=True)]
        rows = [reshape(broadcast_to(x, lead + c), (math.prod(lead), *c)) for x, c in zip(xs, cores, strict=True)]

        def call(*elements: Array) -> R:
            given = list(args)
            for k, x in zip(places, elements, strict=False):
                given[k] = x
            return pyfunc(*given, **(kwargs | dict(zip(names, elements[len(places) :], strict=True))))

        results = vmap(call, axis_size=math.prod(lead))(*rows)
        return pytree.map(lambda z: reshape(z, lead + z.shape[1:]), results)

    return run


def _core_ranks(signature: str | None, xs: list[Array]) -> list[int]:
    """Return how many of the last axes of each operand belong to one call."""
    if signature is None:
        return [0] * len(xs)
    names = [[n.strip() for n in part.split(",") if n.strip()] for part in _NAMED.findall(signature.partition("->")[0])]
    if "->" not in signature or len(names) != len(xs):
        raise ArgumentError(
            f"vectorize: a signature such as '(m,n),(n)->(m)' names each operand: got {signature!r} for {len(xs)}; give one"
        )
    lengths: dict[str, int] = {}
    for x, axes in zip(xs, names, strict=True):
        own = x.shape[max(x.ndim - len(axes), 0) :]
        if len(own) < len(axes) or any(lengths.setdefault(a, n) != n for a, n in zip(axes, own, strict=True)):
            raise ShapeError(
                f"vectorize: an operand does not fit ({','.join(axes)}) of {signature!r}: got {x.aval}; reshape"
            )
    return [len(axes) for axes in names]
