"""Reading of ONNX models: a model becomes a pytree that is called, compiled and differentiated as any other function."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx import nn
from afx.core.array.array import Array
from afx.core.registry import FUNCTIONS
from afx.errors import ArgumentError, ExportError, MissingExtraError
from afx.pytree.static import static

__all__ = ["OnnxFunction", "from_onnx"]

F: Any = FUNCTIONS
Options: TypeAlias = dict[str, Any]  # of a node: its attributes, its kind and the number of its outputs


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
        names = {**scope, **self.known, **dict(zip(self.inputs, args, strict=False)), "": None}
        for node in self.nodes:
            xs = [names[name] for name in node.inputs]
            found: Any
            if node.kind in HOLDERS:
                found = HOLDERS[node.kind](node.options, names, *xs)
            else:
                found = OPERATORS[node.kind](node.options, *xs)
                found = found if found.__class__ is tuple else (found,)
                if not any(isinstance(x, Array) for x in xs):  # shapes and constants stay NumPy's, known at once
                    found = [np.asarray(x) for x in found]
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
        model: a path, the bytes of a file, or an ``onnx.ModelProto``.

    Raises:
        ExportError: an operator that is not read.
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
    if isinstance(model, (str, os.PathLike)):
        model = onnx.load(os.fspath(model))
    program = _read(onnx, (onnx.load_model_from_string(model) if isinstance(model, bytes) else model).graph)
    params = {k: F.asarray(v) for k, v in program.known.items() if v.dtype.kind == "f"}
    return OnnxFunction(
        params, attrs.evolve(program, known={k: v for k, v in program.known.items() if k not in params})
    )


def _read(onnx: Any, graph: Any) -> Program:
    known = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    inputs = tuple([i.name for i in graph.input if i.name not in known])
    return Program(inputs, tuple([o.name for o in graph.output]), tuple([_node(onnx, n) for n in graph.node]), known)


def _node(onnx: Any, node: Any) -> Node:
    if node.domain not in ("", "ai.onnx") or node.op_type not in {*OPERATORS, *HOLDERS}:
        raise ExportError(
            f"from_onnx: an operator is not read: got {node.domain}.{node.op_type}; write the model without it"
        )
    options: Options = {"kind": node.op_type, "outputs": len(node.output)}
    for a in node.attribute:
        value = onnx.helper.get_attribute_value(a)
        if isinstance(value, onnx.GraphProto):
            value = _read(onnx, value)
        elif isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        elif a.name == "to":
            value = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value))
        options[a.name] = value.decode() if isinstance(value, bytes) else value
    return Node(node.op_type, tuple(node.input), tuple(node.output), options)


# -- operators: their options, then operands, of which those that are left out are None --
def _ints(x: Any) -> list[int]:
    """Return what must be known while the program is traced."""
    if isinstance(x, Array):
        raise ExportError(
            f"from_onnx: a shape or an axis depends on an input's numbers: got {x.aval}; make it a constant"
        )
    return [int(n) for n in np.ravel(x)]


def _given(o: Options, name: str, x: Any) -> list[int] | None:
    """Return integers that are an operand in later opsets, and an attribute in earlier ones."""
    found: list[int] | None = o.get(name) if x is None else _ints(x)
    return found


def _divide(_o: Options, x: Any, y: Any) -> Any:
    return x / y if x.dtype.kind == "f" else F.abs(x) // F.abs(y) * (F.sign(x) * F.sign(y)).astype(x.dtype)


def _cumulative(o: Options, x: Any, axis: Any) -> Any:
    place, back = _ints(axis)[0], o.get("reverse")
    found = F.cumulative_sum(F.flip(x, axis=place) if back else x, axis=place)
    found = F.flip(found, axis=place) if back else found
    return found - x if o.get("exclusive") else found


def _reshape(o: Options, x: Any, shape: Any) -> Any:
    keeps = not o.get("allowzero")
    return x.reshape(tuple([x.shape[k] if n == 0 and keeps else n for k, n in enumerate(_ints(shape))]))


def _slice(o: Options, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    low, high = _given(o, "starts", starts) or [], _given(o, "ends", ends) or []
    index, places = [slice(None)] * x.ndim, _given(o, "axes", axes)
    strides = [1] * len(low) if steps is None else _ints(steps)
    for axis, start, end, step in zip(places or range(len(low)), low, high, strides, strict=True):
        index[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(index)]


def _split(o: Options, x: Any, sizes: Any = None) -> Any:
    axis, count = o.get("axis", 0), o["outputs"]
    lengths = _given(o, "split", sizes) or [-(-x.shape[axis] // count)] * count
    return tuple(F.split(x, np.cumsum(lengths)[: count - 1].tolist(), axis=axis))


def _pad(o: Options, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    widths, each = _given(o, "pads", pads) or [], [(0, 0)] * x.ndim
    for k, axis in enumerate(range(x.ndim) if axes is None else _ints(axes)):
        each[axis] = (widths[k], widths[k + len(widths) // 2])
    mode = o.get("mode", "constant")
    return F.pad(x, each, mode, **({"constant_values": 0 if value is None else value} if mode == "constant" else {}))


def _scatter(o: Options, x: Any, i: Any, values: Any) -> Any:
    reduction: str = o.get("reduction", "none")
    place = F.asarray(x).at[tuple([i[..., k] for k in range(i.shape[-1])])]
    return getattr(place, {"none": "set", "mul": "multiply"}.get(reduction, reduction))(values)


def _reduce(function: str, o: Options, x: Any, axes: Any = None) -> Any:
    given = _given(o, "axes", axes)
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
    if o.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or o.get("ceil_mode") or o.get("count_include_pad"):
        raise ExportError(
            f"from_onnx: {o['kind']} has padding that is not read: got {o}; write it with pads, uncounted"
        )
    pads = o.get("pads", [0] * (2 * rank))
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


PLAIN = """Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Cos Cosh Equal Erf Exp Floor Greater IsInf IsNaN Less Log MatMul Round
    Sign Sin Sinh Sqrt Tan Tanh Pow Reciprocal Where"""  # which have the names of afx's functions, in small letters
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
    "Selu": lambda _o, x: nn.selu(x),
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


def _same(_o: Options, x: Any, *_: Any) -> Any:
    return x


def _join(o: Options, *xs: Any) -> Any:
    return F.concat(xs, axis=o["axis"]) if o["kind"] == "Concat" else functools.reduce(FOLDED[o["kind"]], xs)


def _count(_o: Options, *ends: Any) -> Any:
    return np.arange(*[np.asarray(x).item() for x in ends], dtype=ends[0].dtype)


def _constant(o: Options) -> Any:
    return next(np.asarray(value) for name, value in o.items() if name.startswith("value"))


def _reaxis(o: Options, x: Any, axes: Any = None) -> Any:
    given = _given(o, "axes", axes)
    return (F.expand_dims if o["kind"] == "Unsqueeze" else F.squeeze)(x, None if given is None else tuple(given))


OPERATORS: dict[str, Callable[..., Any]] = {
    **OF_ONE, **OF_TWO, **dict.fromkeys(("Concat", *FOLDED), _join), **dict.fromkeys(("Dropout", "Identity"), _same),
    **{n: functools.partial(_call, n.lower()) for n in PLAIN.split()},
    **{n: functools.partial(_call, function) for n, function in NAMES.items()},
    **{n: functools.partial(_place, n.lower()) for n in ("ArgMax", "ArgMin")},
    **{f"Reduce{n}": functools.partial(_reduce, n.lower()) for n in ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp")},
    "AveragePool": functools.partial(_pool, nn.avg_pool), "BatchNormalization": _batch_norm,
    "Clip": functools.partial(_call, "clip"), "Constant": _constant, "Conv": _conv, "CumSum": _cumulative, "Div": _divide,
    "Gemm": _gemm, "LayerNormalization": _layer_norm, "MaxPool": functools.partial(_pool, nn.max_pool), "Pad": _pad,
    "Range": _count, "Reshape": _reshape, "ScatterND": _scatter, "Slice": _slice, "Split": _split, "Squeeze": _reaxis,
    "TopK": _top, "Unsqueeze": _reaxis,
}  # fmt: skip


# -- operators that hold graphs --
def _choose(o: Options, names: Mapping[str, Any], test: Any) -> Any:
    yes, no = [functools.partial(o[key].arrays, names) for key in ("then_branch", "else_branch")]
    if isinstance(test, Array):
        return F.cond(test.reshape(()), yes, no)
    return yes() if np.asarray(test).item() else no()


def _walk(
    body: Program, names: Mapping[str, Any], carry: Sequence[Any], rows: Sequence[Any], reverse: bool
) -> list[Any]:
    def step(carry: Any, row: Any) -> Any:
        found = body.arrays(names, *carry, *row)
        return found[: len(carry)], found[len(carry) :]

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
    body: Program = o["body"]
    copied = {n.outputs[0]: n.inputs[0] for n in body.nodes if n.kind == "Identity"}
    if (
        count is not None
        and not isinstance(count, Array)
        and body.inputs[1] in (goes := body.outputs[0], copied.get(goes))
    ):
        steps = attrs.evolve(body, inputs=(*body.inputs[2:], body.inputs[0]), outputs=body.outputs[1:])
        return _walk(steps, {**names, body.inputs[1]: np.array(True)}, carry, [np.arange(int(count))], False)
    if len(body.outputs) - 1 > len(carry):
        raise ExportError(
            "from_onnx: a loop of unknown length keeps results of its steps: got Loop; write the model without it"
        )

    def go_on(state: Any) -> Any:
        return state[1] if count is None else state[1] & (state[0] < count)

    def step(state: Any) -> Any:
        return (state[0] + 1, *body.arrays(names, *state))

    start = [F.asarray(x) for x in (np.int64(0), True if first is None else first, *carry)]
    return F.while_loop(go_on, step, tuple(start))[2:]


HOLDERS: dict[str, Callable[..., Any]] = {"If": _choose, "Loop": _loop, "Scan": _scan}
