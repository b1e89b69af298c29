"""Steps: what an optimizer is, the trained leaves and their masks, and updates applied to checked parameters."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, overload

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, DType, Function, Shown, aval_of, bool_, float16, float32, real_dtype
from afx.errors import ArgumentError, DtypeError, ShapeError, TreeError
from afx.ops import asarray, full, max as largest, sqrt, vector_norm, where, zeros
from afx.pytree import Leaf, Tree, TreeDef
from afx.pytree.trees import check_matching, check_structure
from afx.transforms._arguments import check_integers
from afx.transforms.custom_derivatives import custom_jvp

__all__ = ["EmptyState", "Labels", "Mask", "Optimizer", "Rescaling", "Transformation", "map_trained"]

# --- Protocols: transformations change gradients, optimizers make steps of them; the two share `init` alone
#
# A `Transformation` takes gradients and returns updates that still point uphill: `scale_by_adam`, clips, weight
# decay. A `Rescaling` is one that only changes their size. An `Optimizer` turns the sign: it has `step`, and
# `descend`, which returns what to add to the parameters. All are frozen and pure: state in, state out.

T = TypeVar("T")
S = TypeVar("S")


class Transformation(Protocol[S]):
    """Changes gradients and keeps their sign; ``S`` is its state."""

    # Any, for the state's type follows from that of the parameters, and no protocol can say how
    def init(self, params: Any, /) -> S:
        """Return the state for parameters of this structure."""
        ...

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None, /) -> tuple[T, S]:
        """Return the changed gradients, which still point uphill, and the next state."""
        ...


class Rescaling(Transformation[S], Protocol[S]):
    """A transformation that only changes sizes, so that it may stand behind an optimizer too."""

    rescales: ClassVar[Literal[True]]


class Optimizer(Protocol[S]):
    """Makes steps that go downhill; ``S`` is its state."""

    def init(self, params: Any, /) -> S:
        """Return the state for parameters of this structure."""
        ...

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None, /) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state."""
        ...

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state."""
        ...


@attrs.frozen
class EmptyState(Shown):
    """The state of what has none."""


# --- Leaves: the part of a model that is trained, and the arithmetic that optimizers share


def trained_leaves(leaves: Sequence[Any], treedef: TreeDef[Any]) -> list[bool]:
    """Tell of each leaf whether it is trained: a floating or complex one outside of `non_trainable` fields."""
    inexact = [(x._value.dtype if x.__class__ is Array else aval_of(x).dtype).kind in "fc" for x in leaves]  # each step
    marked = pytree.marked_leaves(treedef)
    return [i and not m for i, m in zip(inexact, marked, strict=True)] if marked else inexact


def is_trained(leaf: Any) -> bool:
    """Tell whether a leaf is floating or complex."""
    return (leaf._value.dtype if leaf.__class__ is Array else aval_of(leaf).dtype).kind in "fc"


def hidden() -> Array:
    """Return what stands, inside of rules and states, for a leaf that is not trained."""
    return zeros((0,), bool_)


def _is_hidden(leaf: Any) -> bool:
    aval = aval_of(leaf)
    return aval.shape == (0,) and aval.dtype == bool_


def hide(tree: T, seen: Sequence[object]) -> T:
    """Return a tree in which the leaves that are not seen are hidden."""
    leaves, treedef = pytree.flatten(tree)
    return pytree.unflatten(treedef, [x if s is not False else hidden() for x, s in zip(leaves, seen, strict=True)])


def still(like: Any) -> Array:
    """Return the update of a parameter that stays exactly as it is: no number, of its shape."""
    return zeros(aval_of(like).shape, bool_)


def check_params(leaves: Sequence[Any], treedef: TreeDef[Any], who: str) -> list[bool]:
    """Return which leaves are trained, or raise where there are parameters, but none that is."""
    for x in leaves:
        if x.__class__ is not Array:
            aval_of(x, who)
    check_integers(leaves, treedef, who, lambda path: f"params{path}")
    trained = trained_leaves(leaves, treedef)
    if leaves and not any(trained) and not any(map(_is_hidden, leaves)):
        raise DtypeError(
            f"{who}: parameters are floating or complex: got params{pytree.paths(treedef)[0]} = {aval_of(leaves[0])} "
            "and no leaf that is trained; convert one to a float, or take its mark afx.non_trainable() off"
        )
    return trained


@overload
def map_trained(fn: Callable[[Any], object], tree: T, /) -> T: ...
@overload
def map_trained(fn: Callable[[Any, Any], object], tree: T, other: object, /) -> T: ...
@overload
def map_trained(fn: Callable[[Any, Any, Any], object], tree: T, other: object, third: object, /) -> T: ...
@overload
def map_trained(fn: Callable[..., object], tree: T, /, *rest: object) -> T: ...
def map_trained(fn: Callable[..., object], tree: T, /, *rest: object) -> T:
    """Apply a function to every trained leaf, or to the matching ones of several trees, as `afx.pytree.map` does.

    Where a leaf of any of the trees is neither floating nor complex, the first tree's leaf is kept.

    >>> import afx
    >>> map_trained(lambda p: 2 * p, {"w": afx.ones(2), "count": afx.asarray(3)})
    {'w': Array([2., 2.], dtype=float32), 'count': Array(3, dtype=int64)}
    """

    def apply(*leaves: Any) -> object:
        for x in leaves:
            if (x._value.dtype if x.__class__ is Array else aval_of(x).dtype).kind not in "fc":
                return leaves[0]
        return fn(*leaves)

    return pytree.map(apply, tree, *rest)


def to_compute_dtype(x: Array) -> Array:
    """Return a leaf in the dtype that rules compute in: float16 becomes float32."""
    return x.astype(float32) if (x._value if x.__class__ is Array else x).dtype == float16 else x


def _zeros(p: Any, real: bool) -> Array:
    aval = aval_of(p)
    dtype: DType = np.result_type(aval.dtype, float32)  # squares of float16 would not fit float16
    return zeros(aval.shape, real_dtype(dtype) if real else dtype)


def zeros_of(params: T, who: str, *, real: bool = False) -> T:
    """Return zeros of the shapes of all trained parameters, which are checked; float16 gives float32.

    Args:
        params: the parameters.
        who: whose state it is, for messages.
        real: real zeros for complex parameters as well.
    """
    leaves, treedef = pytree.flatten(params)
    trained = check_params(leaves, treedef, who)
    return pytree.unflatten(treedef, [_zeros(p, real) if t else hidden() for p, t in zip(leaves, trained, strict=True)])


def filled(tree: T, value: float | Array) -> T:
    """Return a tree with one value in all trained leaves."""

    def constant(x: Any) -> Array:
        aval = aval_of(x)
        return full(aval.shape, value, aval.dtype)

    return map_trained(constant, tree)


def compute_params(params: T) -> T:
    """Return parameters as rules see them: in the dtype they compute in, what is not trained hidden."""
    leaves, treedef = pytree.flatten(params)
    trained = trained_leaves(leaves, treedef)
    seen = [to_compute_dtype(asarray(x)) if t else hidden() for x, t in zip(leaves, trained, strict=True)]
    return pytree.unflatten(treedef, seen)


def restored(tree: T, newest: T) -> T:
    """Return a tree with the newest values of leaves that are not trained."""
    leaves, treedef = pytree.flatten(newest)
    trained = trained_leaves(leaves, treedef)
    newest_leaves = [x if t else y for x, y, t in zip(pytree.leaves(tree), leaves, trained, strict=True)]
    return pytree.unflatten(treedef, newest_leaves)


def to_numbers(updates: T, params: T) -> T:
    """Return updates with a number for each trained parameter, -0.0 for those that stay still: x + -0.0 is x."""
    leaves, treedef = pytree.flatten(params)
    pairs = zip(leaves, pytree.leaves(updates), strict=True)
    return pytree.unflatten(
        treedef, [u if is_trained(u) or not is_trained(p) else full(p.shape, -0.0, p.dtype) for p, u in pairs]
    )


def as_real(scalar: float | Array, like: Array) -> float | Array:
    """Return a scalar in the real dtype of a leaf, so that the leaf keeps its dtype; a number stays one."""
    if not isinstance(scalar, Array):
        return scalar
    return scalar.astype(real_dtype((like._value if like.__class__ is Array else like).dtype))


def average(old: T, new: T, decay: float | Array) -> T:
    """Return the moving average ``decay · old + (1 - decay) · new``, leaf by leaf."""
    return map_trained(lambda m, x: as_real(decay, m) * m + as_real(1 - decay, m) * x, old, new)


def average_square(old: T, new: T, decay: float | Array) -> T:
    """Return the moving average of squares of absolute values, leaf by leaf."""
    return map_trained(lambda n, x: as_real(decay, n) * n + as_real(1 - decay, n) * square(x), old, new)


def times(tree: T, factor: float | Array) -> T:
    """Return a tree multiplied by a real scalar."""
    return map_trained(lambda x: as_real(factor, x) * x, tree)


def square(x: Array) -> Array:
    """Return the square of the absolute value, real for complex x too."""
    return (x * x.conj()).real if (x._value if x.__class__ is Array else x).dtype.kind == "c" else x * x


def _root_rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    z = sqrt(primals[0])
    return z, where(z > 0, 0.5 * tangents[0] / where(z > 0, z, 1.0), 0.0)


# The root of a mean square is |g| where one gradient was seen: where it is 0, so is what it divides, and the derivative
# of a whole step is finite. Through sqrt it would be inf · 0.
_traced_sqrt: Callable[[Array], Array] = custom_jvp(sqrt, _root_rule)


def safe_sqrt(x: Array) -> Array:
    """Return the root, whose derivative at 0 is 0; an array that is not traced needs no rule."""
    return sqrt(x) if x.__class__ is Array else _traced_sqrt(x)


# --- Masks and labels: prefix trees, or functions of path and leaf, that choose parameters

Mask: TypeAlias = "Tree | Callable[[str, Leaf], bool]"
Labels: TypeAlias = "Tree | Callable[[str, Leaf], str]"


def mask_leaves(mask: Mask, params: Tree, who: str) -> list[Any]:
    """Return what a mask says of each leaf: True, False, or a boolean array that broadcasts to it.

    Raises:
        TreeError, ShapeError, DtypeError: the mask does not fit the parameters; the message names the path.
    """
    leaves, treedef = pytree.flatten(params)
    masks = [
        _as_bool(m) for m in _spread(mask, params, who, lambda x: isinstance(x, (bool, np.bool_, np.ndarray, Array)))
    ]
    for k, (m, leaf) in enumerate(zip(masks, leaves, strict=True)):
        if not isinstance(m, bool) and is_trained(leaf):
            _check_mask(m, leaf, pytree.paths(treedef)[k], who)
    return masks


def label_leaves(labels: Labels, params: Tree, who: str) -> list[str]:
    """Return the label of each leaf.

    Raises:
        TreeError: the labels do not fit the parameters; the message names the path.
        ArgumentError: a label is no string.
    """
    names = _spread(labels, params, who, lambda x: isinstance(x, str))
    for k, label in enumerate(names):
        if not isinstance(label, str):
            path = pytree.paths(pytree.structure(params))[k]
            raise ArgumentError(f"{who}: a label is a string: got {label!r} for params{path}; return a name")
    return names


def _spread(prefix: Any, params: Tree, who: str, is_value: Callable[[Any], bool]) -> list[Any]:
    """Return what a prefix tree, or a function, says of each leaf."""
    if callable(prefix):
        if takes_one(prefix):
            return _spread(prefix(params), params, who, is_value)
        return [prefix(path, leaf) for path, leaf in pytree.flatten_with_path(params)[0]]
    return pytree.broadcast_prefix(prefix, params, is_leaf=is_value, who=who)


def takes_one(fn: Function) -> bool:
    """Tell whether a function needs one argument alone: the parameters, where others take path and leaf."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    return len([p for p in positional if p.default is p.empty]) == 1


