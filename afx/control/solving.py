"""Solving: the ground under solvers of equations, minima, integrals and differential equations."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.compiler.schedule.cost import flops
from afx.compiler.target import current
from afx.control._subgraphs import is_abstract
from afx.control.linear_solvers import gmres
from afx.control.while_loop import while_loop
from afx.core import Array, Aval, Function, Tracer, any_traced, argument_of, aval_of, epsilon, is_known, places_of, wrap
from afx.core.dtypes import DType, float32, get_default_dtype
from afx.core.graph import Graph, Literal, Var, walk
from afx.core.tracing.traces import GraphTrace, evaluate, renumber
from afx.errors import AfxError, ConcreteValueError, DtypeError, OperandError, ShapeError, TracerError
from afx.ops import abs as abs_, asarray, concat, full, max as max_, reshape, stop_gradient, where, zeros
from afx.ops.linalg.solve import solve_or_nan
from afx.pytree.treedef import orders
from afx.transforms._arguments import check_callable, moving_leaves, name_of
from afx.transforms.compile.compiled_call import CompiledGraph, call, foresee_code
from afx.transforms.compile.make_graph import Traced, is_disabled, to_graph
from afx.transforms.custom_call import CustomRules, custom_call
from afx.transforms.derivatives.jacobian import jacfwd
from afx.transforms.derivatives.jvp import Transposed, jvp, push_through
from afx.transforms.sparse.sparse_derivatives import sparse_jacobian

# --- Reports of solvers: how much work a solution took, and why the solver stopped


class Status(enum.IntEnum):
    """Why a solver stopped."""

    RUNNING = 0
    CONVERGED = 1
    ITERATION_LIMIT = 2
    STALLED = 3
    NONFINITE = 4
    NO_BRACKET = 5
    EVENT = 6

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return SENTENCES[self]


SENTENCES = {
    Status.RUNNING: "still running",
    Status.CONVERGED: "the tolerance is met",
    Status.ITERATION_LIMIT: "the limit of iterations was reached",
    Status.STALLED: "no step leads further in this precision",
    Status.NONFINITE: "the function is not finite",
    Status.NO_BRACKET: "the function has the same sign at both ends of the bracket",
    Status.EVENT: "an event ended it",
}


def is_converged(status: Array) -> Array:
    """Tell whether a status is that of a solution, up to an event that ended it."""
    return (status == int(Status.CONVERGED)) | (status == int(Status.EVENT))


def choose_status(test: Array, then: Status, other: Status) -> Array:
    """Return one status or the other, of which one is an array: a choice of two Python numbers has no machine code."""
    return where(test, asarray(int(then)), int(other))


@attrs.frozen
class Report:
    """How a solver ended; under `vmap` each array has the batch axis in front.

    Attributes:
        iterations: int, the number of steps.
        evaluations: int, the number of evaluations of the function, with its derivatives where the method takes them.
        status: int, a `Status`.
    """

    iterations: Array
    evaluations: Array
    status: Array

    @property
    def converged(self) -> Array:
        """Whether the tolerance is met (up to an event, if one ended it)."""
        return is_converged(self.status)

    @property
    def reason(self) -> str:
        """Why the solver stopped, in words; of a batch, how often for which reason.

        Raises:
            ConcreteValueError: inside a compiled function, where it is not known yet.
        """
        statuses = np.asarray(self.status)
        if statuses.ndim == 0:
            return Status(int(statuses)).sentence
        kinds, counts = np.unique(statuses, return_counts=True)
        return "; ".join(
            f"{n} of {statuses.size}: {Status(int(k)).sentence}" for k, n in zip(kinds, counts, strict=True)
        )


# --- Solver functions: a user's function of trees as one of a vector and parameters, and implicit derivatives of its
# roots
#
# A solution x(p) of F(x, p) = 0 has the derivative -(dF/dx)⁻¹ dF/dp (implicit function theorem), however it was
# found. So a solver runs on plain values, without being recorded, and `attach_implicit_derivative` makes its result
# depend on the parameters again: in forward and reverse mode and in every order, since the rule is written in terms
# of the solution.

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=Any)

DENSE_MAX_UNKNOWNS = 512  # beyond, a Jacobian takes more memory and time than products with it

Slope = Callable[[Array, Sequence[Any], Sequence[Any]], Array]
Pull = Callable[[Array, Sequence[Any], Array], Sequence[Any]]


def flatten_to_vector(tree: T, who: str) -> tuple[Array, Callable[[Array], T]]:
    """Return the trained leaves of a tree as one vector, and the function that puts a vector in their place.

    The vector has the widest dtype of the leaves, float32 at least; leaves keep their own.

    Raises:
        DtypeError: a leaf is complex, or none is floating.
    """
    moving_leaves(*pytree.flatten(tree), who, lambda path: f"the start{path}")
    vector, unravel = pytree.ravel(tree)
    if vector.dtype.kind == "c":
        raise DtypeError(f"{who}: unknowns are real: got {vector.aval}; pass real and imaginary parts")
    return vector.astype(np.result_type(float32, vector.dtype)), unravel


@attrs.frozen(eq=False)
class Parametrized(Generic[R]):
    """A function of a vector that names everything it has derivatives by.

    Attributes:
        fn: (vector, *params) to the result.
        params: the floating arguments and all arrays that the user's function closes over, traced or floating.
        graph: of the function and the structure of its result; None where it asks for values, or nothing is compiled.
    """

    fn: Callable[..., R]
    params: list[Any]
    graph: tuple[Graph, Any] | None = None

    @property
    def key(self) -> Hashable:
        """What tells functions apart that compute different things of the same parameters."""
        return None if self.graph is None else (self.graph[1], *_key_of(self.graph[0]))

    def plain(self) -> Callable[..., R]:
        """Return the function of the vector alone, in which nothing is recorded."""
        stopped_params = stopped(self.params)
        return lambda *xs: self.fn(*xs, *stopped_params)


def stopped(leaves: Sequence[Any]) -> list[Any]:
    """Return values that no derivative flows through; untraced ones as they are."""
    return [stop_gradient(x) if isinstance(x, Tracer) else x for x in leaves]


def begin_at(init: T, who: str) -> tuple[Array, Callable[[Array], T]]:
    """Return a start as a vector through which no derivative flows, and the function that makes such a tree of a vector."""
    start, unravel = flatten_to_vector(init, who)
    return stopped([start])[0], unravel


def parametrize(
    fn: Callable[..., R],
    inputs: Sequence[Callable[[Array], Any]],
    avals: Sequence[Aval],
    args: Any,
    who: str,
    *,
    keeps_constants: bool = False,
) -> Parametrized[R]:
    """Return ``fn(*inputs, *args)`` as a function of vectors and of all that it has derivatives by.

    Args:
        fn: a user's function.
        inputs: how each vector becomes one of the function's first arguments.
        avals: of the vectors.
        args: the function's other arguments, a tuple of trees; what is not floating stays as it is.
        who: the solver, for messages.
        keeps_constants: whether arrays that it closes over stay its own, as where zeros among them matter.
    """
    check_callable(fn, who)
    leaves, treedef = pytree.flatten(args)
    floating = [aval_of(x, f"{who}: args").dtype.kind in "fc" for x in leaves]
    params = [asarray(x) for x, f in zip(leaves, floating, strict=True) if f]
    count = len(inputs)

    def flat(*values: Any) -> R:
        given = iter(values[count:])
        rest = pytree.unflatten(treedef, [next(given) if f else x for x, f in zip(leaves, floating, strict=True)])
        return fn(*[make(v) for make, v in zip(inputs, values[:count], strict=True)], *rest)

    name, strong = f"{who} of {name_of(fn)}", [*avals, *[p.aval for p in params]]
    strong = [Aval(a.shape, a.dtype) for a in strong]
    try:
        return lift_closure(flat, strong, params, name, keeps_constants=keeps_constants)
    except ConcreteValueError:
        _check_closed_over(flat, strong, params, name)
        return Parametrized(flat, params)


def lift_closure(
    fn: Callable[..., R], avals: Sequence[Aval], params: Sequence[Any], name: str, *, keeps_constants: bool = False
) -> Parametrized[R]:
    """Return a function of vectors and parameters, of these avals, with what it closes over as parameters too.

    Floating arrays are among them unless it ``keeps_constants``, so that one program serves a function of all data.

    Raises:
        ConcreteValueError: it asks for values.
    """
    with GraphTrace(name) as trace:
        leaves, tree = pytree.flatten(fn(*map(trace.input, avals)))
        graph = trace.finish([asarray(z) for z in leaves])
    if is_disabled() and not trace.lifted:
        return Parametrized(fn, [*params])
    lifted = [*params, *trace.lifted]
    if not keeps_constants:
        graph, arrays = _lift_constants(graph)
        lifted += arrays
    if not any(map(is_abstract, lifted)):
        graph, numbers = _lift_numbers(graph, name)
        lifted += numbers
    return Parametrized(lambda *v: pytree.unflatten(tree, evaluate(graph, *v)), lifted, (graph, tree))


def _lift_constants(graph: Graph) -> tuple[Graph, list[Array]]:
    """Return a graph whose floating constants are inputs, behind the others, and these constants."""
    moved = [(v, c) for v, c in graph.constants if v.aval.dtype.kind in "fc" and not v.aval.weak]
    if not moved:
        return graph, []
    kept = [(v, c) for v, c in graph.constants if v.aval.dtype.kind not in "fc" or v.aval.weak]
    lifted = renumber([*graph.inputs, *[v for v, _ in moved]], kept, graph.equations, graph.outputs)
    return lifted, [wrap(c.value) for _, c in moved]


def _lift_numbers(graph: Graph, name: str) -> tuple[Graph, list[Array]]:
    """Return a graph in which those numbers are inputs, behind the others, that differ from call to call; and these.

    What is known of earlier calls, by names and operations, may be of another function: the numbers are inputs then, too.
    """
    equations = [*graph.equations]
    atoms = [(k, j, a) for k, eq in enumerate(equations) for j, a in enumerate(eq.inputs) if isinstance(a, Literal)]
    atoms = [(k, j, a) for k, j, a in atoms if a.aval.dtype.kind == "f" and not a.aval.weak]
    key = name, tuple([eq.primitive for eq in equations]), len(atoms)
    before, varied = _numbers.pop(key, ([a for _, _, a in atoms], frozenset[int]()))
    varied |= {n for n, (old, (_, _, new)) in enumerate(zip(before, atoms, strict=True)) if old != new}
    _numbers[key] = [a for _, _, a in atoms], varied
    _drop_first(_numbers)
    if not varied:
        return graph, []
    first, moved = len(graph.inputs) + len(graph.constants) + sum([len(eq.outputs) for eq in equations]), list[Var]()
    for n in sorted(varied):
        k, j, atom = atoms[n]
        moved.append(Var(first + n, atom.aval))
        inputs = equations[k].inputs
        equations[k] = attrs.evolve(equations[k], inputs=(*inputs[:j], moved[-1], *inputs[j + 1 :]))
    lifted = renumber([*graph.inputs, *moved], graph.constants, equations, graph.outputs)
    return lifted, [asarray(atoms[n][2].value, atoms[n][2].aval.dtype) for n in sorted(varied)]


def _check_closed_over(fn: Function, avals: Sequence[Aval], params: list[Any], name: str) -> None:
    """Raise where a function with Python branches closes over a traced array, since derivatives by it would be lost."""
    count = len(avals) - len(params)
    out = fn(*[zeros(a.shape, a.dtype) for a in avals[:count]], *stopped(params))
    if any_traced(pytree.leaves(out)):
        raise TracerError(
            f"{name}: the function closes over a traced array and asks for the value of another; "
            "pass the array as one of args, or write the branch with afx.cond or afx.where"
        )


def attach_implicit_derivative(
    residual: Callable[..., Array], solution: Array, params: Sequence[Any], converged: Array, *, sparse: bool = False
) -> Array:
    """Return a solution as a differentiable function of its parameters.

    Args:
        residual: (vector, *params) to a vector of the same length that is 0 at the solution.
        solution: what a solver found, a constant for derivatives.
        params: what the residual depends on; leaves that are not floating have no derivatives.
        converged: bool, whether it is a solution; the derivatives of what is none are nan.
        sparse: whether the residual's Jacobian is.
    """

    def slope(z: Array, given: Sequence[Any], tangents: Sequence[Any]) -> Array:
        ps, ts = given[:-1], tangents[:-1]
        rate = push_through(lambda *v: [residual(z, *v)], ps, ts)[1][0]
        rate = rate * where(given[-1], asarray(1, rate.dtype), np.nan)  # a product: its transpose is nan too

        def at(x: Array) -> Array:
            return residual(x, *ps)

        if sparse:
            return -sparse_jacobian(at)(z).solve(rate)
        if z.shape[0] <= DENSE_MAX_UNKNOWNS:
            return -solve_or_nan(jacfwd(at)(z), rate)

        return -gmres(lambda v: jvp(at, (z,), (v,))[1], rate, tol=100 * epsilon(z.dtype)).x

    return attach_derivative("implicit solution", solution, [*params, converged], slope)


def attach_derivative(name: str, value: Array, params: Sequence[Any], slope: Slope) -> Array:
    """Return a value as a function of parameters with a given derivative.

    Unlike `custom_jvp` of the identity, every level of differentiation sees the value as such a function.

    Args:
        name: of the function, for messages.
        value: a constant for derivatives.
        params: what it depends on.
        slope: (value, params, tangents) to the value's tangent, linear in the tangents.
    """

    def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        z = _attached(rules, xs)
        return [z], [ts[0] + slope(z, xs[1:], ts[1:])]

    back = Transposed(push)
    rules = CustomRules(
        name,
        lambda *xs: [xs[0]],
        lambda xs: ([_attached(rules, xs)], xs),
        back.backward,
        push,
        0,
        back.masked,
        back.left_out,
    )
    return _attached(rules, [value, *params])


def _attached(rules: CustomRules, xs: Sequence[Any]) -> Array:
    """Return the first operand, by rules where any is traced."""
    value: Array = custom_call(rules, xs)[0] if any_traced(xs) else xs[0]
    return value


def attach_pullback(name: str, value: Array, params: Sequence[Any], pull: Pull) -> Array:
    """Return a value as a function of parameters with a given reverse-mode derivative; it has no other mode.

    Args:
        name: of the function, for messages.
        value: a constant for derivatives.
        params: what it depends on.
        pull: (value, params, cotangent) to one cotangent (or None) per parameter.
    """

    def backward(xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        z = _attached(rules, xs)  # which outer derivatives see as a function of the parameters, too
        return [None, *pull(z, xs[1:], cts[0])]

    def masked(xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        # the value does not show on what it depends: every parameter is alive
        return backward(xs, [where(m, c, 0.0) for m, c in zip(masks, cts, strict=True)]), [None] * len(xs)

    rules = CustomRules(
        name, lambda *xs: [xs[0]], lambda xs: ([_attached(rules, xs)], xs), backward, None, masked=masked
    )
    return _attached(rules, [value, *params])


# --- Compiled runs: what solvers compute from plain values runs as it does under `jit`, without being asked for
#
# Plans are kept by their graphs: a function that is written anew for each call, as closures are, has the plan, and
# with it the machine code, of the one before. One that holds large constants is kept where it is met again.

PROGRAMS_MAX: Final = 64
EAGER_STEPS: Final = 10  # measured: tracing and compiling a solver's step takes the time of about ten of its steps
EAGER_FLOPS: Final = 10_000_000  # of an evaluation; ten that are made twice would take longer than compiling
KEPT_BYTES_MAX: Final = 1 << 20  # of the constants of a program that is kept from its first call on
COMPARED_BYTES_MAX: Final = 1 << 26  # of those of one that is kept at all: comparing more costs what planning does

Program: TypeAlias = "tuple[CompiledGraph, Any, Hashable]"  # with the structure of what it returns, and its key

# the last used behind; no lock, which a signal's handler or a forked process would wait for: single calls of a dict are
# whole, and what another thread has taken out meanwhile is made again
_programs: dict[Hashable, Program] = {}
_owned: dict[int, tuple[Callable[[], object], dict[Hashable, Function]]] = {}  # by the objects' addresses
_numbers: dict[
    Hashable, tuple[list[Literal], frozenset[int]]
] = {}  # of the last calls, and which of them have differed
_met: dict[Hashable, bool] = {}  # programs with large constants, and solvers, which are kept where they are met again


def are_plain(*trees: Any) -> bool:
    """Tell whether values are known and watched by no transformation, where functions are compiled at all."""
    return not is_disabled() and not any_traced(pytree.leaves(trees))


def compile_run(fn: Callable[..., T], *trees: Any, name: str) -> Callable[..., T]:
    """Return a function, traced once, of plain values of the same structure, shapes and dtypes as these.

    Raises:
        AfxError: the function asks for values, as it may outside of transformations, or closes over traced ones.
    """
    _, traced = _trace(fn, trees, name)
    if traced.lifted:
        raise TracerError(f"{name}: the function closes over a traced array; run it in Python")
    program = _program(traced)[0]

    def run(*trees: Any) -> T:
        outs = program.plan(*[argument_of(x, name) for x in pytree.leaves(trees)])
        result: T = pytree.unflatten(traced.out_tree, [wrap(v) for v in outs])
        return result

    return run


def compile_for(owner: object, fn: Callable[..., T], *trees: Any, name: str) -> Callable[..., T]:
    """Return what `compile_run` does, kept for as long as an object lives that determines what the function computes.

    As of a function under `jit`, what it closes over is read once.

    Raises:
        AfxError: as `compile_run`.
    """
    leaves, treedef = pytree.flatten(trees)
    key = (get_default_dtype(), current.key, name, treedef, orders(treedef), *[aval_of(x, name) for x in leaves])
    place = id(owner)
    known = _owned.get(place)
    if known is None or known[0]() is not owner:
        known = _owned[place] = weakref.ref(owner, lambda _: _owned.pop(place, None)), {}
    run = known[1].get(key)
    if run is None:
        run = known[1][key] = compile_run(fn, *trees, name=name)
    return run


def are_known(*trees: Any) -> bool:
    """Tell whether values are known, to transformations that trace them too, where functions are compiled at all."""
    return not is_disabled() and all(map(is_known, pytree.leaves(trees)))


def are_concrete(*trees: Any) -> bool:
    """Tell whether values are known, to some transformation at least, as those of a batch are to none else."""
    return not is_disabled() and not any(map(is_abstract, pytree.leaves(trees)))


def run_or_compile(fn: Callable[..., T], *trees: Any, name: str, key: Hashable = None) -> T:
    """Return ``fn(*trees)``: by a plan where values are known and the function can be traced, in Python otherwise.

    Where derivatives are taken, of arguments or of what the function closes over, it is one operation, whose way back is
    compiled as well, and so it is where values are batches. Functions of an equal key, which says all that they close over,
    are traced once.
    """
    if are_concrete(*trees):
        try:
            return _run_as_one(fn, trees, name, key)
        except AfxError:
            pass  # Python's run says what is wrong, if anything is
    return fn(*trees)


def _run_as_one(fn: Callable[..., T], trees: tuple[Any, ...], name: str, key: Hashable) -> T:
    _drop_forgotten()
    known, lifted = None if key is None else _programs.get(key), list[Any]()
    if known is None:
        traced = _trace(fn, trees, name)[1]
        lifted = traced.lifted
        if any(map(is_abstract, lifted)):
            raise TracerError(f"{name}: the function closes over an unknown array; run it in Python")
        known = _program(traced, None if lifted else key)
    else:
        _keep(known)
    result: T = pytree.unflatten(known[1], list(call(known[0], *pytree.leaves(trees), *lifted)))
    return result


def solve(
    run: Callable[..., S],
    *trees: Any,
    of: Sequence[Parametrized[Any]],
    options: Hashable,
    limit: int,
    name: str,
    begins_in_python: bool = True,
) -> S:
    """Return ``run(*trees, limit)``, the last state of a solver, whose status says whether so many steps were enough.

    A first run is Python's as far as it is short. Longer ones, and those that follow, are compiled; they begin at the start,
    so that their bits are those of `jit`.

    Args:
        run: the solver; it closes over nothing but the functions and the options.
        *trees: what it takes: the start, and all parameters.
        of: the user's functions; without any it is Python's.
        options: what else tells the solver from others; None where that is not known.
        limit: of steps.
        name: for messages.
        begins_in_python: whether a first run may be Python's.
    """
    if not all(problem.graph for problem in of) or not of or not are_concrete(*trees):
        return run(*trees, limit)
    key = key_of_solver(name, (options, limit), of, trees)
    if key is None or (key not in _programs and key not in _met):
        if key is not None:
            _note(key)
        work = sum([flops(problem.graph[0]) for problem in of if problem.graph])
        if begins_in_python and work <= EAGER_FLOPS and are_known(*trees):
            found = run(*trees, min(limit, EAGER_STEPS))
            if limit <= EAGER_STEPS or int(found.status) != int(Status.ITERATION_LIMIT):
                return found
    return run_or_compile(lambda *xs: run(*xs, limit), *trees, name=name, key=key)


def key_of_solver(name: str, options: Any, of: Sequence[Parametrized[Any]], trees: tuple[Any, ...]) -> Hashable:
    """Return what determines a solver's program; None where it is not known, or holds large constants.

    Args:
        name: of the solver.
        options: a tuple, whose first one is None where they are not known.
        of: the user's functions.
        trees: what the program takes.
    """
    graphs = [problem.graph[0] for problem in of if problem.graph]
    if options[0] is None or len(graphs) < len(of) or sum(map(_bytes_of_constants, graphs)) > KEPT_BYTES_MAX:
        return None
    leaves, treedef = pytree.flatten(trees)
    kinds = treedef, orders(treedef), *[aval_of(x, name) for x in leaves]
    return _Key((name, options, get_default_dtype(), current.key, kinds, *[problem.key for problem in of]))


@attrs.frozen(cache_hash=True)
class _Key:
    """What determines a solver's program, hashed once."""

    parts: tuple[Any, ...]


