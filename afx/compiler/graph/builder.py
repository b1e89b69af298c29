"""Graph builder: equations are entered one by one while rules are tried, and rules are written as expressions."""

from __future__ import annotations

import ast
import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
import numpy as np

from afx.compiler.graph.strengthen import strengthen
from afx.compiler.target import Target
from afx.core import Aval, Primitive, broadcast_shapes, primitive_for_role, with_ufunc
from afx.core.graph import Atom, Atoms, Constant, Equation, Graph, Literal, Var
from afx.core.primitive import Printable
from afx.core.scalar_ops import scalar_op
from afx.core.tracing.traces import GraphTrace, silent

# --- Graph builder: enters equations one by one; rules are tried, equal ones become one, opaque calls are inlined

Params: TypeAlias = "tuple[tuple[str, Any], ...]"
Op: TypeAlias = "str | np.ufunc"  # an op's role, or the ufunc that computes it
Role: TypeAlias = "Op | None"  # the same of ops that have neither
Rewrite: TypeAlias = "Callable[[GraphBuilder, Primitive, Atoms, Params, Aval], Atom | None]"


class Rule(NamedTuple):
    """A simpler way to the output of an op.

    Attributes:
        rewrite: gives what stands for it, None where there is no simpler way.
        needs: what must be among the operands, or the rule need not be tried: results of an op, by its role or its ufunc;
            ``number``, a literal or one that is repeated; ``known``, where none is unknown.
    """

    rewrite: Rewrite
    needs: frozenset[Role] = frozenset()


