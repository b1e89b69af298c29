"""Writing of ONNX models: a function is traced, its graph walked by the table, and the nodes made a model."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.compiler.schedule.schedule import graphs_of
from afx.compiler.target import Target, current
from afx.core import Aval, Function, to_numpy_value
from afx.core.graph import Equation, Graph
from afx.errors import ArgumentError, ExportError, MissingExtraError
from afx.export.onnx import arrays, elementwise, loops
from afx.export.onnx.elementwise import OPSET, TABLE
from afx.export.onnx.writer import Grid, Length, OnnxWriter, drop_copies
from afx.export.templates import Names, Walk
from afx.export.traced import Slot, Traceable, argument_names, trace_program

FAMILIES = (elementwise, arrays, loops)  # whose import enters their templates
ALWAYS = 1 << 62  # a threshold that no program meets
IR_VERSION = 8  # of the file, that of the opset's release
Axes = Mapping[str, Mapping[int, str]]


def to_onnx(
    fn: Callable[..., Any],
    /,
    *args: Any,
    params: int | Sequence[int] = (),
    dynamic_axes: Axes | None = None,
    name: str | None = None,
) -> Any:
    """Return a function, such as a gradient, as a model of ONNX (opset 18).

    The model is checked by onnx's checker. Its inputs and results are called after the leaves of the arguments and of the
    result (``net.inner.weight`` is ``net_inner_weight``), its values after the user's variables. ``onnx.save`` writes it.

    onnxruntime computes it up to rounding: float32 to 1e-6, float64 to 1e-12 of the largest element. Convolutions, error
    functions and inverse functions of float64, which it lacks, are written by products and elementary functions. Complex
    numbers and float16 are refused. Where elements of an index repeat, ``x.at[i].set`` leaves any of the values. nan and
    infinities give what they give here, but that `softmax` of an infinity is nan and that sorting, and `searchsorted` after
    it, place nan anywhere. The sign of a zero may be lost, as by a choice (`where`), `expm1`, `trunc` and `copysign`. Integers
    to a negative power, which is an error here, are 0. Solutions, determinants and Cholesky factors are written for up to 32
    rows; where a matrix has none, they are nan.

    Args:
        fn: a function of arrays; it is traced, not run.
        *args: example arguments, of which structure, shapes and dtypes count: trees of arrays, numbers or `afx.Aval`.
        params: positions of arguments whose numbers stand in the model as initializers, instead of inputs.
        dynamic_axes: names of axes of any length, by argument or leaf: ``{"x": {0: "batch"}}``. The function is traced at
            several lengths, and what depends on them must do so by sums and products.
        name: of the model's graph; by default the Python function's.

    Raises:
        ExportError: something in it has no form in ONNX; the message names it and the user's line.
        ArgumentError: dynamic axes of what is no argument, or of an axis that it lacks.
        MissingExtraError: onnx is not installed.

    >>> import afx
    >>> from afx import export
    >>> model = export.to_onnx(lambda x: afx.tanh(x) * 2.0, afx.zeros((4, 3)), dynamic_axes={"x": {0: "batch"}})
    >>> [node.op_type for node in model.graph.node]
    ['Tanh', 'Mul']
    """
    if importlib.util.find_spec("onnx") is None:
        raise MissingExtraError("to_onnx: needs onnx: pip install 'afx[onnx]'")
    marks = _mark_axes(fn, args, dynamic_axes or {})
    grid = Grid(sorted({axis for leaf in marks for axis in leaf.values()}))
    target = _target(is_dynamic=bool(grid.axes))
    traces = [trace_program(fn, _resize(args, marks, point), "to_onnx", name, target) for point in grid.points]
    where = f"to_onnx: {traces[0].name}"
    walk = Walk(TABLE, Names(), where, target)
    traces = [attrs.evolve(t, graph=walk.expand(t.graph)) for t in traces]
    program = traces[0]
    walk.check(program.graph)
    twins: dict[int, Sequence[Equation]] = {}
    constants: dict[int, Sequence[Any]] = {}
    _pair(walk, [t.graph for t in traces], twins, constants)
    writer = OnnxWriter(walk, grid, twins, where)
    writer.constants = constants
    return _Model(writer, program, traces, marks).write(args, (params,) if isinstance(params, int) else tuple(params))


# -- dynamic axes --
def _target(is_dynamic: bool) -> Target:
    """Return thresholds by which graphs of all sizes are simplified alike, and lengths stay in them where they are dynamic."""
    target = attrs.evolve(current.target, collapse_min_elements=ALWAYS, select_min_elements=0)
    if not is_dynamic:
        return target
    return attrs.evolve(
        target, fold_max_elements=1, known_max_elements=1, share_max_bytes=ALWAYS, spread_max_bytes=ALWAYS
    )


def _mark_axes(fn: Function, args: tuple[Any, ...], axes: Axes) -> list[dict[int, str]]:
    """Return the names of each leaf's dynamic axes."""
    names = argument_names(fn, len(args))
    paths = [
        (f"{name}{path}", np.shape(leaf) if not isinstance(leaf, Aval) else leaf.shape)
        for name, arg in zip(names, args, strict=True)
        for path, leaf in zip(pytree.paths(pytree.structure(arg)), pytree.leaves(arg), strict=True)
    ]
    axes_by_leaf = [dict[int, str]() for _ in paths]
    for key, marks in axes.items():
        hits = [k for k, (path, _) in enumerate(paths) if path == key or path.startswith((f"{key}.", f"{key}["))]
        if not hits:
            raise ArgumentError(
                f"to_onnx: no argument of this name: got {key!r} in dynamic_axes; there are {', '.join(p for p, _ in paths)}"
            )
        for k in hits:
            path, shape = paths[k]
            if not all(-len(shape) <= axis < len(shape) for axis in marks):
                raise ArgumentError(
                    f"to_onnx: an axis that {path} lacks: got {dict(marks)} of shape {shape}; name one of its axes"
                )
            axes_by_leaf[k] |= {axis % len(shape): str(mark) for axis, mark in marks.items()}
    return axes_by_leaf


