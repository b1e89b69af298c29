"""Reading of ONNX models: a model becomes a pytree that is called, compiled and differentiated as any other function."""

from __future__ import annotations

import collections
import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core import Array
from afx.core.registry import FUNCTIONS
from afx.errors import AfxError, ArgumentError, ExportError, MissingExtraError, TracerError
from afx.export.onnx import layers, operators
from afx.export.onnx.nodes import (
    FAULTS,
    MANY,
    OPERATORS,
    Options,
    check_size,
    find_schema,
    load_model,
    operator,
    read_domain,
    read_dtype,
    read_opsets,
    read_options,
    read_tensor,
    read_value,
)
from afx.pytree.static import static

# --- Inner graphs of ONNX: operators that hold graphs, each a program that is run with the names around it

F: Any = FUNCTIONS
ENTERED = (layers, operators)  # which fill the table when they are imported


def _settle(x: Any) -> Any:
    """Return the value of what is known, and what is traced as it is."""
    try:
        return x if x is None else read_value(x)
    except ExportError:
        return x


@operator("If", results=MANY)
def _choose(o: Options, names: Mapping[str, Any], test: Any) -> Any:
    yes, no = [functools.partial(o[key].arrays, names) for key in ("then_branch", "else_branch")]
    test = _settle(test)
    if isinstance(test, Array):
        return F.cond(test.reshape(()), yes, no)
    return yes() if np.asarray(test).item() else no()


def _walk(body: Any, names: Mapping[str, Any], carry: Sequence[Any], rows: Sequence[Any], reverse: bool) -> list[Any]:
    def step(carry: Any, row: Any) -> Any:
        results = body.arrays(names, *carry, *row)
        return results[: len(carry)], results[len(carry) :]

    first, walked = [tuple([F.asarray(x) for x in xs]) for xs in (carry, rows)]
    last, kept = F.scan(step, first, walked, reverse=reverse)
    return [*last, *kept]


@operator(
    "Scan",
    "num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions directions",
    MANY,
)
def _scan(o: Options, names: Mapping[str, Any], *xs: Any) -> list[Any]:
    directions: list[int] = o.get("scan_input_directions", [0])
    back = set(directions + o.get("scan_output_directions", directions))
    if o.version < 9 or len(back) > 1 or any(o.get("scan_input_axes", [])) or any(o.get("scan_output_axes", [])):
        raise ExportError(
            "from_onnx: Scan walks along other axes, both ways, or batches as in opset 8: got several; write the model without it"
        )
    head = len(xs) - o["num_scan_inputs"]
    return _walk(o["body"], names, xs[:head], xs[head:], 1 in back)


@operator("Loop", results=MANY)
def _loop(o: Options, names: Mapping[str, Any], count: Any = None, first: Any = None, *carry: Any) -> Any:
    """Run ONNX's Loop: a scan where the number of steps is known, steps in Python where it stacks rows, else a `while_loop`."""
    body = o["body"]
    count, first = _settle(count), _settle(first)
    copied = {n.outputs[0]: n.inputs[0] for n in body.nodes if n.kind == "Identity"}
    if (
        count is not None
        and not isinstance(count, Array)
        and not isinstance(first, Array)
        and body.inputs[1] in (goes := body.outputs[0], copied.get(goes))
    ):
        steps = attrs.evolve(body, inputs=(*body.inputs[2:], body.inputs[0]), outputs=body.outputs[1:])
        times = int(count) if first is None or np.asarray(first).item() else 0
        check_size("Loop", [times])
        return _walk(steps, {**names, body.inputs[1]: np.array(True)}, carry, [np.arange(times)], False)
    if len(body.outputs) - 1 > len(carry):
        return _run_steps(body, names, count, first, carry)

    def go_on(state: Any) -> Any:
        return state[1] if count is None else state[1] & (state[0] < count)

    def step(state: Any) -> Any:
        return (state[0] + 1, *body.arrays(names, *state))

    start = [F.asarray(x) for x in (np.int64(0), True if first is None else first, *carry)]
    return F.while_loop(go_on, step, tuple(start))[2:]