def _as_bool(x: Any) -> Any:
    return bool(x) if isinstance(x, np.bool_) else x  # pyright: ignore[reportUnknownArgumentType]  # a NumPy bool of unknown kind


def _check_mask(mask: Any, param: Any, path: str, who: str) -> None:
    """Raise where a mask is not of booleans or does not broadcast to its parameter."""
    aval, wanted = aval_of(mask, who), aval_of(param)
    if aval.dtype != bool_:
        raise DtypeError(f"{who}: a mask is boolean: got mask{path} = {aval}; compare, as in mask != 0")
    lengths = zip(reversed(aval.shape), reversed(wanted.shape), strict=False)
    if aval.ndim > wanted.ndim or any(n not in (1, length) for n, length in lengths):
        raise ShapeError(
            f"{who}: a mask broadcasts to its parameter: got mask{path} = {aval} for {wanted}; change its shape"
        )


# --- Shards: norms of arrays of which each slot has a part, for optimizers whose state is divided among slots

_gather: Final[contextvars.ContextVar[Callable[[Array], Array] | None]] = contextvars.ContextVar(
    "afx shards", default=None
)


@contextlib.contextmanager
def sharded_by(gather: Callable[[Array], Array]) -> Generator[None, None, None]:
    """Let arrays of optimizers be parts of larger ones.

    Args:
        gather: a scalar to those of all parts, in their order.
    """
    token = _gather.set(gather)
    try:
        yield
    finally:
        _gather.reset(token)


