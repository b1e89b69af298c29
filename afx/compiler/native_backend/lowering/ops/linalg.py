"""Native forms of small factorizations: the loops of ``np.linalg``, which call LAPACK, by pointer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of
from afx.compiler.native_backend.program import Load, Nest, Number, Op, Product, Ref, Value
from afx.compiler.native_backend.steps import merged
from afx.compiler.schedule import Call
from afx.core.aval import Shape

__all__ = ["FACTORIZATIONS"]

# rows and columns: with more, a call of NumPy costs little beside the work, and may use threads
IGNORED = ("divide", "invalid", "over")  # by ``np.linalg.solve``, but for what it raises an exception for


def _matrices(b: BlockBuilder, call: Call) -> list[Location]:
    """Return the operands in float64, in which NumPy computes."""
    found: list[Location] = []
    for x in call.operands:
        location = b.location(x)
        if (
            location.dtype not in ("f4", "f8")
            or len(location.shape) < 2
            or max(location.shape[-2:]) > b.limits.matrix_max_length
        ):
            raise UnsupportedError(f"{call.op} of {location.dtype}{[*location.shape]}")
        if location.dtype == "f4":
            wide = b.temporary(location.shape, "f8")
            b.fixed([copy_nest(wide, location)], [location], [wide])
            location = wide
        found.append(location)
    return found


def _add(
    b: BlockBuilder,
    call: Call,
    name: str,
    operands: Sequence[Location],
    core: Shape,
    outputs: int = 2,
    refuses: bool = True,
) -> Location:
    """Add a call of a loop on stacks of matrices, and return where its result lies, in float64.

    Args:
        b: the block.
        call: whose result it is.
        name: of the function in ``np.linalg._umath_linalg``.
        operands: stacks of matrices.
        core: lengths of the core dimensions.
        outputs: core axes of the result.
        refuses: whether the loop marks matrices without a result as invalid operations; NumPy raises then.
    """
    (out,) = call.outputs
    is_wide = out.dtype == np.float64 and outputs == 2
    found = b.own(out.index, out.shape, "f8") if is_wide else b.temporary(out.shape, "f8")
    batch = out.shape[: len(out.shape) - outputs]
    outer = [broadcast(attrs.evolve(p, shape=p.shape[:-2], strides=p.strides[:-2]), batch) for p in operands]
    space, strides = merged(batch, [*outer, found.strides[: len(batch)]])
    if len(space) > 1:
        raise UnsupportedError(f"{call.op} of stacks whose matrices do not follow each other evenly")
    locations = [*operands, found]
    refs = [Ref(p.owner, p.dtype, p.offset, s) for p, s in zip(locations, strides, strict=True)]
    steps = tuple([s for p in operands for s in p.strides[-2:]]) + found.strides[len(batch) :]
    loop = loop_of(f"linalg.{name}", ("f8",) * len(locations))
    sizes = (space[0] if space else 1, *core)
    quiet = IGNORED if call.op == "solve_or_nan" else quiet_of(call)
    b.fixed([Product(loop, sizes, tuple(refs), steps, quiet, refuses)], operands, [found])
    return found


def _result(b: BlockBuilder, call: Call, found: Location) -> None:
    """Give the result the dtype of the call."""
    (out,) = call.outputs
    if out.index not in b.locations:
        location = b.own(out.index, out.shape, b.dtype(out))
        b.fixed([copy_nest(location, found, quiet_of(call))], [found], [location])


def _of_one(name: str, outputs: int = 2, refuses: bool = True) -> Callable[[BlockBuilder, Call], None]:
    def lower(b: BlockBuilder, call: Call) -> None:
        operands = _matrices(b, call)
        _result(b, call, _add(b, call, name, operands, operands[0].shape[-1:], outputs, refuses))

    return lower


def _solve(b: BlockBuilder, call: Call) -> None:
    a, y = _matrices(b, call)
    refuses = call.op != "solve_or_nan"  # whose nan NumPy's loop gives too
    _result(b, call, _add(b, call, "solve", [a, y], (a.shape[-1], y.shape[-1]), refuses=refuses))


def _solve_triangular(b: BlockBuilder, call: Call) -> None:
    """Solve an upper triangular system, in which no rows are exchanged; a lower one is that from behind."""
    params: dict[str, Any] = dict(call.params)
    a, y = _matrices(b, call)
    n = a.shape[-1]
    if n > b.limits.triangular_max_length or params["unit"]:
        raise UnsupportedError(f"{call.op} of large matrices, or of ones with a diagonal of ones")
    corner = a if not params["lower"] else _reversed(a, (-2, -1))
    upper = _upper_triangle(b, corner)
    if not params["lower"]:
        _result(b, call, _add(b, call, "solve", [upper, y], (n, y.shape[-1])))
        return
    inner = attrs.evolve(call, outputs=(attrs.evolve(call.outputs[0], index=b.fresh(), dtype=np.dtype("f8")),))
    found = _reversed(_add(b, inner, "solve", [upper, _reversed(y, (-2,))], (n, y.shape[-1])), (-2,))
    _result(b, call, found)


def _reversed(x: Location, axes: Sequence[int]) -> Location:
    """Return a location whose axes are walked from their ends."""
    offset, strides = x.offset, list(x.strides)
    for axis in axes:
        offset += (x.shape[axis] - 1) * strides[axis]
        strides[axis] = -strides[axis]
    return attrs.evolve(x, offset=offset, strides=tuple(strides))


def _upper_triangle(b: BlockBuilder, x: Location) -> Location:
    """Return a copy with zeros below the diagonal."""
    out, mask = b.temporary(x.shape, "f8"), b.constant(np.triu(np.ones(x.shape[-2:], bool)))
    loads = [Load(Ref(p.owner, p.dtype, p.offset, broadcast(p, x.shape))) for p in (mask, x)]
    values: tuple[Value, ...] = (*loads, Number(0.0, "f8"), Op("select", "f8", (0, 1, 2)))
    b.fixed([Nest(x.shape, values, ((3, Ref(out.owner, out.dtype, 0, out.strides)),))], [x, mask], [out])
    return out


FACTORIZATIONS: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "cholesky": _of_one("cholesky_lo"),
    "inv": _of_one("inv"),
    "det": _of_one("det", outputs=0, refuses=False),
    "solve": _solve,
    "solve_or_nan": _solve,
    "solve_triangular": _solve_triangular,
}
