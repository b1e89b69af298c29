"""Primitives: one frozen record of every rule of an op.

An op's record is made beside its public function by one of the *kinds* (`afx.ops._kinds.elementwise`), which derive the rules
below from a single derivative formula. Nothing else in afx holds knowledge about an op.

Rules compute on *values of the next lower level*: traced arrays of an outer trace or, at the ground level, bare NumPy
values, on which operators are NumPy's own and cost nothing extra. They read the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.registry import load_all

__all__ = ["Primitive", "primitives"]

Value: TypeAlias = Any  # a traced Array of a lower trace, or a bare NumPy value at the ground level
Params: TypeAlias = Mapping[str, Any]
Run: TypeAlias = Callable[..., Any]
AbstractRule: TypeAlias = Callable[..., Aval | tuple[Aval, ...]]
Pullback: TypeAlias = Callable[[Value, Value, tuple[Value, ...], Params, Shape, DType], Value]
JointPullback: TypeAlias = Callable[[Value, Value, tuple[Value, ...], Params, tuple[Aval | None, ...]], Sequence[Value]]
Pushforward: TypeAlias = Callable[[tuple[Value | None, ...], Value, tuple[Value, ...], Params], Value]
MaskRule: TypeAlias = Callable[[int, Value, tuple[Value, ...], Params, Shape], Value]
BatchRule: TypeAlias = Callable[[int, tuple[Value, ...], tuple[bool, ...], Params], Value]
RecordRule: TypeAlias = Callable[
    [tuple[Value, ...], Params, tuple[bool, ...]], tuple[Sequence[Value], Sequence[Value], JointPullback]
]
InlineRule: TypeAlias = Callable[[tuple[Value, ...], Params], tuple[Value, ...]]


@attrs.frozen(eq=False, repr=False)
class Primitive:
    """Every rule of one op.

    Attributes:
        name: the public function's name, or the nearest to it.
        kind: the family of rules it was made by: ``elementwise``, ``linear``, ``bilinear``, ``reduction``,
            ``nondifferentiable`` or ``custom``.
        run: computes on bare NumPy values, parameters by keyword; gives a NumPy value, or a tuple of them.
        abstract: the shape rule: Avals in, Aval (or a tuple) out; raises the op's errors.
        pullbacks: one per operand, ``(ct, z, xs, params, shape, dtype) -> cotangent`` of an operand of that shape and
            dtype, before unbroadcasting; a single one serves any number of operands of an elementwise op.
        joint: instead of pullbacks, ``(ct, z, xs, params, avals) -> cotangents``, where all are computed together;
            ``avals`` holds None where a cotangent is not wanted.
        reads: a bit mask per operand of what its pullback reads: bit 0 the output, bit k + 1 operand k.
        jvp: ``(tangents, z, xs, params) -> tangent``; a tangent that is zero is None.
        batch: ``(size, xs, batched, params) -> z``: operands that are batched have the batch axis in front, and so
            has the result.
        record: how a tape runs it as one entry (ops that hold functions or graphs): ``(xs, params, wanted)`` to the
            outputs, the values that its pullback reads (they arrive as ``xs``), and that pullback, a `joint` one.
        inline: how an abstract trace replaces it by the ops of the function it holds.
        held: whether graphs keep it as one equation, so that rules it carries survive; plans use ``inline``.
        multiple: whether it has a tuple of outputs.
        positive: whether it is linear with no negative coefficient, so that masks of cotangents travel through it.
        sparse: whether the cotangents of its operands are zero at places that no output read, and the others' coefficients
            are positive.
        mask: ``(operand, ct, xs, params, shape)``: where that operand's cotangent is alive (``where``, ``maximum`` …).
        bounded: whether finite operands give finite values and partials, but for overflow, so that a masked zero stays
            zero.
        ufunc: the NumPy ufunc that computes it with ``out=``, for plans.
        reduces: the NumPy ufunc whose ``reduce`` over the parameter ``axis`` computes it.
        out: ``(out, *xs, **params)``: computes it into ``out``, a contiguous array that overlaps no operand.
        along: whether it works on each slice along the parameter ``axis`` apart from the others (``softmax``).
        updates: whether the output may take the first operand's memory; ``prepare`` is then given the same array twice.
        rows: operands of which each row (of their first axis) goes into the same row of the output and no other; ``out``
            then takes any number of rows. Where ``axis`` is a parameter, this holds if that is not the first one.
        sums_rows: whether what the rows of those operands give is summed instead (a convolution's kernel).
        prepare: ``(*avals, **params)`` to a function ``(out, *xs)`` that does the same; what depends on shapes alone, and
            scratch memory, is made once. A plan prepares anew for each set of buffers, so that no two calls share it.
        text: ``(x, **params)``: the expression of a view of the array that is named x, for plans to write down.
        flops: ``(avals, params)``: the arithmetic operations, of operands and then outputs, where these do not tell.
        role: what simplification knows it as: ``reshape``, ``permute``, ``broadcast``, ``cast``, ``select``.
        floating: whether it has no integer result, so that integers compute in the default dtype.
        first_value: the operand from which on an elementwise op computes in one dtype (1 for ``where``).
        commutative: whether its two operands can be exchanged.
        identity: the number that leaves the other operand unchanged, if there is one.
        involution: whether applying it twice gives the operand.
        smooth: whether its derivative exists everywhere in its domain (tests compare with finite differences there).
        domain: an interval of operands for tests.
        view: whether the result may share an operand's memory (a view, or the operand itself).
        doc: one line for people who list the primitives.
    """

    name: str
    kind: str
    run: Run
    abstract: AbstractRule
    pullbacks: tuple[Pullback, ...] | None = None
    joint: JointPullback | None = None
    reads: tuple[int, ...] = ()
    jvp: Pushforward | None = None
    batch: BatchRule | None = None
    record: RecordRule | None = None
    inline: InlineRule | None = None
    held: bool = False
    multiple: bool = False
    positive: bool = False
    sparse: bool = False
    mask: MaskRule | None = None
    bounded: bool = False
    ufunc: np.ufunc | None = None
    reduces: np.ufunc | None = None
    out: Callable[..., None] | None = None
    along: bool = False
    updates: bool = False
    rows: tuple[int, ...] = ()
    sums_rows: bool = False
    text: Callable[..., str] | None = None
    prepare: Callable[..., Callable[..., None]] | None = None
    flops: Callable[[Sequence[Aval], Params], int] | None = None
    role: str = ""
    floating: bool = False
    first_value: int = 0
    commutative: bool = False
    identity: float | None = None
    involution: bool = False
    smooth: bool = True
    domain: tuple[float, float] = (-2.0, 2.0)
    view: bool = False
    doc: str = ""

    @property
    def differentiable(self) -> bool:
        """Whether any operand has a derivative."""
        return self.pullbacks is not None or self.joint is not None or self.record is not None

    @property
    def elementwise(self) -> bool:
        """Whether each output element depends on the operands' elements at the same (broadcast) position only."""
        return self.kind == "elementwise"

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], Primitive], tuple[str]]:
        return (lookup, (self.name,))