def _run_steps(body: Any, names: Mapping[str, Any], count: Any, first: Any, carry: Sequence[Any]) -> list[Any]:
    """Run a loop that keeps results of its steps, one after the other: how many there are is known in a plain call alone."""
    state, rows, goes = [F.asarray(x) for x in carry], list[Any](), True if first is None else first
    if count is not None and not isinstance(count, Array):
        check_size("Loop", [int(count)])
    try:
        while (count is None or len(rows) < int(count)) and bool(goes):
            goes, *results = body.arrays(names, np.int64(len(rows)), F.asarray(goes), *state)
            state = results[: len(state)]
            rows.append(results[len(state) :])
    except TracerError as error:
        raise ExportError(
            "from_onnx: a loop of unknown length keeps results of its steps: got Loop under jit or vmap; call the model without"
        ) from error
    if not rows:
        inner = attrs.evolve(body, inputs=(*body.inputs[2:], body.inputs[0]), outputs=body.outputs[1:])
        return _walk(inner, {**names, body.inputs[1]: np.array(True)}, carry, [np.arange(0)], False)
    return [*state, *map(F.stack, zip(*rows, strict=True))]


HOLDERS = ("If", "Loop", "Scan")  # which also take the names around them
FIXED = {  # from which operand on numbers decide shapes or cases, or are statistics: they are no parameters
    **dict.fromkeys(("ConstantOfShape", "Range"), 0),
    **dict.fromkeys(
        ("Clip", "Dropout", "Expand", "NonMaxSuppression", "OneHot", "Pow", "Reshape", "Resize", "Slice"), 1
    ),
    **dict.fromkeys(("Tile", "Upsample"), 1),
    "BatchNormalization": 3,
}


# --- Reading of ONNX models


Kinds = tuple[tuple[np.dtype[Any], tuple[int, ...]] | None, ...]  # of operands


@attrs.frozen
class Node:
    """One operation that was read.

    Attributes:
        kind: the operator.
        inputs: names of its operands, empty where they are left out.
        outputs: names of its results.
        options: what it says beside them.
        program: the nodes that it stands for, by the kinds of its operands, where it is a function of others.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Options | None = None
    program: Callable[[Kinds], OnnxGraph] | None = None


@attrs.frozen(eq=False, repr=False)
class OnnxGraph:
    """A graph that was read: names of inputs and outputs, nodes in order, and arrays by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    known: dict[str, Any]

    def __repr__(self) -> str:
        return f"<{len(self.nodes)} nodes from {', '.join(self.inputs)} to {', '.join(self.outputs)}>"

    def run(self, scope: Mapping[str, Any], *args: Any) -> list[Any]:
        """Return the results, of arguments and of names around the graph."""
        if len(args) != len(self.inputs):
            raise ExportError(f"from_onnx: an inner graph takes {self.inputs}: got {len(args)} values; mend the model")
        names = {**self.known, **scope, **dict(zip(self.inputs, args, strict=True)), "": None}
        for node in self.nodes:
            try:
                results = _apply(node, names)
            except AfxError:
                raise
            except (*FAULTS, MemoryError) as error:
                raise ExportError(
                    f"from_onnx: operands of {node.kind} do not fit: got {', '.join(node.inputs)} ({error}); mend the model"
                ) from error
            if len(results) < len(node.outputs):
                raise ExportError(
                    f"from_onnx: {node.kind} gives {len(results)} results: got {', '.join(node.outputs)}; mend the model"
                )
            names |= {name: x for name, x in zip(node.outputs, results, strict=False) if name}
        return [names[name] for name in self.outputs]

    def arrays(self, scope: Mapping[str, Any], *args: Any) -> tuple[Array, ...]:
        """Return the results as Arrays."""
        return tuple(map(F.asarray, self.run(scope, *args)))