def _trace(fn: Function, trees: tuple[Any, ...], name: str) -> tuple[list[Any], Traced]:
    """Return the leaves of arguments, and the graph of a function of them, for whose plan code is foreseen."""
    foresee_code(current.target.backend)
    given: tuple[tuple[Any, ...], dict[str, Any]] = (trees, {})
    leaves, treedef = pytree.flatten(given)
    return leaves, to_graph(fn, treedef, [aval_of(x, name) for x in leaves], name)


def _program(traced: Traced, key: Hashable = None) -> Program:
    """Return the program of a key, or without one of a graph that was met before, else this one."""
    new = CompiledGraph(traced.graph)
    if key is None:
        total = _bytes_of_constants(traced.graph)
        _drop_forgotten()
        heads = current.key, traced.out_tree, orders(traced.out_tree), *_key_of(traced.graph)
        if total > COMPARED_BYTES_MAX:
            return new, traced.out_tree, heads
        if total > KEPT_BYTES_MAX and heads[:-1] not in _met:
            _note(heads[:-1])
            return new, traced.out_tree, heads
        key = heads
    known = _programs.get(key, (new, traced.out_tree, key))
    _keep(known)
    return known


def _bytes_of_constants(graph: Graph) -> int:
    return sum([c.value.nbytes for inner in walk(graph) for _, c in inner.constants])