class GraphBuilder:
    """The new graph so far.

    Attributes:
        equations: in order.
        constants: captured arrays and their variables.
        target: what is compiled for.
        expanding: whether opaque calls are inlined, as plans want them.
        makers: the equation that defines a variable, by its number.
        made: the roles and ufuncs of the ops that were entered.
        notes: what rules remember of variables.
    """

    def __init__(self, table: Mapping[Role, Sequence[Rule]], target: Target, *, expanding: bool) -> None:
        self.target = target
        self.equations: list[Equation] = []
        self.constants: list[tuple[Var, Constant]] = []
        self.expanding = expanding
        self.notes: dict[Any, Any] = {}
        self._table = table
        self._chosen: dict[Primitive, list[Rule]] = {}
        self.makers: dict[int, Equation] = {}
        self.made: set[Role] = set()
        self._roles: dict[Primitive, frozenset[Role]] = {}
        self._captured: dict[int, Any] = {}
        self._constants: dict[Any, Var] = {}
        self._known: dict[Any, Atoms] = {}
        self._count = 0
        self._depth = 0
        self._source: Any = None
        self._ignored: tuple[str, ...] = ()
        self._ignoring_at: dict[int, int] = {}

    # -- what rules ask --
    def defining_equation(self, x: Atom) -> Equation | None:
        """Return the equation that defines a variable, if one does."""
        return None if isinstance(x, Literal) else self.makers.get(x.index)

    def made_by(self, x: Atom, role: str) -> Equation | None:
        """Return the equation that defines a variable where its op has this role."""
        eq = None if isinstance(x, Literal) else self.makers.get(x.index)
        return eq if eq is not None and eq.primitive.algebra.canonical == role else None

    def known(self, x: Atom) -> Any:
        """Return the value of a literal or of a small constant, None for everything else."""
        if isinstance(x, Literal):
            return x.aval.dtype.type(x.value)
        value = self._captured.get(x.index)
        return value if value is not None and value.size <= self.target.known_max_elements else None

    def captured(self, x: Atom) -> Any:
        """Return the array that a constant of any size is, None for everything else."""
        return None if isinstance(x, Literal) else self._captured.get(x.index)

    # -- making --
    def var(self, aval: Aval) -> Var:
        """Return a new variable."""
        self._count += 1
        return Var(self._count - 1, aval)

    def constant(self, constant: Constant, aval: Aval) -> Atom:
        """Enter a constant; one that holds a single number everywhere becomes a broadcast literal."""
        value = constant.value
        if value.size and value.dtype.kind in "biufc":
            number = value[(0,) * value.ndim]
            if not any(value.strides) or (number == value[(-1,) * value.ndim] and _uniform(value, number)):
                return self.broadcast(Literal(number.item(), Aval((), value.dtype)), value.shape)
        if not value.flags.c_contiguous and (value.nbytes <= self.target.spread_max_bytes or all(value.strides)):
            # products of another order of memory have other last digits
            constant = Constant(np.ascontiguousarray(value))
        is_index = value.dtype.kind in "iu" and value.nbytes <= self.target.share_max_bytes
        key = (aval, value.tobytes() if is_index else id(value))
        var = self._constants.get(key)
        if var is None:
            var = self._constants[key] = self.var(aval)
            self.constants.append((var, constant))
            self._captured[var.index] = value
        return var

    def broadcast(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        """Return x repeated to a shape."""
        if x.aval.shape == shape:
            return x
        return self.make("broadcast", (x,), (("shape", shape),), Aval(shape, x.aval.dtype))

    def reshape(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        """Return x in a shape of as many elements."""
        return self.make("reshape", (x,), (("shape", shape),), Aval(shape, x.aval.dtype))

    def make(self, p: Primitive | str, atoms: Atoms, params: Params = (), aval: Aval | None = None) -> Atom:
        """Return the output of an op, or of that with a role, by a simpler way if a rule knows one."""
        if isinstance(p, str):
            p = primitive_for_role(p)
        if aval is None:
            result = p.abstract_eval(*[a.aval for a in atoms], **dict(params))
            assert isinstance(result, Aval)
            aval = result
        rules = self._chosen.get(p)
        if rules is None:
            rules = self._rules(p)
        if rules and self._depth < self.target.rewrite_max_depth:
            roles = self._roles_of(atoms)
            self._depth += 1
            try:
                for rewrite, needs in rules:
                    if needs <= roles:
                        simpler = rewrite(self, p, atoms, params, aval)
                        if simpler is not None:
                            return simpler
            finally:
                self._depth -= 1
        return self._emit(p, atoms, params, (aval,))[0]

    def _roles_of(self, atoms: Atoms) -> set[Role]:
        """Return what rules may need of operands."""
        roles, is_known = set[Role](), True
        for x in atoms:
            if x.__class__ is Literal:
                roles.add("number")
                continue
            eq = self.makers.get(x.index)  # type: ignore[union-attr]  # a Var
            if eq is None:
                is_known = is_known and x.index in self._captured  # type: ignore[union-attr]  # a variable, by its class
                continue
            is_known = False
            roles |= self._roles[eq.primitive]
            if "broadcast" in roles and eq.inputs[0].__class__ is Literal:
                roles.add("number")
        if is_known:
            roles.add("known")
        return roles

    def locate(self, eq: Equation) -> None:
        """Let equations from now on have the source and the ignored errors of an equation of the old graph."""
        self._source, self._ignored = eq.source, eq.ignored_fp_errors

    @contextlib.contextmanager
    def ignoring(self, errors: Sequence[str]) -> Generator[None]:
        """Have equations that are entered meanwhile ignore floating-point errors."""
        before, self._ignored = self._ignored, tuple(errors)
        try:
            yield
        finally:
            self._ignored = before

    def choose(self, number: Atom, graphs: Sequence[Graph], operands: Sequence[Atom]) -> Atoms:
        """Enter an equation that runs one of several graphs of the same operands, by its number."""
        p = primitive_for_role("switch")
        assert p.lowering.hold is not None
        return self._emit(p, (number, *operands), p.lowering.hold(graphs), tuple([a.aval for a in graphs[0].outputs]))

    def equation(self, eq: Equation, atoms: Atoms) -> Atoms:
        """Enter an equation of the old graph with its new operands."""
        p = eq.primitive
        self._source, self._ignored = eq.source, eq.ignored_fp_errors
        if self.expanding and p.opaque:
            return self._unfolded(p, atoms, eq)
        if p.multiple_results:
            return self._emit(p, atoms, eq.params, tuple([v.aval for v in eq.outputs]))
        return (self.make(p, atoms, eq.params, eq.outputs[0].aval),)

    def inline_graph(
        self, graph: Graph, inputs: Sequence[Atom], enter: Callable[[Equation, Atoms], Sequence[Atom]] | None = None
    ) -> list[Atom]:
        """Enter all equations of a graph, as they are or as `enter` does, which returns their results; return its outputs."""
        enter = enter or self.equation
        names = {v.index: x for v, x in zip(graph.inputs, inputs, strict=True)}
        for var, constant in graph.constants:
            names[var.index] = self.constant(constant, var.aval)
        for eq in graph.equations:
            atoms: list[Atom] = []
            for a in eq.inputs:  # a loop, as elsewhere here: a comprehension is a call for each equation
                atoms.append(names[a.index] if isinstance(a, Var) else a)  # noqa: PERF401  # no call of a comprehension
            for var, new in zip(eq.outputs, enter(eq, tuple(atoms)), strict=True):
                names[var.index] = new
        return [names[a.index] if isinstance(a, Var) else a for a in graph.outputs]

    def _unfolded(self, p: Primitive, atoms: Atoms, eq: Equation) -> Atoms:
        assert p.decompose is not None
        with GraphTrace("plan", expanding=True) as trace, silent(eq.ignored_fp_errors):
            made = p.decompose(
                tuple([trace.input(a.aval) if isinstance(a, Var) else self.known(a) for a in atoms]), eq.keywords
            )
            graph = trace.finish(made if p.multiple_results else (made,))
        return tuple(self.inline_graph(strengthen(graph), [a for a in atoms if isinstance(a, Var)]))

    def _rules(self, p: Primitive) -> list[Rule]:
        kinds = ("", p.kind, p.algebra.canonical, p.lowering.ufunc, "reduces" if p.lowering.reduce_ufunc else "")
        rules = [r for kind in dict.fromkeys(kinds) for r in self._table.get(kind, ())]
        self._chosen[p] = rules = [r for r in rules if "involution" not in r.needs or p.algebra.involution]
        return rules

    def _emit(self, p: Primitive, atoms: Atoms, params: Params, avals: tuple[Aval, ...]) -> Atoms:
        """Return the results of an equation: those of an equal one that is there already, else of a new one."""
        key = (p, self._operands(p, atoms), params)
        known = None if p.has_effects else self._known.get(key)
        if known is None:
            outs = tuple(map(self.var, avals))
            if p not in self._roles:
                words = (p.algebra.canonical, p.lowering.ufunc, "involution" if p.algebra.involution else "")
                self._roles[p] = frozenset(words)
                self.made |= self._roles[p]
            ignored = () if self.target.stands_alone else self._ignored  # where nothing warns, bits do not depend on it
            eq = Equation(p, atoms, outs, params, self._source, ignored)
            if eq.ignored_fp_errors:
                self._ignoring_at[outs[0].index] = len(self.equations)
            self.equations.append(eq)
            for var in outs:
                self.makers[var.index] = eq
            known = self._known[key] = outs
        elif self._ignoring_at and isinstance(known[0], Var) and known[0].index in self._ignoring_at:
            self._narrow_ignored_errors(self._ignoring_at[known[0].index])
        return known

    def _operands(self, p: Primitive, atoms: Atoms) -> tuple[Any, ...]:
        """Return operands by which equal equations are found, in one order where they can be exchanged."""
        keys: list[Any] = []
        for a in atoms:
            keys.append(a.index if isinstance(a, Var) else (repr(a.value), a.aval.dtype))  # noqa: PERF401  # no call of a comprehension
        # sums and products; of extremes the order may tell a zero's sign
        if p.algebra.commutative and p.algebra.identity is not None:
            x, y = keys
            if x.__class__ is int and (y.__class__ is not int or y < x):  # numbers first, then variables
                keys = [y, x]
        return tuple(keys)

    def _narrow_ignored_errors(self, k: int) -> None:
        """Let an equation that another one equals ignore no more warnings than both do."""
        eq = self.equations[k]
        self.equations[k] = attrs.evolve(
            eq, ignored_fp_errors=tuple([name for name in eq.ignored_fp_errors if name in self._ignored])
        )


def _uniform(value: Any, number: Any) -> bool:
    """Tell whether one number fills an array; floating zeros, which may have either sign, and parts that are 0 do not."""
    signed = value.dtype.kind in "fc" and 0 in (number.real, number.imag if value.dtype.kind == "c" else 1)
    return not signed and bool((value == number).all())


# --- Patterns: rewrite rules written as expressions, ``rule("x - 0", "x", when=...)``
#
# An expression has Python's operators and calls of the compiler's ops: ufuncs by NumPy's names, other ops by the
# roles of their records (`select`, `cast`). Names stand for operands, n and m for numbers; a name that stands twice
# is the same operand twice. Operands of sums and products match in either order.

NUMBERS = ("n", "m")
OPERATORS: Mapping[type, np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.NotEq: np.not_equal,
    ast.Eq: np.equal,
}


@attrs.frozen(eq=False, repr=False)
class Name(Printable):
    """An operand, or a number."""

    name: str


@attrs.frozen(eq=False, repr=False)
class Exactly(Printable):
    """A number of this value; a float matches floats alone."""

    value: int | float


@attrs.frozen(eq=False, repr=False)
class Apply(Printable):
    """An op and its operands."""

    op: Op
    operands: tuple[Expression, ...]


Expression: TypeAlias = "Name | Exactly | Apply"


@attrs.frozen(eq=False, repr=False)
class Match(Printable):
    """What the names of a pattern stand for.

    Attributes:
        xs: the operands of the op that is replaced.
        aval: of its result.
        atoms: operands by their names.
        n: the number n.
        m: the number m.
    """

    xs: Atoms
    aval: Aval
    atoms: Mapping[str, Atom]
    n: Any = None
    m: Any = None


def rule(pattern: str, replacement: str, *, when: Callable[[Match], bool] | None = None) -> tuple[Op, Rule]:
    """Return the op that a rewrite rule looks at, and the rule.

    Args:
        pattern: what is replaced.
        replacement: what stands for it, of the same values in the same dtype; repeated where the result is larger.
        when: the condition under which that is so.
    """
    sought, result = parse(pattern), parse(replacement)
    assert isinstance(sought, Apply)
    variants = [v.operands for v in _orders(sought) if isinstance(v, Apply)]

    def rewrite(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
        for operands in variants:
            names: dict[str, Any] = {}
            if not _all_match(b, operands, xs, names):
                continue
            numbers = {name: names.pop(name) for name in NUMBERS if name in names}
            match = Match(xs, aval, names, **numbers)
            if when is None or when(match):
                return _replaced(b, result, match, p, params)
        return None

    rewrite.__doc__ = f"{pattern} is {replacement}."
    return sought.op, Rule(rewrite, frozenset([role for x in sought.operands if (role := _role(x))]))


def _role(x: Expression) -> Op:
    """Return what an operand must be, in the words of `Rule.needs`; an empty text where it may be anything."""
    if isinstance(x, Apply):
        return x.op
    return "number" if isinstance(x, Exactly) or x.name in NUMBERS else ""


# -- texts --
def parse(text: str) -> Expression:
    """Return an expression.

    >>> parse("x * -1")
    Apply(op=<ufunc 'multiply'>, operands=(Name(name='x'), Exactly(value=-1)))
    """
    return _expression(ast.parse(text, mode="eval").body)


def _expression(tree: ast.expr) -> Expression:
    match tree:
        case ast.Constant(value=int() | float() as value):
            return Exactly(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Exactly(-value)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return Apply(np.negative, (_expression(x),))
        case ast.BinOp(left=x, op=op, right=y):
            return Apply(OPERATORS[type(op)], (_expression(x), _expression(y)))
        case ast.Compare(left=x, ops=[op], comparators=[y]):
            return Apply(OPERATORS[type(op)], (_expression(x), _expression(y)))
        case ast.Call(func=ast.Name(id=name), args=xs):
            ufunc = getattr(np, name, None)
            return Apply(ufunc if isinstance(ufunc, np.ufunc) else name, tuple(map(_expression, xs)))
        case ast.Name(id=name):
            return Name(name)
        case _:
            raise ValueError(f"no pattern: {ast.unparse(tree)}")


def _orders(x: Expression) -> Iterator[Expression]:
    """Yield an expression with the operands of sums and products in all orders."""
    if not isinstance(x, Apply):
        yield x
        return
    for operands in itertools.product(*[list(_orders(y)) for y in x.operands]):
        yield Apply(x.op, operands)
        if isinstance(x.op, np.ufunc) and scalar_op(x.op.__name__).commutes:
            yield Apply(x.op, operands[::-1])


# -- matching --
def _all_match(b: GraphBuilder, patterns: Sequence[Expression], xs: Sequence[Atom], names: dict[str, Any]) -> bool:
    for pattern, x in zip(patterns, xs, strict=True):
        if isinstance(pattern, Name) and pattern.name not in NUMBERS and pattern.name not in names:
            names[pattern.name] = x  # the commonest case
        elif not _matches(b, pattern, x, names):
            return False
    return True


def _matches(b: GraphBuilder, pattern: Expression, x: Atom, names: dict[str, Any]) -> bool:
    """Tell whether an operand is what a pattern says, and note what its names stand for."""
    if isinstance(pattern, Apply):
        eq = b.defining_equation(x)
        if eq is None or not _is(eq.primitive, pattern.op):
            return False
        return _all_match(b, pattern.operands, eq.inputs, names)
    if isinstance(pattern, Name) and pattern.name not in NUMBERS:
        operand = names.setdefault(pattern.name, x)
        return operand is x or bool(operand == x)
    n = number_of(b, x)
    if n is None:
        return False
    if isinstance(pattern, Name):
        names[pattern.name] = n
        return True
    is_kind = isinstance(n, type(pattern.value)) if isinstance(pattern.value, float) else not isinstance(n, bool)
    return is_kind and bool(n == pattern.value)


def _is(p: Primitive, op: Op) -> bool:
    return op in (p.algebra.canonical, p.lowering.ufunc)


def number_of(b: GraphBuilder, x: Atom) -> Any:
    """Return the number that a literal, or a broadcast literal, holds; None for everything else."""
    if not isinstance(x, Literal):
        eq = b.makers.get(x.index)
        if eq is None or eq.primitive.algebra.canonical != "broadcast":
            return None
        x = eq.inputs[0]
    return x.value if isinstance(x, Literal) else None


# -- replacing --
def like(b: GraphBuilder, x: Atom, aval: Aval) -> Atom | None:
    """Return x as the whole result, repeated where the result is larger."""
    return b.broadcast(x, aval.shape) if x.aval.dtype == aval.dtype else None


def _replaced(b: GraphBuilder, x: Expression, match: Match, p: Primitive, params: Params) -> Atom | None:
    if not isinstance(x, Apply):
        return like(b, _built(b, x, match), match.aval)
    operands = [_built(b, y, match) for y in x.operands]
    op, given = (p, params) if _is(p, x.op) else (_primitive(x.op), ())
    return b.broadcast(_made(b, op, operands, given, match), match.aval.shape)


def _built(b: GraphBuilder, x: Expression, match: Match) -> Atom:
    number = _number(x, match)
    if number is not None:
        return Literal(number, Aval((), match.aval.dtype))
    if isinstance(x, Name):
        return match.atoms[x.name]
    assert isinstance(x, Apply)
    return _made(b, _primitive(x.op), [_built(b, y, match) for y in x.operands], (), match)


def _made(b: GraphBuilder, p: Primitive, operands: list[Atom], params: Params, match: Match) -> Atom:
    shape = broadcast_shapes([x.aval.shape for x in operands])
    assert shape is not None
    return b.make(p, tuple(operands), params, Aval(shape, match.aval.dtype))


def _number(x: Expression, match: Match) -> Any:
    """Return the number that an expression of numbers alone is, None for any other one."""
    if isinstance(x, Exactly):
        return float(x.value) if match.aval.dtype.kind in "fc" else x.value
    if isinstance(x, Name):
        return getattr(match, x.name) if x.name in NUMBERS else None
    parts = [_number(y, match) for y in x.operands]
    return None if isinstance(x.op, str) or any(part is None for part in parts) else x.op(*parts).item()


def _primitive(op: Op) -> Primitive:
    return primitive_for_role(op) if isinstance(op, str) else with_ufunc(op)
