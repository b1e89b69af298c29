"""Primitives: one frozen record of every rule of an op, and weakness, which dtype numbers take from arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, dataclass_transform

import numpy as np

from afx.core.array.array import Array, to_numpy_value, wrap
from afx.core.aval import Aval, Shape, aval_of, common_dtype
from afx.core.dtypes import DType, default_complex, get_default_dtype, real_dtype
from afx.core.registry import FUNCTIONS, Function, load_all
from afx.errors import OperandError

# --- Primitives
#
# An op's record is made beside its public function by one of the *kinds* (`afx.ops._kinds.elementwise`), which derive
# the rules below from a single derivative formula. Nothing else in afx holds knowledge about an op.
#
# Rules compute on *values of the next lower level*: traced arrays of an outer trace or, at the ground level, bare
# NumPy values, on which operators are NumPy's own and cost nothing extra. They read the same either way.

Value: TypeAlias = Any  # a traced Array of a lower trace, or a bare NumPy value at the ground level
Values: TypeAlias = tuple[Value, ...]
Tangents: TypeAlias = tuple[Value | None, ...]  # None where one is zero
Bools: TypeAlias = tuple[bool, ...]
Params: TypeAlias = Mapping[str, Any]
AbstractRule: TypeAlias = Callable[..., Aval | tuple[Aval, ...]]
Pullback: TypeAlias = Callable[[Value, Value, Values, Params, Shape, DType], Value]
JointPullback: TypeAlias = Callable[[Value, Value, Values, Params, tuple[Aval | None, ...]], Sequence[Value]]
Pushforward: TypeAlias = Callable[[Tangents, Value, Values, Params], Value]
MaskRule: TypeAlias = Callable[[int, Value, Values, Params, Shape], Value]
LiveRule: TypeAlias = Callable[[int, Value, tuple[Aval, ...], Params], Value]
Takes: TypeAlias = Callable[[Sequence[Aval], Params], bool]
BatchRule: TypeAlias = Callable[[int, Values, Bools, Params], Value]
ConcreteVjp: TypeAlias = Callable[[Values, Params, Bools], tuple[Sequence[Value], Sequence[Value], JointPullback]]
DecomposeRule: TypeAlias = Callable[[Values, Params], Values]


@dataclass_transform(frozen_default=True, eq_default=False)
class Record:
    """A record that is set once, whose annotated names are its fields, as attrs makes it for 0.2 ms of every import."""

    _defaults: dict[str, Any]

    def __init_subclass__(cls) -> None:
        cls._defaults = {name: vars(cls)[name] for name in cls.__annotations__ if name in vars(cls)}

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self.__class__.__annotations__
        fields = self.__class__._defaults | dict(zip(names, values, strict=False)) | named
        if fields.keys() != names.keys() or len(values) > len(names):
            wrong = ", ".join(sorted(fields.keys() ^ names.keys()))
            raise TypeError(
                f"{self.__class__.__name__}: fields that are missing or unknown: got {wrong}; see its docstring"
            )
        self.__dict__.update(fields)
        self.__dict__.update(self._derived())

    def _derived(self) -> dict[str, Any]:
        """Return further attributes, which follow from the fields: read so often that a property's call would count."""
        return {}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self.__class__.__name__}: {name} cannot be set: got {value!r}; make a new record")