def are_sharded() -> bool:
    """Tell whether arrays are parts of larger ones."""
    return _gather.get() is not None


def norm_of_shards(norm: Array) -> Array:
    """Return Euclid's norm of an array from that of this part."""
    gather = _gather.get()
    return norm if gather is None else vector_norm(gather(norm))


def largest_of_shards(x: Array) -> Array:
    """Return the largest of the numbers of all parts."""
    gather = _gather.get()
    return x if gather is None else largest(gather(x))


# --- Steps: apply an optimizer's updates to the parameters, once gradients and state are checked
#
# Inside of an optimizer float16 leaves are float32, and gradients of complex parameters are conjugated, which makes
# them point uphill; in place of leaves that are not trained stand empty boolean arrays, which `map_trained` passes
# over. `apply_rule` sees to all of it.

OTHER_PARAMS = "the state is of other parameters: call init"


class Steps(Shown, Generic[S]):
    """The base of optimizers: `step` from `descend`."""

    __slots__ = ()

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state."""
        raise NotImplementedError  # each optimizer has its own

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state; ``value`` is the loss at ``params``, where it is needed."""
        return apply_rule(self.descend, params, grads, state, value)


def apply_rule(
    descend: Callable[[T, S, T, ArrayLike | None], tuple[T, S]], params: T, grads: T, state: S, value: ArrayLike | None
) -> tuple[T, S]:
    """Return parameters moved by an optimizer's updates, each leaf in its own dtype, and its next state.

    Raises:
        TreeError, ShapeError, DtypeError: gradients or state do not belong to the parameters; the message names the path.
    """
    leaves, treedef = pytree.flatten(params)
    trained = check_params(leaves, treedef, "step")
    slopes = _ascents(grads, leaves, treedef)
    old = [asarray(p) if t and p.__class__ is not Array else p for p, t in zip(leaves, trained, strict=True)]
    whole = [to_compute_dtype(p) if t else hidden() for p, t in zip(old, trained, strict=True)]
    uphill = [to_compute_dtype(g) if t else hidden() for g, t in zip(slopes, trained, strict=True)]
    try:
        updates, after = descend(pytree.unflatten(treedef, uphill), state, pytree.unflatten(treedef, whole), value)
    except TreeError as error:
        if not str(error).startswith("map:"):
            raise
        raise TreeError(f"step: the state is of other parameters ({error}); call init(params)") from error
    except ShapeError as error:
        if "not be broadcast" not in str(error):
            raise
        raise ShapeError(f"step: the state is of other parameters: got {error}; call init(params)") from error
    check_state(state, after)
    steps = pytree.leaves(updates)
    moves = _moving(trained, whole, steps, treedef)
    moved = [_move(p, w, u) if m else p for p, w, u, m in zip(old, whole, steps, moves, strict=True)]
    return pytree.unflatten(treedef, moved), after


