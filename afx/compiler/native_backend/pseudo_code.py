"""Pseudo-code: native programs as readable text, for `Plan.source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afx.compiler.native_backend.elements import Fast, Load, Number, Op, Ref, UfuncLoop, Value
from afx.compiler.native_backend.program import (
    Block,
    BlockLoop,
    Choice,
    Extreme,
    Indexed,
    Inner,
    Nest,
    Product,
    Program,
    Scan,
    Step,
    Words,
)
from afx.compiler.native_backend.program import While as WhileLoop
from afx.compiler.native_backend.program import WhileBack as WhileBackLoop

__all__ = ["describe_program", "describe_reasons"]

INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "equal": "==", "not_equal": "!=", "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "left_shift": "<<", "right_shift": ">>",
}  # fmt: skip
FOLDS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
INDENT = "    "
Names = Mapping[int, str]


def describe_program(program: Program, number: int) -> str:
    """Return a program's parameters and steps; ``p0, p1 …`` are its arrays, ``m0, m64 …`` memory by its offset.

    A nest is a loop over all its elements: ``i, j …`` count along its axes, and an index counts elements of memory.
    """
    params = [f"p{k}: {p.dtype}[{','.join(map(str, p.shape))}]" for k, p in enumerate(program.params)]
    head = f"def native_{number}({', '.join(params)}):  # pseudo-code of machine code"
    names = {k: f"p{k}" for k in range(program.block.params)}
    return "\n".join([head, *[INDENT + line for line in _block(program.block, names)]])


def describe_reasons(reasons: Sequence[tuple[str, str]]) -> str:
    """Return which instructions have a native form, and why the others have none, as comments."""
    without = [(text.split("\n")[0], why) for text, why in reasons if why]
    head = f"# machine code: {len(reasons) - len(without)} of {len(reasons)} instructions have a native form"
    return "\n".join([head, *[f"# NumPy's: {text}  ({why})" for text, why in without]])


def _block(block: Block, params: Names, arena: int = 0) -> list[str]:
    """Return the lines of a block whose parameters have these names, and whose arena begins there."""
    names: dict[int, str] = {}
    for k, root in enumerate(block.roots):
        base = params[root.param] if root.param >= 0 else f"m{arena + root.offset}"
        names[k] = base if root.param < 0 or not root.offset else f"{base}_{root.offset}"
    return [line for step in block.steps for line in _step(step, names, arena)] or ["pass"]


def _step(step: Step, names: Names, arena: int) -> list[str]:
    if isinstance(step, Nest):
        return _nest(step, names)
    if isinstance(step, Inner):
        out, *xs = [names[ref.root] for ref in (step.operands[-1], *step.operands[:-1])]
        return [f"np.{step.loop.ufunc}({', '.join(xs)}, out={out})  # NumPy's loop over {_lengths(step.space)}"]
    if isinstance(step, Product):
        *xs, out = [names[ref.root] for ref in step.operands]
        if step.loop is not None and step.loop.ufunc.startswith("linalg."):
            return [f"{out} = np.{step.loop.ufunc}({', '.join(xs)})  # {_lengths(step.sizes)}: NumPy's loop"]
        how = "tiles in registers" if step.loop is None else f"NumPy's {step.loop.ufunc}"
        pieces = f", {step.length} pieces" if step.is_cut else ""
        return [f"{out} = {' @ '.join(xs)}  # {_lengths(step.sizes)}: {how}{pieces}"]
    if isinstance(step, Words):
        given = [names[step.key.root], *([] if step.counter is None else [names[step.counter.root]])]
        return [f"{names[step.out.root]} = philox({', '.join(given)})  # {step.keys} keys, {step.blocks} blocks each"]
    if isinstance(step, Indexed):
        part, whole, *indices = [names[ref.root] for ref in step.operands]
        at = f"{whole}[{', '.join(indices)}]"
        forms = {"gather": f"{part} = {at}", "set": f"{at} = {part}", "add": f"{at} += {part}"}
        return [f"{forms[step.kind]}  # {_lengths(step.space)} elements, bounds checked"]
    if isinstance(step, Extreme):
        name = "argmax" if step.is_max else "argmin"
        return [f"{names[step.out.root]} = {name}({names[step.x.root]})  # along the last of {_lengths(step.space)}"]
    if isinstance(step, BlockLoop):
        return _block_loop(step, names, arena + step.arena)
    return _control(step, names, arena + step.arena)


def _block_loop(step: BlockLoop, names: Names, arena: int) -> list[str]:
    """Return a loop over blocks; the last one, where it is shorter, runs the same lines."""
    pairs = zip(step.roots[0], step.strides[0], strict=True)
    params = {k: f"{names[root]}[b]" if stride else names[root] for k, (root, stride) in enumerate(pairs)}
    inside = [INDENT + line for line in _block(step.bodies[0], params, arena)]
    comment = "  # shared by threads" if step.is_cut else ""
    return [f"for b in {step.length} blocks:{comment}", *inside]


def _control(step: Scan | WhileLoop | Choice, names: Names, arena: int) -> list[str]:
    def named(roots: Sequence[int], end: str = "") -> list[str]:
        return [names[root] + end for root in roots]

    if isinstance(step, Choice):
        lines = [f"match {names[step.index]}:"]
        for k, (body, constants) in enumerate(zip(step.bodies, step.constants, strict=True)):
            inner = _block(body, dict(enumerate(named((*step.operands, *step.outputs, *constants)))), arena)
            lines += [f"{INDENT}case {k}:", *[2 * INDENT + line for line in inner]]
        return lines
    start, old, new, turn = _carried(named(step.init), named(step.carry), named(step.other))
    if isinstance(step, Scan):
        params = [
            *named(step.consts),
            *old,
            *named(step.xs, "[t]"),
            *new,
            *named(step.ys, "[t]"),
            *named(step.constants),
        ]
        order = f"reversed(range({step.length}))" if step.reverse else f"range({step.length})"
        head, back = [f"for t in {order}:"], list[str]()
    else:
        rows = (
            [f"{names[step.rows]}_{k}[t]" for k in range(len(step.residual_bytes))]
            if isinstance(step, WhileBackLoop)
            else []
        )
        params = [*named(step.consts), *old, *new, *rows, *named(step.constants)]
        tests = dict(enumerate([*named(step.test_consts), *old, names[step.verdict], *named(step.test_constants)]))
        head = ["while True:", *[INDENT + line for line in _block(step.test, tests, arena)]]
        head.append(f"{INDENT}if not {names[step.verdict]}: break")
        back = _back(step, names, arena, rows) if isinstance(step, WhileBackLoop) else []
    inside = [INDENT + line for line in _block(step.body, dict(enumerate(params)), arena)]
    return [*start, *head, *inside, *turn, *back]


def _back(step: WhileBackLoop, names: Names, arena: int, rows: Sequence[str]) -> list[str]:
    """Return the way back over the steps of a loop."""
    own = [[names[root] for root in roots] for roots in (step.back_init, step.back_carry, step.back_other)]
    start, old, new, turn = _carried(*own)
    consts, constants = [[names[root] for root in roots] for roots in (step.consts, step.back_constants)]
    inside = _block(step.back, dict(enumerate([*consts, *rows, *old, *new, *constants])), arena)
    return [*start, "for t in reversed(steps):", *[INDENT + line for line in inside], *turn]


def _carried(
    init: Sequence[str], carry: Sequence[str], other: Sequence[str]
) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return what starts a loop, where a step finds the carry and leaves the next one, and what ends the step."""
    start = [f"{b} = {a}" for a, b in zip(init, carry, strict=True) if a != b]
    new = [a if a == b else f"{a}_next" for a, b in zip(carry, other, strict=True)]
    turned = [(a, b) for a, b in zip(carry, new, strict=True) if a != b]
    turn = f"{INDENT}{', '.join([a for a, _ in turned])} = {', '.join([b for _, b in turned])}"
    return start, list(carry), new, [turn] if turned else []


