"""Reading of ONNX models: a model becomes a pytree that is called, compiled and differentiated as any other function."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx import nn
from afx.core.array.array import Array
from afx.core.registry import FUNCTIONS
from afx.errors import AfxError, ArgumentError, ExportError, MissingExtraError
from afx.export.onnx.attributes import Options, read_options
from afx.export.onnx.inner_graphs import HOLDERS
from afx.export.onnx.loading import FAULTS, load_model, read_opset, read_tensor
from afx.pytree.static import static

__all__ = ["OnnxFunction", "from_onnx"]

F: Any = FUNCTIONS


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
                found = _apply(node, names)
            except AfxError:
                raise
            except FAULTS as error:
                raise ExportError(
                    f"from_onnx: operands of {node.kind} do not fit: got {', '.join(node.inputs)} ({error}); mend the model"
                ) from error
            names |= dict(zip(node.outputs, found, strict=False))
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

    def __call__(self, *args: Any) -> Any:
        """Return the model's result of its inputs in order, a tuple where there are several results.

        Raises:
            ArgumentError: another number of inputs.
        """
        if len(args) != len(self.inputs):
            raise ArgumentError(
                f"from_onnx: the model takes {', '.join(self.inputs)}: got {len(args)} arguments; give each"
            )
        found = self.program.arrays(self.params, *map(F.asarray, args))
        return found[0] if len(found) == 1 else found


def from_onnx(model: Any) -> OnnxFunction:
    """Return the function of a model of ONNX, which can be differentiated, compiled and trained.

    Shapes that it computes of its inputs' shapes are known when it is traced; those of its inputs' numbers are refused.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``. Tensors in other files are read for a path alone.

    Raises:
        ExportError: an operator or an attribute that is not read, an opset below 13, or a model that is not well formed.
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
    params = {k: F.asarray(v) for k, v in program.known.items() if v.dtype.kind == "f"}
    return OnnxFunction(
        params, attrs.evolve(program, known={k: v for k, v in program.known.items() if k not in params})
    )


def _apply(node: Node, names: Mapping[str, Any]) -> Sequence[Any]:
    xs = [names[name] for name in node.inputs]
    if node.kind in HOLDERS:
        kept: Sequence[Any] = HOLDERS[node.kind](node.options, names, *xs)
        if len(kept) < len(node.outputs):
            raise ExportError(f"from_onnx: {node.kind} gives {len(kept)} results: got {node.outputs}; mend the model")
        return kept
    found = OPERATORS[node.kind](node.options, *xs)
    results: tuple[Any, ...] = found if found.__class__ is tuple else (found,)
    if any(isinstance(x, Array) for x in xs):
        return results
    return [np.asarray(x) for x in results]  # shapes and constants stay NumPy's, known at once


def _read(onnx: Any, graph: Any, opset: int, outer: set[str]) -> Program:
    known = {t.name: read_tensor(onnx, t) for t in graph.initializer}
    inputs = tuple([i.name for i in graph.input if i.name not in known])
    names, nodes = {*outer, *known, *inputs}, list[Node]()
    for node in graph.node:
        nodes.append(_node(onnx, node, opset, names))
        _check_new(node, names - outer)
        several = node.op_type in {*HOLDERS, "Split", "TopK"}
        names |= {*(node.output if several else node.output[:1])}
    outputs = tuple([o.name for o in graph.output])
    _check_names("the graph's results", outputs, names)
    return Program(inputs, outputs, tuple(nodes), known)


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
    options = read_options(onnx, node, opset, lambda graph: _read(onnx, graph, opset, {*names}))
    return Node(node.op_type, tuple(node.input), tuple(node.output), options)


# -- operators: their options, then operands, of which those that are left out are None --
def _ints(x: Any) -> list[int]:
    """Return what must be known while the program is traced."""
    if isinstance(x, Array):
        raise ExportError(
            f"from_onnx: a shape or an axis depends on an input's numbers: got {x.aval}; make it a constant"
        )
    return [int(n) for n in np.ravel(x)]