_REGISTRY: dict[str, Primitive] = {}
_ROLES: dict[str, Primitive] = {}
_UFUNCS: dict[np.ufunc, Primitive] = {}


def register(primitive: Primitive) -> Primitive:
    """Add a primitive to the registry; names are unique."""
    if primitive.name in _REGISTRY:
        raise RuntimeError(f"two primitives are named {primitive.name}")
    _REGISTRY[primitive.name] = primitive
    if primitive.role:
        _ROLES.setdefault(primitive.role, primitive)
    if primitive.ufunc is not None:
        _UFUNCS.setdefault(primitive.ufunc, primitive)
    return primitive


def with_role(role: str) -> Primitive:
    """Return the primitive that simplification knows by this role."""
    return _ROLES[role]


def with_ufunc(ufunc: np.ufunc) -> Primitive:
    """Return the primitive that this NumPy ufunc computes."""
    return _UFUNCS[ufunc]


def lookup(name: str) -> Primitive:
    """Return the registered primitive of this name."""
    if name not in _REGISTRY:
        load_all()
    return _REGISTRY[name]


def primitives() -> tuple[Primitive, ...]:
    """Return every registered primitive, sorted by name.

    >>> import afx
    >>> [p.name for p in afx.primitives()][:2]
    ['abs', 'acos']
    """
    load_all()
    return tuple([_REGISTRY[name] for name in sorted(_REGISTRY)])