def _keep(program: Program) -> None:
    """Put a program behind all others, by its own key: another one would be compared with it."""
    _programs.pop(program[2], None)
    _programs[program[2]] = program
    _drop_first(_programs)


def _note(key: Hashable) -> None:
    _met[key] = True
    _drop_first(_met)


def _drop_first(known: dict[Hashable, Any]) -> None:
    for old in list(known)[:-PROGRAMS_MAX]:
        known.pop(old, None)


def _drop_forgotten() -> None:
    """Let go of programs whose plans have been forgotten."""
    for key, (program, *_) in list(_programs.items()):  # as a copy would compare keys of one hash, and be interrupted
        if program.is_forgotten:
            _programs.pop(key, None)


def _key_of(graph: Graph) -> tuple[Hashable, ...]:
    """Return what graphs of one program have in common: the hashes of constants first, whose comparison takes longest."""
    graphs = list(walk(graph))
    return tuple([hash(c) for inner in graphs for _, c in inner.constants]), _lines(graphs), CompiledGraph(graph)


def _lines(graphs: Sequence[Graph]) -> Hashable:
    """Return what equal graphs may differ in: their lines and silenced warnings.

    Lines, as the offsets of instructions change when Python specializes them.
    """
    equations = [eq for graph in graphs for eq in graph]
    return tuple(places_of([eq.source for eq in equations])), tuple([eq.ignored_fp_errors for eq in equations])


