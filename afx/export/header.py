"""Header: the declaration of an exported function in C, with what a caller must know."""

from __future__ import annotations

from collections.abc import Sequence

from afx.export.exported import Exported
from afx.export.slots import Slot, escape_line

__all__ = ["write_header"]

TEMPLATE = """/* {name}: compiled by afx {version} for {triple}.
 *
 * All arrays are dense, in row-major order, and overlap nowhere; `work` has {name}_work_bytes() bytes, aligned to 64,
 * and may be NULL where these are 0. The function keeps no state{memory}: threads may call it at once, each with its own `work`.
 *
 * Inputs:
{inputs}
 * Outputs:
{outputs}
 *
 * Returns 0, or the sum of
 *   1  an index out of range, or a float that its integer type cannot hold
 *   2  a matrix without the factorization that was asked for (singular, or not positive definite)
 * and the outputs are unspecified then.
 */
#ifndef AFX_{guard}_H
#define AFX_{guard}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

size_t {name}_work_bytes(void);

int {name}({parameters});
{scalar}
#ifdef __cplusplus
}}
#endif

#endif
"""
SCALAR = """
/* The same for SciPy's integrators: all inputs one behind the other; a result that failed is nan. */
double {name}_scalar(int n, double *x, void *user_data);
"""


def write_header(exported: Exported, allocates: bool) -> str:
    """Return the header of a function, which may take memory from the C library."""
    e = exported
    parameters = [f"const {slot.c_type} *{slot.name}" for slot in e.inputs]
    parameters += [f"{slot.c_type} *{slot.name}" for slot in e.outputs]
    return TEMPLATE.format(
        name=e.name,
        version=_escape_comment(e.version),
        triple=_escape_comment(e.machine.triple or "this machine"),
        guard=e.name.upper(),
        memory=", but takes memory by realloc() and gives it back" if allocates else " and allocates nothing",
        inputs=_list(e.inputs),
        outputs=_list(e.outputs),
        parameters=", ".join([*parameters, "void *work"]),
        scalar=SCALAR.format(name=e.name) if e.has_scalar else "",
    )


def _list(slots: Sequence[Slot]) -> str:
    lines = [
        f" *   {slot.name}  {slot.dtype}[{','.join(map(str, slot.shape))}]  {_escape_comment(slot.path)}".rstrip()
        for slot in slots
    ]
    return "\n".join(lines) or " *   none"


def _escape_comment(text: str) -> str:
    """Return a text that neither ends nor begins a comment of C, nor joins lines."""
    line = escape_line(text)
    for mark in ("*/", "/*", "??/"):
        while mark in line:
            line = line.replace(mark, f"{mark[:-1]} {mark[-1]}")
    return f"{line} ." if line.endswith("\\") else line