class Printable:
    """The base of the compiler's frozen attrs classes: their texts, which attrs would make in 0.2 ms for each of ninety."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [f"{a.name}={getattr(self, a.name)!r}" for a in getattr(type(self), "__attrs_attrs__", ()) if a.repr]
        return f"{type(self).__name__}({', '.join(shown)})"


class Derivative(Record):
    """How an op is differentiated.

    Attributes:
        vjps: one per operand, ``(ct, z, xs, params, shape, dtype) -> cotangent`` of an operand of that shape and dtype,
            before unbroadcasting; a single one serves any number of operands of an elementwise op.
        vjp_all: instead of vjps, ``(ct, z, xs, params, avals) -> cotangents``, where all are computed together; ``avals``
            holds None where a cotangent is not wanted.
        reads: a bit mask per operand of what its vjp reads: bit 0 the output, bit k + 1 operand k.
        jvp: ``(tangents, z, xs, params) -> tangent``; a tangent that is zero is None.
        concrete_vjp: runs an op that holds functions or graphs as one entry of a tape: ``(xs, params, wanted)`` to the
            outputs, the residuals (they arrive as ``xs``), and a `vjp_all` rule.
        through: ``(*xs, **params)``: computes it by other ops, which are differentiated in its place: what they have
            computed is not computed again on the way back.
    """

    vjps: tuple[Pullback, ...] | None = None
    vjp_all: JointPullback | None = None
    reads: tuple[int, ...] = ()
    jvp: Pushforward | None = None
    concrete_vjp: ConcreteVjp | None = None
    through: Function | None = None


class Masking(Record):
    """How an op treats masks of cotangents.

    Attributes:
        nonnegative_linear: whether it is linear with no negative coefficient, so that masks travel through it.
        selects: whether elements of its operands that no output reads get a zero cotangent, and the coefficients of the
            others are positive.
        mask: ``(operand, z, xs, params, shape)`` to the mask of an operand's cotangent (``where``, ``maximum`` …).
        alive: ``(operand, mask, avals, params)``: where living elements of the output read that operand, in a shape that
            broadcasts with it or with its cotangent before unbroadcasting; of ops whose records do not tell otherwise.
        core_axes: the number of last axes whose elements it mixes, where the others are independent (``solve``: 2).
        finite_partials: whether finite operands give finite values and partials, but for overflow, so that a masked zero
            stays zero.
        is_read: whether its `vjp_all` takes ``alive=``: of each output, whether or where its cotangent is alive, since a
            zero of it may stand for 0 / 0.
    """

    nonnegative_linear: bool = False
    selects: bool = False
    mask: MaskRule | None = None
    alive: LiveRule | None = None
    core_axes: int = 0
    finite_partials: bool = False
    is_read: bool = False


class Lowering(Record):
    """How a compiled plan computes an op.

    Attributes:
        ufunc: the NumPy ufunc that computes it with ``out=``.
        scipy_ufunc: the name of SciPy's ufunc that computes it, where that is all.
        reduce_ufunc: the NumPy ufunc whose ``reduce`` over the parameter ``axis`` computes it.
        impl_into: ``(out, *xs, **params)``: computes it into ``out``, a contiguous array that overlaps no operand.
        native: ``(xp, *outs, *xs, **params)``: what machine code does, on recorded arrays of the results and operands: the
            op's own implementation, where that is written for any `afx.compiler.schedule.arrays.Arrays`, or calls in its order.
        formula: ``(*xs, **params)``: computes it by other ops, of any arrays that answer to NumPy; those of an elementwise op
            have one dtype. It stands for the op where a target or a language lacks it.
        formula_kinds: NumPy's dtype kinds for which an elementwise op has that formula.
        formula_sums: whether that sums over axes of its own, which the loop of a ufunc does not.
        takes_formula: ``(avals, params)``: whether it has that formula for these; always where it is absent.
        takes_native: ``(avals, params)``: whether machine code has that native form for these, in place of a formula; always
            where it is absent.
        parts: the same of complex operands, given as pairs of their parts: a pair, or a real result. Where some operands are
            indices, these are given as they are.
        takes_empty: whether that takes operands and results without elements, too; else there is nothing to compute where
            results have none, and a plan leaves what makes others of nothing to NumPy.
        make_kernel: ``(*avals, **params)`` to a function ``(out, *xs)`` that does the same; results of shapes alone, and
            scratch memory, are made once. A plan makes a kernel for each set of buffers, so that no two calls share it.
        emit_view: ``(x, **params)``: the expression of a view of the array that is named x.
        flops: ``(avals, params)``: the arithmetic operations, of operands and then outputs, where these do not tell.
        may_alias: whether the result may share an operand's memory (a view, or the operand itself).
        slicewise_over_axis: whether it works on each slice along the parameter ``axis`` alone (``softmax``).
        updates_first_operand: whether the output may take the first operand's memory; ``make_kernel`` is then given the
            same array twice.
        batch_operands: operands of which each row (of their first axis) goes into the same row of the output and no
            other; ``impl_into`` then takes any number of rows. Where ``axis`` is a parameter, this holds for other axes.
        sums_over_batch: whether the results of those rows are summed instead (a convolution's kernel).
        calls_lapack: whether it calls LAPACK, which may use several threads for large operands.
        control: of ops that hold graphs, the parameters to their `afx.compiler.schedule.schedule.ControlSpec`.
        hold: of the op that runs one of several graphs, these to its parameters.
    """

    ufunc: np.ufunc | None = None
    scipy_ufunc: str = ""
    reduce_ufunc: np.ufunc | None = None
    impl_into: Callable[..., None] | None = None
    native: Callable[..., None] | None = None
    formula: Function | None = None
    formula_kinds: str = "f"
    formula_sums: bool = False
    takes_formula: Takes | None = None
    takes_native: Takes | None = None
    parts: Function | None = None
    takes_empty: bool = False
    make_kernel: Callable[..., Callable[..., None]] | None = None
    emit_view: Callable[..., str] | None = None
    flops: Callable[[Sequence[Aval], Params], int] | None = None
    may_alias: bool = False
    slicewise_over_axis: bool = False
    updates_first_operand: bool = False
    batch_operands: tuple[int, ...] = ()
    sums_over_batch: bool = False
    calls_lapack: bool = False
    control: Callable[[Params], Any] | None = None
    hold: Callable[[Sequence[Any]], tuple[tuple[str, Any], ...]] | None = None


class Algebra(Record):
    """Identities that simplification may use.

    Attributes:
        canonical: the structural role: ``reshape``, ``permute``, ``broadcast``, ``cast``, ``fit``, ``select``,
            ``concat``, ``stack``; ``slice``, its transpose ``embed``, and ``set_part`` and ``add_part``, which update the
            part that a slice with its ``index`` takes; ``gather`` and its transpose ``scatter``, whose zeros
            stay zeros whatever they are multiplied with; ``reduce_or``; ``switch``, which runs one of several graphs;
            ``stop_gradient``, which plans do without; ``rint``, as NumPy's ufunc rounds floats.
        commutative: whether its two operands can be exchanged.
        identity: the number that leaves the other operand unchanged, if there is one.
        involution: whether applying it twice gives the operand.
    """

    canonical: str = ""
    commutative: bool = False
    identity: float | None = None
    involution: bool = False


class Primitive(Record):
    """Every rule of one op.

    Attributes:
        name: the public function's name, or the nearest to it.
        kind: the family of rules it was made by: ``elementwise``, ``linear``, ``bilinear``, ``reduction``,
            ``nondifferentiable`` or ``custom``.
        impl: computes on bare NumPy values, parameters by keyword; gives a NumPy value, or a tuple of them.
        abstract_eval: the shape rule: Avals in, Aval (or a tuple) out; raises the op's errors.
        batch: ``(size, xs, batched, params) -> z``: operands that are batched have the batch axis in front, and so
            has the result.
        decompose: how an abstract trace replaces it by the ops of the function it holds.
        opaque: whether graphs keep it as one equation, so that rules it carries survive; plans use ``decompose``.
        multiple_results: whether it has a tuple of outputs.
        has_effects: whether running it does more than computing its result, so that it runs though nobody reads that.
        promotes_to_float: whether it has no integer result, so that integers compute in the default dtype.
        derivative: how it is differentiated.
        masking: how it treats masks of cotangents.
        lowering: how a plan computes it.
        algebra: identities that simplification may use.
        is_elementwise: whether each output element depends on the operands' elements at the same (broadcast) position only.
        condition_operands: the number of leading operands that choose elements and take no part in promotion: the one of
            a select.
    """

    name: str
    kind: str
    impl: Function
    abstract_eval: AbstractRule
    batch: BatchRule | None = None
    decompose: DecomposeRule | None = None
    opaque: bool = False
    multiple_results: bool = False
    has_effects: bool = False
    promotes_to_float: bool = False
    derivative: Derivative = Derivative()
    masking: Masking = Masking()
    lowering: Lowering = Lowering()
    algebra: Algebra = Algebra()

    @property
    def is_differentiable(self) -> bool:
        """Tell whether any operand has a derivative."""
        rules = self.derivative
        return any([rule is not None for rule in (rules.vjps, rules.vjp_all, rules.concrete_vjp, rules.through)])

    if TYPE_CHECKING:

        @property
        def is_elementwise(self) -> bool:
            """Whether each output element depends on the operands' elements at the same position only."""
            ...

        @property
        def condition_operands(self) -> int:
            """The number of leading operands that choose elements."""
            ...

    def _derived(self) -> dict[str, Any]:
        selects = self.algebra.canonical == "select"
        return {"is_elementwise": self.kind == "elementwise", "condition_operands": 1 if selects else 0}

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], Primitive], tuple[str]]:
        return (lookup, (self.name,))


