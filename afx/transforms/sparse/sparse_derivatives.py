"""Sparse derivatives: `sparse_jacobian`, `sparse_hessian`.

Where each output depends on few inputs, columns that share no row are computed together. The graph of the function
gives the structurally nonzero entries. A graph coloring gives the columns that share a pass, one derivative for each
color (Curtis, Powell and Reid 1974; for symmetric matrices Coleman and Moré 1984).
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, ParamSpec

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, Aval, Tracer, aval_of, get_default_dtype, wrap
from afx.core.graph import Constant, Graph
from afx.errors import ArgumentError, DtypeError
from afx.ops import asarray, concat, reshape
from afx.ops.indexing.gather import gather
from afx.transforms._arguments import moving_leaves, transformed
from afx.transforms.compile.make_graph import to_graph
from afx.transforms.derivatives.grad import grad, vjp
from afx.transforms.derivatives.jacobian import function_of
from afx.transforms.derivatives.jvp import jvp
from afx.transforms.sparse.dependence import dependence
from afx.transforms.sparse.pattern import color, count_each, dense_rows, distinct, identities
from afx.transforms.sparse.sparse_matrix import SparseMatrix
from afx.transforms.vmap import vmap

P = ParamSpec("P")
Ints = np.ndarray[Any, np.dtype[np.int64]]
Mode = Literal["forward", "reverse"]

CACHE_SIZE = 64  # layouts of one function


@attrs.frozen(eq=False)
class Compression:
    """Where the entries are and which derivatives give them.

    Attributes:
        rows: of the entries, in row-major order.
        columns: of the entries.
        shape: of the matrix.
        seeds: the colour of each input, -1 where it has none: one forward derivative for each colour.
        back: the colour of each output, likewise for reverse derivatives.
        positions: of each entry among the forward results, then the reverse ones, each row-major.
    """

    rows: Ints
    columns: Ints
    shape: tuple[int, int]
    seeds: Ints
    back: Ints
    positions: Ints

    @property
    def sweeps(self) -> int:
        """The number of derivatives."""
        return _count(self.seeds) + _count(self.back)


def _count(colours: Ints) -> int:
    return int(colours.max(initial=-1)) + 1


def sparse_jacobian(fn: Callable[P, Any], argnums: int = 0, *, mode: Mode | None = None) -> Callable[P, SparseMatrix]:
    """Return the function of the Jacobian of ``fn`` as a sparse matrix.

    What can depend on what is read from the graph of ``fn``, once for each kind of arguments: exactly through
    elementwise operations, indexing, reshaping, joining, sums and products with constants. Elsewhere an entry may be
    listed that is always 0. Indices and masks that depend on traced numbers count as unknown.

    Args:
        fn: a function of pytrees of real arrays, without Python branches on their numbers.
        argnums: the argument to differentiate, a pytree; its elements in order are the columns.
        mode: ``forward`` or ``reverse`` derivatives only; without it the cheaper one, or both where a few rows or
            columns are full.

    Returns:
        A function of the same arguments. The elements of the result of ``fn``, in order, are the rows.

    Raises:
        DtypeError: the argument or the result is not real and floating.
        ConcreteValueError: ``fn`` asks for the value of an argument.

    >>> import afx
    >>> sparse_jacobian(lambda x: x[1:] * x[:-1])(afx.asarray([1.0, 2.0, 3.0])).todense()
    Array([[2., 1., 0.],
           [0., 3., 2.]], dtype=float32)
    """
    if mode not in (None, "forward", "reverse"):
        raise ArgumentError(f"sparse_jacobian: no such mode: got {mode!r}; use 'forward', 'reverse' or None")
    layouts = Layouts(lambda rows, columns, shape: _jacobian_layout(rows, columns, shape, mode), "sparse_jacobian")

    def run(*args: P.args, **kwargs: P.kwargs) -> SparseMatrix:
        one, x = function_of(fn, args, kwargs, argnums, "sparse_jacobian")
        return _fill_matrix(one, x, layouts.of(fn, argnums, args, kwargs))

    derivative: Callable[P, SparseMatrix] = transformed(
        run, "sparse_jacobian", fn, functools.partial(sparse_jacobian, fn, argnums, mode=mode)
    )
    return derivative


def sparse_hessian(fn: Callable[P, Array], argnums: int = 0) -> Callable[P, SparseMatrix]:
    """Return the function of the second derivatives of a scalar ``fn`` as a sparse symmetric matrix.

    Arguments, result and errors are those of `sparse_jacobian`; each derivative is a product of the Hessian with a
    direction, as `hvp` gives it.

    >>> import afx
    >>> sparse_hessian(lambda x: afx.sum(x[1:] * x[:-1]))(afx.ones(3)).todense()
    Array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    slope = grad(fn, argnums)
    layouts = Layouts(_hessian_layout, "sparse_hessian")

    def run(*args: P.args, **kwargs: P.kwargs) -> SparseMatrix:
        one, x = function_of(slope, args, kwargs, argnums, "sparse_hessian")
        return _fill_matrix(one, x, layouts.of(slope, argnums, args, kwargs))

    derivative: Callable[P, SparseMatrix] = transformed(
        run, "sparse_hessian", fn, functools.partial(sparse_hessian, fn, argnums)
    )
    return derivative