@attrs.frozen
class OnnxFunction:
    """A model of ONNX as a function and a tree of its parameters.

    Attributes:
        params: arrays of the model by name: what is trained and differentiated.
        program: what is computed.
    """

    params: dict[str, Array]
    program: OnnxGraph = static(repr=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its arguments, in order."""
        return self.program.inputs

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """Return the model's result of its inputs in order or by name, a tuple where there are several results.

        Raises:
            ArgumentError: other inputs than the model's.
        """
        rest = self.inputs[len(args) :]
        if len(args) > len(self.inputs) or set(rest) != named.keys():
            given = ", ".join([f"{len(args)} arguments", *named])
            raise ArgumentError(f"from_onnx: the model takes {', '.join(self.inputs)}: got {given}; give each once")
        results = self.program.arrays(self.params, *[F.asarray(x) for x in (*args, *[named[name] for name in rest])])
        return results[0] if len(results) == 1 else results


def from_onnx(model: Any, *, params: Iterable[str] | None = None) -> OnnxFunction:
    """Return the function of a model of ONNX, which can be differentiated, compiled and trained.

    Shapes that it computes of its inputs' shapes are known when it is traced. What decides shapes by its numbers (the
    lengths that Reshape takes, axes, counts) is read where it is a constant, or is given as it is: traced numbers are
    refused. Opsets from 6 on are read by their own rules; operators that ONNX defines by others, and a model's own
    functions, are read as what they stand for.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``. Tensors in other files are read for a path alone.
        params: names of the initializers and constants that are trained; by default all floats with an axis, but those that
            shapes are computed of, exponents, bounds, and the statistics of BatchNormalization.

    Raises:
        ArgumentError: a parameter that the model has not, or has by several arrays.
        ExportError: an operator or an attribute that is not read, an opset below 6, or a model that is not well formed.
        MissingExtraError: onnx is not installed.

    >>> import afx
    >>> from afx import export
    >>> fn = export.from_onnx(export.to_onnx(lambda w, x: afx.sum(w * x), afx.ones(3), afx.ones(3), params=0))
    >>> afx.grad(lambda fn: fn(2 * afx.ones(3)))(fn).params
    {'w': Array([2., 2., 2.], dtype=float32)}
    """
    if importlib.util.find_spec("onnx") is None:
        raise MissingExtraError("from_onnx: needs onnx: pip install 'afx[onnx]'")
    onnx = importlib.import_module("onnx")
    model = load_model(onnx, model)
    functions = {(read_domain(f), str(f.name)): f for f in model.functions}
    program = _read(Dialect(onnx, read_opsets(model.opset_import), functions), model.graph, {""})
    trained = _find_params(_list_programs(program), None if params is None else {*params})
    rest = {k: v for k, v in program.known.items() if k not in trained}
    return OnnxFunction({k: F.asarray(v) for k, v in trained.items()}, attrs.evolve(program, known=rest))


def _find_params(programs: Sequence[OnnxGraph], chosen: set[str] | None) -> dict[str, Any]:
    """Return the arrays that are trained: those that are chosen, or all that can be."""
    known = [(k, v) for program in programs for k, v in program.known.items()]
    counts = collections.Counter([k for k, _ in known])
    floats = {k: v for k, v in known if v.dtype.kind == "f" and counts[k] == 1}
    if chosen is None:
        fixed = _find_fixed(programs)
        return {k: v for k, v in floats.items() if v.ndim and k not in fixed}
    if chosen - floats.keys():
        raise ArgumentError(
            f"from_onnx: no such arrays of floats are in the model: got params {sorted(chosen - floats.keys())}; "
            f"choose of {', '.join(floats)}"
        )
    return {k: v for k, v in floats.items() if k in chosen}


def _list_programs(program: OnnxGraph) -> list[OnnxGraph]:
    """Return a program and those within its nodes, which read the names around them: what is trained stands there."""
    values = [x for node in program.nodes if node.options is not None for x in node.options.attributes.values()]
    return [program, *[inner for x in values if isinstance(x, OnnxGraph) for inner in _list_programs(x)]]


def _find_fixed(programs: Sequence[OnnxGraph]) -> set[str]:
    """Return the names of what is no parameter, and of what it is computed from."""
    nodes = [node for program in programs for node in program.nodes]
    makers = {name: node for node in nodes for name in node.outputs}
    waiting, fixed = [name for node in nodes for name in node.inputs[FIXED.get(node.kind, MANY) :]], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in fixed:
            fixed.add(name)
            waiting += makers[name].inputs if name in makers and makers[name].kind not in ("Shape", "Size") else ()
    return fixed


# --- Reading of ONNX models: nodes and graphs


@attrs.frozen(eq=False)
class Dialect:
    """Which operators a model means: those of each domain's version, and its own functions by domain and name."""

    onnx: Any
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Any]