_GROUPS: dict[str, type[Any]] = {c.__name__.lower(): c for c in (Derivative, Masking, Lowering, Algebra)}
_GROUP_OF = {field: name for name, group in _GROUPS.items() for field in group.__annotations__}
_REGISTRY: dict[str, Primitive] = {}
_ROLES: dict[str, Primitive] = {}
_UFUNCS: dict[np.ufunc, Primitive] = {}


def register(primitive: Primitive) -> Primitive:
    """Add a primitive to the registry; names are unique."""
    if not primitive.name.isidentifier():
        raise ValueError(f"primitive: a name is an identifier: got {primitive.name!r}; use letters, digits and _")
    if primitive.name in _REGISTRY:
        raise RuntimeError(f"two primitives are named {primitive.name}")
    _REGISTRY[primitive.name] = primitive
    if primitive.algebra.canonical:
        _ROLES.setdefault(primitive.algebra.canonical, primitive)
    if primitive.lowering.ufunc is not None:
        _UFUNCS.setdefault(primitive.lowering.ufunc, primitive)
    return primitive


def define(name: str, kind: str, impl: Function, abstract_eval: AbstractRule, **options: Any) -> Primitive:
    """Make and register a primitive: an option is an attribute of `Primitive`, or of the group that has one of its name."""
    grouped: dict[str, dict[str, Any]] = {}
    for option in _GROUP_OF.keys() & options.keys():
        grouped.setdefault(_GROUP_OF[option], {})[option] = options.pop(option)
    groups = {key: _GROUPS[key](**values) for key, values in grouped.items()}
    return register(Primitive(name, kind, impl, abstract_eval, **options, **groups))