# -- layouts --
class Layouts:
    """The layouts of one function, by the kind of its arguments."""

    def __init__(self, make: Callable[[Ints, Ints, tuple[int, int]], Compression], who: str) -> None:
        self._make = make
        self._who = who
        self._known: OrderedDict[Hashable, Compression] = OrderedDict()

    def of(self, fn: Callable[..., Any], argnums: int, args: Sequence[Any], kwargs: dict[str, Any]) -> Compression:
        """Return the layout for these arguments; integers and booleans among them are part of the kind."""
        n = argnums % len(args)
        leaves, treedef = pytree.flatten((args[n], (args[:n], args[n + 1 :]), kwargs))
        fixed = [_constant(x) for x in leaves]
        avals = [aval_of(x, self._who) for x in leaves]
        key = (treedef, tuple(fixed), tuple(avals), get_default_dtype())
        if key in self._known:
            return self._known[key]
        first, tree = pytree.flatten(args[n])
        moving_leaves(first, tree, self._who, strict=True)
        self._check_real(avals[: len(first)], "argument")
        moving = [k for k, c in enumerate(fixed) if c is None]

        def flat(*values: Any) -> Any:
            full = list(leaves)
            for k, v in zip(moving, values, strict=True):
                full[k] = v
            x, (before, after), by_name = pytree.unflatten(treedef, full)
            return fn(*before, x, *after, **by_name)

        inputs = [Aval(avals[k].shape, avals[k].dtype) for k in moving]
        named: dict[str, Any] = {}
        traced = to_graph(flat, pytree.structure((tuple(inputs), named)), inputs, self._who)
        outputs = [a.aval for a in traced.graph.outputs]
        if not outputs:
            raise ArgumentError(f"{self._who}: the function returns no arrays: got none; return some")
        self._check_real(outputs, "result")
        layout = self._make(*_entries(traced.graph, len(first)))
        if not traced.lifted:
            while len(self._known) >= CACHE_SIZE:
                self._known.popitem(last=False)
            self._known[key] = layout
        return layout

    def _check_real(self, avals: Sequence[Aval], what: str) -> None:
        for a in avals:
            if a.dtype.kind != "f":
                raise DtypeError(
                    f"{self._who}: real numbers only: got {a} in the {what}; split complex numbers into their parts, "
                    "and leave integers out"
                )


def _constant(x: Any) -> Constant | None:
    """Return an array or number of integers or booleans whose value is known."""
    if isinstance(x, Tracer) or aval_of(x).dtype.kind in "fc":
        return None
    return Constant(np.asarray(x))


def _entries(graph: Graph, count: int) -> tuple[Ints, Ints, tuple[int, int]]:
    """Return the rows and columns of what outputs depend on among the first inputs, and the matrix's shape."""
    sizes = [v.aval.size for v in graph.inputs[:count]]
    known = {v.index: p for v, p in zip(graph.inputs[:count], identities(sizes), strict=True)}
    rows, columns, height = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for atom, pattern in zip(graph.outputs, dependence(graph, known), strict=True):
        if pattern is not None:
            i, j = pattern.entries()
            rows.append(i + height)
            columns.append(j)
        height += atom.aval.size
    return np.concatenate(rows), np.concatenate(columns), (height, sum(sizes))


def _jacobian_layout(rows: Ints, columns: Ints, shape: tuple[int, int], mode: Mode | None) -> Compression:
    """Return the layout with the fewest derivatives; no mode is tried that cannot have fewer than the other one."""
    sides = {"forward": (rows, columns, shape), "reverse": (columns, rows, (shape[1], shape[0]))}
    tried = {name: side for name, side in sides.items() if mode in (None, name)}
    at_least = {name: _fewest(lines, sizes, mode is None) for name, (lines, _, sizes) in tried.items()}
    best = min(tried, key=lambda name: at_least[name])
    split = {best: _split(*tried.pop(best), mode is None)}
    for other, side in tried.items():
        if at_least[other] < _sweeps(split[best]):
            split[other] = _split(*side, mode is None)
    chosen = min(split, key=lambda name: (_sweeps(split[name]), name))
    seeds, back = split[chosen] if chosen == "forward" else split[chosen][::-1]
    alone = back[rows] >= 0 if chosen == "forward" else seeds[columns] < 0
    positions = np.where(
        alone, _count(seeds) * shape[0] + back[rows] * shape[1] + columns, seeds[columns] * shape[0] + rows
    )
    return Compression(rows, columns, shape, seeds, back, positions)


