"""Reading of ONNX models: a model becomes a pytree that is called, compiled and differentiated as any other function."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.core.registry import FUNCTIONS
from afx.errors import AfxError, ArgumentError, ExportError, MissingExtraError, TracerError
from afx.export.onnx.operators import (
    FAULTS,
    FIRST_RESULTS,
    FIXED,
    OPERATORS,
    Options,
    check_size,
    load_model,
    read_opset,
    read_options,
    read_tensor,
)
from afx.pytree.static import static

# --- Inner graphs of ONNX: operators that hold graphs, each a program that is run with the names around it

F: Any = FUNCTIONS


def _choose(o: Options, names: Mapping[str, Any], test: Any) -> Any:
    yes, no = [functools.partial(o[key].arrays, names) for key in ("then_branch", "else_branch")]
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


def _scan(o: Options, names: Mapping[str, Any], *xs: Any) -> list[Any]:
    directions: list[int] = o.get("scan_input_directions", [0])
    back = set(directions + o.get("scan_output_directions", directions))
    if len(back) > 1 or any(o.get("scan_input_axes", [])) or any(o.get("scan_output_axes", [])):
        raise ExportError(
            "from_onnx: Scan walks along other axes, or both ways: got several; write the model without it"
        )
    head = len(xs) - o["num_scan_inputs"]
    return _walk(o["body"], names, xs[:head], xs[head:], 1 in back)


def _loop(o: Options, names: Mapping[str, Any], count: Any = None, first: Any = None, *carry: Any) -> Any:
    body: Any = o["body"]
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


HOLDERS: dict[str, Callable[..., Any]] = {"If": _choose, "Loop": _loop, "Scan": _scan}


# --- Reading of ONNX models: a model becomes a pytree that is called, compiled and differentiated as any other
# function


@attrs.frozen
class Node:
    """One operation that was read."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Options


@attrs.frozen(eq=False)
class Program:
    """A graph that was read: names of inputs and outputs, nodes in order, and arrays by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    known: dict[str, Any]

    def run(self, scope: Mapping[str, Any], *args: Any) -> list[Any]:
        """Return the results, of arguments and of names around the graph."""
        if len(args) != len(self.inputs):
            raise ExportError(f"from_onnx: an inner graph takes {self.inputs}: got {len(args)} values; mend the model")
        names = {**scope, **self.known, **dict(zip(self.inputs, args, strict=True)), "": None}
        for node in self.nodes:
            try:
                results = _apply(node, names)
            except AfxError:
                raise
            except (*FAULTS, MemoryError) as error:
                raise ExportError(
                    f"from_onnx: operands of {node.kind} do not fit: got {', '.join(node.inputs)} ({error}); mend the model"
                ) from error
            names |= dict(zip(node.outputs, results, strict=False))
        return [names[name] for name in self.outputs]

    def arrays(self, scope: Mapping[str, Any], *args: Any) -> tuple[Array, ...]:
        """Return the results as Arrays."""
        return tuple([F.asarray(x) for x in self.run(scope, *args)])


@attrs.frozen
class OnnxFunction:
    """A model of ONNX as a function and a tree of its parameters.

    Attributes:
        params: the initializers of floats, by name: what is trained and differentiated.
        program: what is computed.
    """

    params: dict[str, Array]
    program: Program = static(repr=False)  # noqa: RUF009 - a field specifier

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


def from_onnx(model: Any) -> OnnxFunction:
    """Return the function of a model of ONNX, which can be differentiated, compiled and trained.

    Shapes that it computes of its inputs' shapes are known when it is traced; those of its inputs' numbers are refused. Opsets
    from 6 on are read by their own rules.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``. Tensors in other files are read for a path alone.

    Raises:
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
    onnx: Any = importlib.import_module("onnx")
    model = load_model(onnx, model)
    program = _read(onnx, model.graph, read_opset(model), {""})
    fixed = {name for node in program.nodes for name in node.inputs[1:] if node.kind in FIXED}
    params = {k: F.asarray(v) for k, v in program.known.items() if v.dtype.kind == "f" and k not in fixed}
    return OnnxFunction(
        params, attrs.evolve(program, known={k: v for k, v in program.known.items() if k not in params})
    )


def _apply(node: Node, names: Mapping[str, Any]) -> Sequence[Any]:
    xs = [*[names[name] for name in node.inputs], *node.options.operands]
    if node.kind in HOLDERS:
        kept: Sequence[Any] = HOLDERS[node.kind](node.options, names, *xs)
        if len(kept) < len(node.outputs):
            raise ExportError(f"from_onnx: {node.kind} gives {len(kept)} results: got {node.outputs}; mend the model")
        return kept
    made = OPERATORS[node.kind](node.options, *xs)
    results: tuple[Any, ...] = made if made.__class__ is tuple else (made,)
    if any(isinstance(x, Array) for x in xs):
        return results
    return [np.asarray(x) for x in results]  # shapes and constants stay NumPy's, known at once


def _read(onnx: Any, graph: Any, opset: int, outer: set[str]) -> Program:
    known = {t.name: read_tensor(onnx, t) for t in graph.initializer}
    inputs = tuple([_check_input(i) for i in graph.input if i.name not in known])
    names, nodes = {*outer, *known, *inputs}, list[Node]()
    for node in graph.node:
        nodes.append(_node(onnx, node, opset, names))
        _check_new(node, names - outer)
        names |= {*node.output}
    outputs = tuple([o.name for o in graph.output])
    _check_names("the graph's results", outputs, names)
    return Program(inputs, outputs, tuple(nodes), known)


def _check_input(given: Any) -> str:
    kind = given.type.WhichOneof("value") or "tensor_type"  # of which inner graphs may say nothing
    if kind != "tensor_type":
        raise ExportError(
            f"from_onnx: an input is no tensor: got {given.name}, {kind.removesuffix('_type')}; write the model without it"
        )
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


def _node(onnx: Any, node: Any, opset: int, names: set[str]) -> Node:
    if node.domain not in ("", "ai.onnx") or node.op_type not in {*OPERATORS, *HOLDERS}:
        raise ExportError(
            f"from_onnx: an operator is not read: got {node.domain}.{node.op_type}; write the model without it"
        )
    _check_names(f"operands of {node.op_type}", node.input, names)
    more = [name for name in node.output[FIRST_RESULTS.get(node.op_type, 1) :] if name]
    if more and node.op_type not in {*HOLDERS, "Split"}:
        raise ExportError(
            f"from_onnx: an optional result of {node.op_type} is not read: got {', '.join(more)}; write the model without it"
        )
    options = read_options(onnx, node, opset, lambda graph: _read(onnx, graph, opset, {*names}))
    return Node(node.op_type, tuple(node.input), tuple(node.output), options)