# --- Pieces that solvers share: results and bounds as vectors, norms, and the loop that runs until a status is
# reached


def iterate(state: S, advance: Callable[[S], S], limit: int) -> S:
    """Return the last state of a solver that advances until its status is another than running, or up to a limit.

    On concrete values the first steps are Python's, and those that follow are compiled.
    """

    def run(s: S, last: int) -> S:
        def going(s: S) -> Array:
            running: Array = (s.status == int(Status.RUNNING)) & (s.iterations < last)
            return running

        return while_loop(going, advance, s)

    is_open = are_known(state)
    end = run(state, min(limit, EAGER_STEPS) if is_open else limit)
    if is_open and are_known(end) and bool((end.status == int(Status.RUNNING)) & (end.iterations < limit)):

        def go_on(s: S) -> S:
            return run(s, limit)

        end = run_or_compile(go_on, end, name="solver")
    over = end.status == int(Status.RUNNING)
    return attrs.evolve(end, status=where(over, int(Status.ITERATION_LIMIT), end.status))


def norm_of(x: Array) -> Array:
    """Return the largest absolute value, 0 of no elements."""
    return max_(abs_(x), initial=0.0)


def as_vector(out: Any, dtype: DType, who: str) -> Array:
    """Return what a user's function returns, a tree of real numbers, as a vector."""
    leaves = [asarray(z) for z in pytree.leaves(out)]
    if not leaves and not isinstance(out, (tuple, list, dict)):
        raise _no_numbers(out, who)
    for z in leaves:
        if z.dtype.kind not in "fiu":
            raise DtypeError(f"{who}: the function returns real numbers: got {z.aval}; convert it, or take its parts")
    return concat([reshape(z, (-1,)).astype(dtype) for z in leaves]) if leaves else zeros(0, dtype)