def _divide(_o: Options, x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return x / y
    low = x // y
    return low + ((low * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)


def _infinite(o: Options, x: Any) -> Any:
    up, down = bool(o.get("detect_positive", 1)), bool(o.get("detect_negative", 1))
    return F.isinf(x) & (up & (x > 0) | down & (x < 0))


def _cumulative(o: Options, x: Any, axis: Any) -> Any:
    place, back = _ints(axis)[0], o.get("reverse")
    found = F.cumulative_sum(F.flip(x, axis=place) if back else x, axis=place)
    found = F.flip(found, axis=place) if back else found
    return found - x if o.get("exclusive") else found


def _reshape(o: Options, x: Any, shape: Any) -> Any:
    keeps = not o.get("allowzero")
    return x.reshape(tuple([x.shape[k] if n == 0 and keeps else n for k, n in enumerate(_ints(shape))]))


def _slice(_o: Options, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    low, high, index = _ints(starts), _ints(ends), [slice(None)] * x.ndim
    places = range(len(low)) if axes is None else _ints(axes)
    strides = [1] * len(low) if steps is None else _ints(steps)
    for axis, start, end, step in zip(places, low, high, strides, strict=True):
        n = x.shape[axis]
        index[axis] = slice(max(start, -n), None if step < 0 and end < -n else end, step)
    return x[tuple(index)]


def _split(o: Options, x: Any, sizes: Any = None) -> Any:
    axis, count = o.get("axis", 0), o.outputs
    lengths = [-(-x.shape[axis] // count)] * count if sizes is None else _ints(sizes)
    return tuple(F.split(x, np.cumsum(lengths)[: count - 1].tolist(), axis=axis))


def _pad(o: Options, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    widths, each = _ints(pads), [(0, 0)] * x.ndim
    for k, axis in enumerate(range(x.ndim) if axes is None else _ints(axes)):
        each[axis] = (widths[k], widths[k + len(widths) // 2])
    mode = o.get("mode", "constant")
    return F.pad(x, each, mode, **({"constant_values": 0 if value is None else value} if mode == "constant" else {}))


def _scatter(o: Options, x: Any, i: Any, values: Any) -> Any:
    reduction: str = o.get("reduction", "none")
    place = F.asarray(x).at[tuple([i[..., k] for k in range(i.shape[-1])])]
    return getattr(place, {"none": "set", "mul": "multiply"}.get(reduction, reduction))(values)


def _reduce(function: str, o: Options, x: Any, axes: Any = None) -> Any:
    given = o.get("axes") if axes is None else _ints(axes)
    if not given and o.get("noop_with_empty_axes"):
        return x
    return getattr(F, function)(x, axis=tuple(given) if given else None, keepdims=bool(o.get("keepdims", 1)))


def _place(function: str, o: Options, x: Any) -> Any:
    return getattr(F, function)(x, axis=o.get("axis", 0), keepdims=bool(o.get("keepdims", 1)))


def _top(o: Options, x: Any, k: Any) -> Any:
    axis = o.get("axis", -1)
    order = F.take(F.argsort(x, axis=axis, descending=bool(o.get("largest", 1))), np.arange(_ints(k)[0]), axis=axis)
    return F.take_along_axis(x, order, axis=axis), order


def _padding(o: Options, rank: int) -> Any:
    pads = o.get("pads", [0] * (2 * rank))
    counted = o.get("count_include_pad") and any(pads)
    if o.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or o.get("ceil_mode") or counted:
        raise ExportError(
            f"from_onnx: {o.kind} has padding that is not read: got {o.attributes}; write it with pads, uncounted"
        )
    return list(zip(pads[:rank], pads[rank:], strict=True))


def _conv(o: Options, x: Any, kernel: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    moves = {"stride": o.get("strides", 1), "dilation": o.get("dilations", 1), "groups": o.get("group", 1)}
    turned = F.permute_dims(kernel, [*range(2, rank + 2), 1, 0])
    z = nn.conv(F.moveaxis(x, 1, -1), turned, padding=_padding(o, rank), **moves)
    return F.moveaxis(z if bias is None else z + bias, -1, 1)


def _pool(pool: Callable[..., Any], o: Options, x: Any) -> Any:
    window = o["kernel_shape"]
    options = {"stride": o.get("strides", [1] * len(window)), "padding": _padding(o, len(window))}
    return F.moveaxis(pool(F.moveaxis(x, 1, -1), window, **options), -1, 1)


def _gemm(o: Options, x: Any, y: Any, bias: Any = None) -> Any:
    z = (x.T if o.get("transA") else x) @ (y.T if o.get("transB") else y) * o.get("alpha", 1.0)
    return z if bias is None else z + bias * o.get("beta", 1.0)


def _batch_norm(o: Options, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
    slope = scale / F.sqrt(variance + o.get("epsilon", 1e-5))
    return F.moveaxis((F.moveaxis(x, 1, -1) - mean) * slope + shift, -1, 1)


def _layer_norm(o: Options, x: Any, scale: Any, shift: Any = None) -> Any:
    z = nn.standardize(x, tuple(range(o.get("axis", -1) % x.ndim, x.ndim)), eps=o.get("epsilon", 1e-5)) * scale
    return z if shift is None else z + shift


PLAIN = """Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Cos Cosh Equal Erf Exp Floor Greater IsNaN Less Log MatMul Round
    Sign Sin Sinh Sqrt Tan Tanh Reciprocal Where"""  # which have the names of afx's functions, in small letters
NAMES = {  # and those of another name
    "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_invert", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "GreaterOrEqual": "greater_equal", "LessOrEqual": "less_equal", "Mul": "multiply",
    "Neg": "negative", "Not": "logical_not", "Or": "logical_or", "Sub": "subtract", "Xor": "logical_xor",
}  # fmt: skip
FOLDED = {"Max": F.maximum, "Min": F.minimum, "Sum": F.add}  # which take any number of operands
OF_ONE: dict[str, Callable[[Options, Any], Any]] = {
    "Cast": lambda o, x: x.astype(o["to"]),
    "ConstantOfShape": lambda o, n: F.broadcast_to(o.get("value", np.zeros(1, np.float32))[0], tuple(_ints(n))),
    "Flatten": lambda o, x: x.reshape((math.prod(x.shape[: o.get("axis", 1)]), -1)),
    "Gelu": lambda o, x: nn.gelu(x, approximate=o.get("approximate") == "tanh"),
    "GlobalAveragePool": lambda _o, x: F.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True),
    "LeakyRelu": lambda o, x: F.where(x < 0, x * o.get("alpha", 0.01), x),
    "LogSoftmax": lambda o, x: nn.log_softmax(x, o.get("axis", -1)),
    "Relu": lambda _o, x: nn.relu(x),
    "Selu": lambda o, x: o.get("gamma", 1.05070098) * nn.elu(x, o.get("alpha", 1.67326324)),
    "Shape": lambda o, x: np.array(x.shape[o.get("start") : o.get("end")], np.int64),
    "Sigmoid": lambda _o, x: nn.sigmoid(x),
    "Size": lambda _o, x: np.array(math.prod(x.shape)),
    "Softmax": lambda o, x: nn.softmax(x, o.get("axis", -1)),
    "Softplus": lambda _o, x: nn.softplus(x),
    "Transpose": lambda o, x: F.permute_dims(x, o.get("perm", range(x.ndim)[::-1])),
}
OF_TWO: dict[str, Callable[[Options, Any, Any], Any]] = {
    "BitShift": lambda o, x, y: getattr(F, f"bitwise_{o['direction'].lower()}_shift")(x, y),
    "Expand": lambda _o, x, n: F.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(_ints(n)))),
    "Gather": lambda o, x, i: F.take(x, i, axis=o.get("axis", 0)),
    "GatherND": lambda _o, x, i: x[tuple([i[..., k] for k in range(i.shape[-1])])],
    "Mod": lambda o, x, y: F.fmod(x, y) if o.get("fmod") else F.remainder(x, y),
}


def _call(function: str, _o: Options, *xs: Any) -> Any:
    return getattr(F, function)(*xs)


def _pass_on(_o: Options, x: Any, *_: Any) -> Any:
    return x


def _join(o: Options, *xs: Any) -> Any:
    return F.concat(xs, axis=o["axis"]) if o.kind == "Concat" else functools.reduce(FOLDED[o.kind], xs)


def _count(_o: Options, *ends: Any) -> Any:
    return np.arange(*[np.asarray(x).item() for x in ends], dtype=ends[0].dtype)


def _constant(o: Options) -> Any:
    return next(iter(o.attributes.values()))


def _reaxis(o: Options, x: Any, axes: Any = None) -> Any:
    given = None if axes is None else _ints(axes)
    return (F.expand_dims if o.kind == "Unsqueeze" else F.squeeze)(x, None if given is None else tuple(given))


def _power(_o: Options, x: Any, y: Any) -> Any:
    return F.pow(x, y).astype(x.dtype)


OPERATORS: dict[str, Callable[..., Any]] = {
    **OF_ONE, **OF_TWO, **dict.fromkeys(("Concat", *FOLDED), _join), **dict.fromkeys(("Dropout", "Identity"), _pass_on),
    **{n: functools.partial(_call, n.lower()) for n in PLAIN.split()},
    **{n: functools.partial(_call, function) for n, function in NAMES.items()},
    **{n: functools.partial(_place, n.lower()) for n in ("ArgMax", "ArgMin")},
    **{f"Reduce{n}": functools.partial(_reduce, n.lower()) for n in ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp")},
    "AveragePool": functools.partial(_pool, nn.avg_pool), "BatchNormalization": _batch_norm,
    "Clip": functools.partial(_call, "clip"), "Constant": _constant, "Conv": _conv, "CumSum": _cumulative, "Div": _divide,
    "Gemm": _gemm, "LayerNormalization": _layer_norm, "MaxPool": functools.partial(_pool, nn.max_pool), "Pad": _pad,
    "IsInf": _infinite, "Pow": _power,
    "Range": _count, "Reshape": _reshape, "ScatterND": _scatter, "Slice": _slice, "Split": _split, "Squeeze": _reaxis,
    "TopK": _top, "Unsqueeze": _reaxis,
}  # fmt: skip