def _nest(nest: Nest, names: Names) -> list[str]:
    texts = [""] * len(nest.values)
    lines: list[str] = []
    ends = {k for k, _ in nest.stores} | {k for k, *_ in nest.folds}
    uses = [sum([k in v.args for v in nest.values if isinstance(v, Op)]) for k in range(len(nest.values))]
    for k, value in enumerate(nest.values):
        text = _value(value, texts, names, len(nest.space))
        if isinstance(value, Op) and (uses[k] > 1 or (k in ends and uses[k]) or len(text) > 60):
            lines.append(f"t{k} = {text}")
            text = f"t{k}"
        texts[k] = text
    lines += [f"{_locate(ref, names, len(nest.space))} = {texts[k]}" for k, ref in nest.stores]
    for k, ufunc, ref in nest.folds:
        location = _locate(ref, names, len(nest.space))
        lines.append(f"{location} = {FOLDS[ufunc]} of {texts[k]}  # along {_reduced(ref)}, in 32 lanes")
    if not nest.space:
        return lines
    axes = ", ".join(_axes(len(nest.space)))
    notes = [f"ignores {', '.join(nest.quiet)}"] if nest.quiet else []
    notes += ["shared by threads"] if nest.is_cut else []
    comment = f"  # {', '.join(notes)}" if notes else ""
    return [f"for {axes} in {_lengths(nest.space)}:{comment}", *[INDENT + line for line in lines]]


def _value(value: Value, texts: Sequence[str], names: Names, rank: int) -> str:
    if isinstance(value, Load):
        return _locate(value.ref, names, rank)
    if isinstance(value, Number):
        return repr(value.value)
    xs = [texts[k] for k in value.args]
    if isinstance(value.name, UfuncLoop):
        return f"np.{value.name.ufunc}({', '.join(xs)})"
    if isinstance(value.name, Fast):
        return f"{value.name.name}({', '.join(xs)})"
    if value.name in INFIX and len(xs) == 2:
        return f"({xs[0]} {INFIX[value.name]} {xs[1]})"
    name = value.dtype if value.name == "cast" else value.name
    return f"{name}({', '.join(xs)})"


def _locate(ref: Ref, names: Names, rank: int) -> str:
    """Return an element of memory: its name, and where it is counted in elements."""
    size = int(ref.dtype[1:])
    terms = [str(ref.offset // size)] if ref.offset else []
    for axis, stride in zip(_axes(rank), ref.strides, strict=False):
        if stride:
            terms.append(axis if stride == size else f"{stride // size}*{axis}")
    return f"{names[ref.root]}[{' + '.join(terms) or '0'}]"


def _axes(rank: int) -> list[str]:
    return ["i", "j", "k", "l", "n", "o", "q", "r"][:rank] if rank <= 8 else [f"i{k}" for k in range(rank)]


def _reduced(ref: Ref) -> str:
    return (
        ", ".join([axis for axis, stride in zip(_axes(len(ref.strides)), ref.strides, strict=True) if not stride])
        or "nothing"
    )


def _lengths(space: Sequence[int]) -> str:
    return " × ".join(map(str, space))