def _resize(args: tuple[Any, ...], marks: Sequence[Mapping[int, str]], point: Mapping[str, int]) -> tuple[Any, ...]:
    """Return arguments whose dynamic axes have these lengths."""
    if not point:
        return args
    leaves, tree = pytree.flatten(args)
    arguments = list[Any]()
    for leaf, axes in zip(leaves, marks, strict=True):
        if not axes:
            arguments.append(leaf)
            continue
        aval = (
            leaf if isinstance(leaf, Aval) else Aval(np.shape(leaf), np.asarray(to_numpy_value(leaf, "to_onnx")).dtype)
        )
        arguments.append(
            Aval(tuple([point[axes[k]] if k in axes else n for k, n in enumerate(aval.shape)]), aval.dtype)
        )
    return pytree.unflatten(tree, arguments)


def _pair(
    walk: Walk[OnnxWriter],
    graphs: Sequence[Graph],
    twins: dict[int, Sequence[Equation]],
    constants: dict[int, Sequence[Any]],
) -> None:
    """Enter for each equation and captured array of the first graph those of the other traces."""
    first, *others = graphs
    same = all(
        [eq.primitive.name for eq in g.equations] == [eq.primitive.name for eq in first.equations]
        and len(g.constants) == len(first.constants)
        for g in others
    )
    if not same:
        raise ExportError(
            f"{walk.where}: its operations differ from one length of dynamic axes to the next; fix some of them"
        )
    for k, (_, constant) in enumerate(first.constants):
        constants[id(constant.value)] = [g.constants[k][1].value for g in others]
    for k, eq in enumerate(first.equations):
        every = [eq, *[g.equations[k] for g in others]]
        twins[id(eq)] = every[1:]
        if eq.primitive.lowering.control is not None:
            held = [graphs_of(spec) for e in every if (spec := walk.control(e)) is not None]
            for inner in zip(*held, strict=True):
                _pair(walk, inner, twins, constants)


# -- the model --
class _Model:
    """The model that is being written."""

    def __init__(
        self, writer: OnnxWriter, program: Traceable, traces: Sequence[Traceable], marks: Sequence[Mapping[int, str]]
    ) -> None:
        self.writer, self.program, self.traces, self.marks = writer, program, traces, marks
        self.onnx: Any = writer.onnx

    def write(self, args: tuple[Any, ...], params: tuple[int, ...]) -> Any:
        """Return the model."""
        w, program = self.writer, self.program
        names = [w.names.make(slot.path) for slot in program.inputs]
        for name, axes in zip(names, self.marks, strict=True):
            w.sources |= {symbol: (name, axis) for axis, symbol in axes.items()}
        inputs = self._enter_inputs(args, params, names)
        wishes = [w.names.make(slot.path) for slot in program.outputs]
        texts = w.walk.write(w, program.graph, names)
        for text, name in zip(texts, wishes, strict=True):
            w.put("Identity", [text], [name])
        outputs = [
            self._info(name, slot, tuple([t.outputs[k].shape for t in self.traces]))
            for k, (name, slot) in enumerate(zip(wishes, program.outputs, strict=True))
        ]
        nodes = drop_copies([*w.prologue, *w.nodes], {*wishes})
        graph = self.onnx.helper.make_graph(nodes, Names().make(program.name), inputs, outputs, w.initializers)
        return self._finish(graph)

    def _enter_inputs(self, args: tuple[Any, ...], params: tuple[int, ...], names: Sequence[str]) -> list[Any]:
        """Enter the numbers of parameters as initializers; return what describes the other inputs."""
        w, inputs, k = self.writer, list[Any](), 0
        for position, arg in enumerate(args):
            for leaf in pytree.leaves(arg):
                slot, name = self.program.inputs[k], names[k]
                if position in params:
                    if isinstance(leaf, Aval) or self.marks[k]:
                        raise ArgumentError(
                            f"to_onnx: a parameter needs numbers: got {slot} for {slot.path}; pass an array"
                        )
                    w.initialize(name, np.asarray(to_numpy_value(leaf, "to_onnx")).astype(slot.dtype))
                else:
                    inputs.append(self._info(name, slot, tuple([t.inputs[k].shape for t in self.traces])))
                k += 1
        return inputs

    def _info(self, name: str, slot: Slot, shapes: Sequence[tuple[int, ...]]) -> Any:
        if slot.dtype.kind not in "fiub" or slot.dtype == np.float16:
            raise ExportError(f"{self.writer.where}: {slot.path} has a dtype that models lack: got {slot}; convert it")
        shape: tuple[Length, ...] = self.writer.grid.merge(
            list(shapes),
            lambda what: ExportError(
                f"{self.writer.where}: {slot.path} has lengths that are no sums and products: got {what}"
            ),
        )
        return self.writer.describe(name, (slot.dtype, shape), slot.path)

    def _finish(self, graph: Any) -> Any:
        helper = self.onnx.helper
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        model.producer_name = "afx"
        self.onnx.checker.check_model(model)
        return model