def primitive_for_role(role: str) -> Primitive:
    """Return the primitive that simplification knows by this role, whose module a function of that name loads."""
    if role not in _ROLES:
        getattr(FUNCTIONS, role)
    return _ROLES[role]


def with_ufunc(ufunc: np.ufunc) -> Primitive:
    """Return the primitive that this NumPy ufunc computes."""
    return _UFUNCS[ufunc]


def lookup(name: str) -> Primitive:
    """Return the registered primitive of this name."""
    if name not in _REGISTRY:
        load_all()
    return _REGISTRY[name]


def formula_named(name: str) -> Function | None:
    """Return the formula for floats of the op of this name; None where there is none."""
    try:
        rules = lookup(name).lowering
    except KeyError:
        return None
    return rules.formula if "f" in rules.formula_kinds else None


def primitives() -> tuple[Primitive, ...]:
    """Return every registered primitive, sorted by name.

    >>> import afx
    >>> [p.name for p in afx.primitives()][:2]
    ['abs', 'acos']
    """
    load_all()
    return tuple([_REGISTRY[name] for name in sorted(_REGISTRY)])


# -- native forms that are recorded from an implementation as it stands --
def record(run: Function) -> Callable[..., None]:
    """Return the native form of an implementation that returns its result."""

    def native(xp: Any, out: Any, *xs: Any, **params: Any) -> None:
        xp.give(out, run(*xs, **params))

    return native