def _no_numbers(out: Any, who: str) -> OperandError:
    return OperandError(f"{who}: the function returns numbers: got {type(out).__name__} {out!r}; return them")


def as_scalar(out: Any, dtype: DType, who: str, kinds: str = "f") -> Array:
    """Return what a user's function returns, one real number, in a dtype."""
    if out is None:
        raise _no_numbers(out, who)
    z = asarray(out)
    if z.shape != ():
        raise ShapeError(f"{who}: the function returns a real scalar: got {z.aval}; reduce it with afx.sum")
    if z.dtype.kind not in kinds:
        raise DtypeError(
            f"{who}: the function returns a real floating scalar: got {z.aval}; return what is to be least"
        )
    return z.astype(dtype)


def bound_vector(bound: Any, default: float, like: Array, who: str) -> Array:
    """Return a bound as a vector: None gives the default, a number is for all."""
    if bound is None:
        return full(like.shape, default, like.dtype)
    leaves = pytree.leaves(bound)
    if len(leaves) == 1 and not aval_of(leaves[0], f"{who}: bounds").shape:
        return full(like.shape, leaves[0], like.dtype)
    vector = flatten_to_vector(
        pytree.map(lambda x: asarray(x, np.result_type(aval_of(x).dtype, np.float32)), bound), f"{who}: bounds"
    )[0]
    if vector.shape != like.shape:
        raise ShapeError(f"{who}: bounds have as many elements as the start: got {vector.aval}, for {like.aval}")
    return vector.astype(like.dtype)