def _move(param: Array, whole: Array, update: Array) -> Array:
    """Return a parameter, given in the dtype of rules too, moved in its own dtype."""
    moved = whole + update
    return moved if _are_alike((moved,), (param,)) else moved.astype(param.dtype)


def _ascents(grads: Any, leaves: Sequence[Any], treedef: TreeDef[Any]) -> list[Array]:
    """Return the leaves of the gradients, complex ones conjugate, as they ascend, or raise where they differ from parameters."""
    slopes, slope_tree = pytree.flatten(grads)
    check_structure(slope_tree, treedef, "step", "grads", "pass what afx.grad returns")
    if not _are_alike(slopes, leaves):
        avals, wanted = [aval_of(g, "step") for g in slopes], [aval_of(p, "step") for p in leaves]
        check_matching(avals, wanted, treedef, "step", "grads", "pass what afx.grad returns")
    return [x.conj() if (x := g if g.__class__ is Array else asarray(g)).dtype.kind == "c" else x for g in slopes]


def _are_alike(leaves: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Tell whether leaves are arrays of the wanted shapes and dtypes, at the cost of one call for all of them."""
    for x, y in zip(leaves, wanted, strict=True):
        if x.__class__ is not Array or y.__class__ is not Array:
            return False
        if x._value.shape != y._value.shape or x._value.dtype != y._value.dtype:
            return False
    return True


def check_state(before: Any, after: Any) -> None:
    """Raise where a step would change the shape of its state, which was then made for other parameters."""
    old, treedef = pytree.flatten(before)
    new, structure = pytree.flatten(after)
    check_structure(treedef, structure, "step", "state", OTHER_PARAMS)
    if not _are_alike(old, new):
        avals, wanted = [aval_of(x, "step") for x in old], [aval_of(x, "step") for x in new]
        # numbers may replace settings
        check_matching(avals, wanted, treedef, "step", "state", OTHER_PARAMS, dtypes="weak")


def _moving(
    trained: list[bool], leaves: Sequence[Array], updates: Sequence[Array], treedef: TreeDef[Any]
) -> list[bool]:
    """Return which parameters move, or raise where one would change its shape."""
    if _are_alike(updates, leaves):
        return trained
    for k, (p, u) in enumerate(zip(leaves, updates, strict=True)):
        if p.shape != u.shape:
            path = pytree.paths(treedef)[k]
            raise ShapeError(
                f"step: the state is of other parameters: got an update {u.aval} of params{path} = {p.aval}; call init"
            )
    return [t and is_trained(u) for t, u in zip(trained, updates, strict=True)]


def check_kind(state: object, kind: type, who: str) -> None:
    """Raise where a state belongs to another optimizer."""
    if not isinstance(state, kind):
        raise TreeError(
            f"{who}: its state is of type {kind.__name__}: got {type(state).__name__}; call init(params) of the same "
            "optimizer"
        )