def _apply(node: Node, names: Mapping[str, Any]) -> Sequence[Any]:
    xs = [names[name] for name in node.inputs]
    if node.program is not None:
        body = node.program(tuple([None if x is None else (np.dtype(x.dtype), tuple(x.shape)) for x in xs]))
        return body.run({}, *xs[: len(body.inputs)], *[None] * (len(body.inputs) - len(xs)))
    assert node.options is not None
    form = OPERATORS[node.kind].form
    if node.kind in HOLDERS:
        within: Sequence[Any] = form(node.options, names, *xs)
        return within
    xs += node.options.operands
    made = form(node.options, *xs)
    results: tuple[Any, ...] = made if made.__class__ is tuple else (made,)
    if any(isinstance(x, Array) for x in xs):
        return results
    return [np.asarray(x) for x in results]  # shapes and constants stay NumPy's, known at once


def _read(dialect: Dialect, graph: Any, outer: set[str]) -> OnnxGraph:
    known = {t.name: read_tensor(dialect.onnx, t) for t in graph.initializer}
    inputs = [_check_input(dialect.onnx, i) for i in graph.input if i.name not in known]
    return _read_nodes(dialect, graph.node, known, inputs, [o.name for o in graph.output], outer)


def _read_nodes(
    dialect: Dialect, given: Any, known: dict[str, Any], inputs: Sequence[str], outputs: Sequence[str], outer: set[str]
) -> OnnxGraph:
    names, nodes = {*outer, *known, *inputs}, list[Node]()
    for proto in given:
        node = _node(dialect, proto, names)
        _check_new(proto, names - outer)
        value = OPERATORS["Constant"].form(node.options) if node.kind == "Constant" else None
        if value is not None and np.ndim(value):
            known[node.outputs[0]] = value  # as an initializer: some libraries write weights so
        else:
            nodes.append(node)
        names |= {*proto.output}
    _check_names("the graph's results", outputs, names)
    return OnnxGraph(tuple(inputs), tuple(outputs), tuple(nodes), known)


def _check_input(onnx: Any, given: Any) -> str:
    kind = given.type.WhichOneof("value") or "tensor_type"  # of which inner graphs may say nothing
    if kind != "tensor_type":
        raise ExportError(
            f"from_onnx: an input is no tensor: got {given.name}, {kind.removesuffix('_type')}; write the model without it"
        )
    if given.type.tensor_type.elem_type:
        read_dtype(onnx, f"the input {given.name!r}", given.type.tensor_type.elem_type)
    return str(given.name)


def _check_new(node: Any, names: set[str]) -> None:
    twice = [name for name in node.output if name and name in names]
    if twice:
        raise ExportError(
            f"from_onnx: a name is given twice: got {', '.join(twice)}, again by {node.op_type}; mend the model"
        )