def record_into(into: Callable[..., None]) -> Callable[..., None]:
    """Return the native form of one that writes its result."""

    def native(_xp: Any, out: Any, *xs: Any, **params: Any) -> None:
        into(out, *xs, **params)

    return native


def record_kernel(prepare: Callable[..., Callable[..., None]]) -> Callable[..., None]:
    """Return the native form of one that is made of the types of its operands."""

    def native(_xp: Any, out: Any, *xs: Any, **params: Any) -> None:
        prepare(*[x.aval for x in xs], **params)(out, *xs)

    return native


# --- Weakness: Python's numbers, arrays made of them alone, and which dtype both take from what they meet
#
# A weak value has Python's precision, which is NumPy's float64, until it meets an operand that has a dtype.

_new = object.__new__
PROMOTING = ("concat", "select", "stack")  # roles of ops that promote their operands, as elementwise ones do


def holds_graphs(p: Primitive) -> bool:
    """Tell whether an op runs a graph or function, in which its operands meet what they meet."""
    return p.derivative.concrete_vjp is not None or p.lowering.control is not None


def strong_operands(p: Primitive, avals: Sequence[Aval]) -> list[Aval]:
    """Return the Avals of the operands whose dtype weak ones take: where an op promotes none, integers are indices."""
    promotes = p.is_elementwise or p.kind == "bilinear" or p.algebra.canonical in PROMOTING
    return [a for a in avals[p.condition_operands :] if not a.weak and (promotes or a.dtype.kind in "fc")]


def is_weak_result(p: Primitive, avals: Sequence[Aval], params: Params) -> bool:
    """Tell whether the floating results of an op are weak: where all numbers that it computes with are."""
    if "dtype" in params or holds_graphs(p) or strong_operands(p, avals):
        return False
    return any(a.weak and (p.promotes_to_float or a.dtype.kind in "fc") for a in avals[p.condition_operands :])


def met_dtype(p: Primitive, avals: Sequence[Aval]) -> DType | None:
    """Return the dtype in which an op computes with its weak operands, None where nothing beside them has one."""
    strong = strong_operands(p, avals)
    if not strong or holds_graphs(p):
        return None
    weak = [a for a in avals[p.condition_operands :] if a.weak]
    return common_dtype([*strong, *weak], p.is_elementwise and p.promotes_to_float)


def takes(aval: Aval, dtype: DType) -> DType:
    """Return the dtype that a weak operand takes beside others of a dtype: a real one stays real."""
    return dtype if aval.dtype.kind == "c" else real_dtype(dtype)


