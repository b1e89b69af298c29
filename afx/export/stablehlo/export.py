"""Export to StableHLO: a function as text of MLIR's dialect StableHLO, which XLA compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from afx.core import Aval
from afx.errors import ExportError
from afx.export.stablehlo.table import STABLEHLO
from afx.export.stablehlo.writer import ELEMENTS, HloWriter, type_text
from afx.export.templates import Names, Walk, name_function
from afx.export.traced import Slot, escape_line, trace_program


def to_stablehlo(fn: Callable[..., Any], /, *args: Any, name: str | None = None) -> str:
    """Return a function as a module of StableHLO, as text: what XLA, IREE and jax's own tools read.

    Its function is ``main``: the leaves of the arguments in, those of the result out, each with its path beside it. There are
    elementwise operations, reductions, views, products, selections, casts, loops and branches. XLA takes subnormal numbers for 0.
    Integers to a negative power, which is an error here, are 0.

    Args:
        fn: a function of arrays, such as ``afx.value_and_grad(loss)``; it is traced, not run.
        *args: example arguments, of which structure, shapes and dtypes count.
        name: of the module; by default the function's.

    Raises:
        ExportError: an operation has no form in StableHLO; the message names it and your line.

    >>> import afx
    >>> from afx import export
    >>> print(export.to_stablehlo(lambda x: afx.sin(x) + 1.0, afx.zeros(3), name="shifted"))
    module @shifted {
      func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {  // x -> result
        %t = stablehlo.sine %x : tensor<3xf32>
        %v = stablehlo.constant dense<1.0> : tensor<f32>
        %v_2 = stablehlo.broadcast_in_dim %v, dims = [] : (tensor<f32>) -> tensor<3xf32>
        %t_2 = stablehlo.add %t, %v_2 : tensor<3xf32>
        return %t_2 : tensor<3xf32>
      }
    }
    <BLANKLINE>
    """
    program = trace_program(fn, args, "to_stablehlo", name)
    names = Names()
    where = f"to_stablehlo: {program.name}"
    walk = Walk(STABLEHLO, names, where)
    graph = walk.expand(program.graph)
    walk.check(graph)
    _check_dtypes((*program.inputs, *program.outputs), where)
    writer = HloWriter(walk)
    operands = [names.make(slot.path) for slot in program.inputs]
    results = walk.write(writer, graph, operands)
    types = [type_text(Aval(slot.shape, slot.dtype)) for slot in program.outputs]
    takes = [f"%{x}: {type_text(Aval(s.shape, s.dtype))}" for x, s in zip(operands, program.inputs, strict=True)]
    gives = types[0] if len(types) == 1 else f"({', '.join(types)})"
    paths = f"{', '.join([s.path for s in program.inputs])} -> {', '.join([s.path for s in program.outputs])}"
    paths = escape_line(paths)
    return "\n".join([
        f"module @{Names().make(name_function(program.name))} {{",
        f"  func.func public @main({', '.join(takes)}) -> {gives} {{  // {paths}",
        *writer.lines,
        f"    return {writer.read(results)} : {', '.join(types)}" if types else "    return",
        "  }",
        "}",
        "",
    ])  # fmt: skip


def _check_dtypes(slots: Sequence[Slot], where: str) -> None:
    for slot in slots:
        if slot.dtype.name not in ELEMENTS:
            raise ExportError(f"{where}: {slot.path} has a dtype that StableHLO lacks: got {slot}; convert it")