def _sweeps(pair: tuple[Ints, Ints]) -> int:
    return _count(pair[0]) + _count(pair[1])


def _fewest(rows: Ints, shape: tuple[int, int], both: bool) -> int:
    """Return how many derivatives there are at least: one for each entry of the fullest row that is not set apart."""
    counts = count_each(rows, max(shape[0], 1))
    full = dense_rows(counts) if both and len(rows) else np.zeros(0, np.int64)
    counts[full] = 0
    return len(full) + int(counts.max())


def _split(rows: Ints, columns: Ints, shape: tuple[int, int], both: bool) -> tuple[Ints, Ints]:
    """Return colours of the columns for all entries but those of full rows, and of these rows, one each."""
    alone = np.full(shape[0], -1, np.int64)
    if both and len(rows):
        full = dense_rows(count_each(rows, shape[0]))
        alone[full] = np.arange(len(full))
    rest = alone[rows] < 0
    return color(rows[rest], columns[rest], shape), alone


def _hessian_layout(rows: Ints, columns: Ints, shape: tuple[int, int]) -> Compression:
    """Return the layout of a symmetric matrix: full columns have a colour each, and give their rows as well."""
    n = shape[0]
    keys = distinct(np.concatenate([rows * n + columns, columns * n + rows]))
    rows, columns = np.divmod(keys, max(n, 1))
    full = dense_rows(count_each(rows, n))
    alone = np.zeros(n, bool)
    alone[full] = True
    rest = ~alone[rows] & ~alone[columns]
    seeds = color(rows[rest], columns[rest], shape)
    seeds[full] = _count(seeds) + np.arange(len(full))
    turned = alone[rows] & ~alone[columns]
    i, j = np.where(turned, columns, rows), np.where(turned, rows, columns)
    return Compression(rows, columns, shape, seeds, np.full(n, -1, np.int64), seeds[j] * n + i)


# -- values --
def _fill_matrix(fn: Callable[[Any], Any], x: Any, layout: Compression) -> SparseMatrix:
    """Return the matrix of the derivative of a function at x."""
    leaves, treedef = pytree.flatten(x)
    leaves = [asarray(v) for v in leaves]
    primal = pytree.unflatten(treedef, leaves)
    compressed: list[Array] = []
    if _count(layout.seeds):

        def push(t: Any) -> Any:
            return pytree.leaves(jvp(fn, (primal,), (t,))[1])

        compressed.append(_flat(vmap(push)(pytree.unflatten(treedef, _seeds(layout.seeds, leaves)))))
    if _count(layout.back):
        out, pullback = vjp(fn, primal)
        outputs, out_tree = pytree.flatten(out)

        def pull(ct: list[Array]) -> Any:
            return pytree.leaves(pullback(pytree.unflatten(out_tree, ct))[0])

        compressed.append(_flat(vmap(pull)(_seeds(layout.back, outputs))))
    indices = wrap(np.stack([layout.rows, layout.columns], axis=1))
    if not compressed:
        return SparseMatrix(asarray(np.zeros(0, leaves[0].dtype if leaves else None)), indices, layout.shape)
    values = compressed[0] if len(compressed) == 1 else concat(compressed)
    return SparseMatrix(gather(values, wrap(layout.positions)), indices, layout.shape)


def _seeds(colours: Ints, leaves: Sequence[Any]) -> list[Array]:
    """Return for each colour the direction in which all elements of it move: leaf k is ``[colours] + shape``."""
    directions: list[Array] = []
    start = 0
    for x in leaves:
        aval = aval_of(x)
        leaf_colours = colours[start : start + aval.size]
        seeds = np.zeros((_count(colours), aval.size), aval.dtype)
        positions = np.flatnonzero(leaf_colours >= 0)
        seeds[leaf_colours[positions], positions] = 1
        directions.append(wrap(seeds.reshape(len(seeds), *aval.shape)))
        start += aval.size
    return directions


def _flat(leaves: Sequence[Array]) -> Array:
    """Return batched leaves as one vector, the elements of all leaves side by side for each member of the batch."""
    rows = [reshape(x, (x.shape[0], x.size // x.shape[0])) for x in leaves]
    return reshape(rows[0] if len(rows) == 1 else concat(rows, axis=1), (-1,))