def infer(p: Primitive, avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    """Return the Avals of an op's results, weak ones where no operand has a dtype of its own.

    Raises:
        AfxError: what the op's shape rule raises.
    """
    inferred = p.abstract_eval(*avals, **params)
    outs = inferred if isinstance(inferred, tuple) else (inferred,)
    for a in avals:  # a loop: any() of all would be another call in every trace
        if a.weak:
            break
    else:
        return outs
    if holds_graphs(p):
        return tuple([Aval(a.shape, a.dtype) for a in outs])
    weak = is_weak_result(p, avals, params)
    if weak:  # in the dtype that weak arrays have now, wherever the operands were made
        outs = tuple([Aval(a.shape, _default_of(a.dtype), a.weak) if a.dtype.kind in "fc" else a for a in outs])
    return tuple([Aval(a.shape, a.dtype, weak or a.weak) if _loses_digits(a.dtype) else a for a in outs])


def _default_of(dtype: DType) -> DType:
    """Return the default dtype of floating numbers, or of complex ones."""
    return get_default_dtype() if dtype.kind == "f" else default_complex()


def _loses_digits(dtype: DType) -> bool:
    """Tell whether numbers of Python's lose digits in a dtype: what has all of them has that dtype, as NumPy's has."""
    return dtype.kind in "fc" and dtype != precise(dtype)


def precise(dtype: DType) -> DType:
    """Return the dtype that holds weak numbers of a kind with Python's precision."""
    return {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}.get(dtype.kind, dtype)


class WeakArray(Array):
    """An Array that keeps Python's precision until it meets a dtype; by itself it has the default one.

    Attributes:
        exact: its elements in float64 or complex128.
    """

    __slots__ = ("_dtype", "_rounded", "exact")
    exact: Any
    _dtype: DType
    _rounded: Any

    @property
    def _value(self) -> Any:  # what is stored is `exact`
        if self._rounded is None:
            exact = self.exact
            with np.errstate(over="ignore"):
                self._rounded = exact if exact.dtype == self._dtype else exact.astype(self._dtype)
        return self._rounded

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        shape: Shape = self.exact.shape
        return shape

    @property
    def dtype(self) -> DType:
        """The dtype that it has by itself: the default one."""
        return self._dtype

    @property
    def aval(self) -> Aval:
        """The shape and dtype as one value."""
        return Aval(self.exact.shape, self._dtype, True)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the elements for NumPy, in a dtype that is asked for rounded once."""
        is_met = dtype is not None and np.dtype(dtype).kind in "fc" and copy is not False
        return self.in_dtype(np.dtype(dtype)).copy() if is_met else super().__array__(dtype, copy)

    def __reduce__(self) -> tuple[Any, ...]:
        return _weak_array, (self.exact, self._dtype)

    def in_dtype(self, dtype: DType) -> Any:
        """Return the bare elements in the dtype that they meet, rounded once."""
        if dtype == self._dtype:
            return self._value
        with np.errstate(over="ignore"):
            return self.exact.astype(dtype)


def is_weak(x: Any) -> bool:
    """Tell whether an operand is made of Python's floating or complex numbers alone, traced or not."""
    kind = x.__class__
    if kind is Array or kind is np.ndarray:
        return False
    aval = aval_of(x)
    return aval.weak and aval.dtype.kind in "fc"


def weak_or_strong(value: Any) -> Array:
    """Return the result of an op on weak operands: a weak array where the default dtype has not Python's precision."""
    kind = value.dtype.char
    if kind not in "dD":
        return wrap(value)
    dtype = get_default_dtype() if kind == "d" else default_complex()
    if not _loses_digits(dtype):
        return wrap(value)
    return _weak_array(value, dtype)


def numbers_beside(values: Any, x: Any) -> Array:
    """Return known numbers as an array of x's dtype, a weak one where x is weak."""
    return weak_or_strong(np.asarray(values, np.float64)) if is_weak(x) else wrap(np.asarray(values, x.dtype))


def _weak_array(value: Any, dtype: DType) -> WeakArray:
    x = _new(WeakArray)
    x.exact = value
    x._dtype = dtype
    x._rounded = None
    return x


NUMPY_OF: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def to_argument(x: Any) -> Any:
    """Return a bare value, Python number or weak array as a plan takes it: what is weak with all of its digits."""
    kind = x.__class__
    if kind not in NUMPY_OF:
        return x.exact if kind is WeakArray else x
    try:
        return NUMPY_OF[kind](x)
    except OverflowError as error:
        raise OperandError(
            f"{x} is too large for an argument: got a Python integer beyond int64; pass a float"
        ) from error


def argument_of(x: Any, who: str) -> Any:
    """Return what is given to a function, untraced, as a plan takes it, or raise `OperandError`."""
    return to_argument(x if x.__class__ is WeakArray else to_numpy_value(x, who))
