"""Inner graphs of ONNX: operators that hold graphs, each a program that is run with the names around it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.core.registry import FUNCTIONS
from afx.errors import ExportError, TracerError
from afx.export.onnx.attributes import Options
from afx.export.onnx.loading import check_size

__all__ = ["HOLDERS"]

F: Any = FUNCTIONS


def _choose(o: Options, names: Mapping[str, Any], test: Any) -> Any:
    yes, no = [functools.partial(o[key].arrays, names) for key in ("then_branch", "else_branch")]
    if isinstance(test, Array):
        return F.cond(test.reshape(()), yes, no)
    return yes() if np.asarray(test).item() else no()


def _walk(body: Any, names: Mapping[str, Any], carry: Sequence[Any], rows: Sequence[Any], reverse: bool) -> list[Any]:
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
            goes, *found = body.arrays(names, np.int64(len(rows)), F.asarray(goes), *state)
            state = found[: len(state)]
            rows.append(found[len(state) :])
    except TracerError as error:
        raise ExportError(
            "from_onnx: a loop of unknown length keeps results of its steps: got Loop under jit or vmap; call the model without"
        ) from error
    if not rows:
        inner = attrs.evolve(body, inputs=(*body.inputs[2:], body.inputs[0]), outputs=body.outputs[1:])
        return _walk(inner, {**names, body.inputs[1]: np.array(True)}, carry, [np.arange(0)], False)
    return [*state, *map(F.stack, zip(*rows, strict=True))]


HOLDERS: dict[str, Callable[..., Any]] = {"If": _choose, "Loop": _loop, "Scan": _scan}