def _check_names(what: str, wanted: Sequence[str], names: set[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ExportError(f"from_onnx: {what} need what no node gives: got {', '.join(missing)}; mend the model")


def _node(dialect: Dialect, node: Any, names: set[str]) -> Node:
    _check_names(f"operands of {node.op_type}", node.input, names)
    ends = (str(node.op_type), tuple(node.input), tuple(node.output))
    domain = read_domain(node)
    if domain or node.op_type not in OPERATORS or (domain, node.op_type) in dialect.functions:
        return Node(*ends, program=_find_function(dialect, node, domain))
    more = [name for name in node.output[OPERATORS[node.op_type].results :] if name]
    if more:
        raise ExportError(
            f"from_onnx: an optional result of {node.op_type} is not read: got {', '.join(more)}; write the model without it"
        )
    schema = find_schema(dialect.onnx, node, dialect.opsets.get("", 0))
    return Node(*ends, read_options(dialect.onnx, node, schema, lambda graph: _read(dialect, graph, {*names})))


# -- functions: operators that stand for other nodes, ONNX's or the model's own --
def _find_function(dialect: Dialect, node: Any, domain: str) -> Callable[[Kinds], OnnxGraph]:
    """Return what a node stands for, by the kinds of its operands.

    Raises:
        ExportError: it stands for no other nodes, or for some that are not read.
    """
    key = domain, node.op_type
    if key in dialect.functions:
        functions = {other: f for other, f in dialect.functions.items() if other != key}  # none calls itself
        body = _read_function(attrs.evolve(dialect, functions=functions), node, dialect.functions[key], {})
        return lambda _: body
    onnx, opset = dialect.onnx, dialect.opsets.get(domain, 0)
    has_schema = onnx.defs.has(node.op_type, domain)
    schema = find_schema(onnx, node, opset) if has_schema else None
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        raise ExportError(
            f"from_onnx: an operator is not read: got {domain}.{node.op_type}; write the model without it"
        )
    defaults = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name}
    standard = attrs.evolve(dialect, functions={})
    if schema.has_function:
        text = schema.get_function_with_opset_version(_version(schema.function_opset_versions, opset))
        body = _read_function(standard, node, onnx.FunctionProto.FromString(text), defaults)
        return lambda _: body
    return _function_of_kinds(standard, node, schema, opset, defaults)


def _function_of_kinds(
    standard: Dialect, node: Any, schema: Any, opset: int, defaults: Mapping[str, Any]
) -> Callable[[Kinds], OnnxGraph]:
    """Return what a node stands for whose function depends on the kinds of its operands."""
    onnx = standard.onnx
    version = _version(schema.context_dependent_function_opset_versions, opset)
    whole = onnx.NodeProto.FromString(node.SerializeToString())
    whole.attribute.extend([a for name, a in defaults.items() if name not in {b.name for b in node.attribute}])

    def read(kinds: Kinds) -> OnnxGraph:
        types = [_describe(onnx, kind).SerializeToString() for kind in kinds]
        try:
            text = schema.get_context_dependent_function_with_opset_version(version, whole.SerializeToString(), types)
        except onnx.shape_inference.InferenceError as error:
            raise ExportError(
                f"from_onnx: {node.op_type} is not defined: got {kinds}, {error}; mend the model"
            ) from error
        function = onnx.FunctionProto.FromString(text)
        if not function.node:
            raise ExportError(
                f"from_onnx: {node.op_type} is not defined for these operands: got {kinds}; mend the model"
            )
        return _read_function(standard, whole, function, {})

    return functools.cache(read)


def _version(versions: Sequence[int], opset: int) -> int:
    return max([v for v in versions if v <= opset], default=min(versions))


def _describe(onnx: Any, kind: Any) -> Any:
    if kind is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(kind[0]), kind[1])


def _read_function(dialect: Dialect, node: Any, function: Any, defaults: Mapping[str, Any]) -> OnnxGraph:
    """Return the program of a function with a node's attributes in the places that they are named at."""
    given = {**defaults, **{a.name: a for a in [*function.attribute_proto, *node.attribute]}}
    nodes = [_bind(dialect.onnx, inner, given) for inner in function.node]
    inner = attrs.evolve(dialect, opsets={**dialect.opsets, **read_opsets(function.opset_import)})
    results = [name if wanted else "" for name, wanted in zip(function.output, node.output, strict=False)]
    return _read_nodes(inner, nodes, {}, [*function.input], results, {""})


def _bind(onnx: Any, node: Any, given: Mapping[str, Any]) -> Any:
    """Return a node of a function with the attributes that it names by others."""
    bound = onnx.NodeProto.FromString(node.SerializeToString())
    del bound.attribute[:]
    for a in node.attribute:
        if a.ref_attr_name and a.ref_attr_name not in given:
            continue
        new = bound.attribute.add()
        new.CopyFrom(given[a.ref_attr_name] if a.ref_attr_name else a)
        new.name = a.name
        inner = [_bind(onnx, n, given) for n in new.g.node]
        del new.g.node[:]
        new.g.node.extend(inner)
    return bound
