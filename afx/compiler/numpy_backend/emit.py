"""A plan as Python: one line of NumPy for each equation."""

from __future__ import annotations

import functools
import keyword
import math
import re
from typing import Any

import numpy as np

from afx.compiler.buffers import BUFFER, CONSTANT, FRESH, VIEW, Places
from afx.compiler.fusion import Node
from afx.compiler.lowering import by_reduction, by_ufunc, dots, reduced, sums_few, sums_rows, wants_arrays, writes_into
from afx.compiler.numpy_backend.emit_fused import Blocks
from afx.compiler.numpy_backend.errstate import Silence, common, silenced
from afx.compiler.numpy_backend.exec import Bind, Code
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.graph import Atom, Equation, Literal, Var
from afx.runtime.blas import blas, product, shared_out
from afx.runtime.output_pool import given_memory, recycled
from afx.runtime.thread_pool import run_blocks

__all__ = ["Program"]

MOST_REPEATED = 1 << 17  # elements up to which a number is repeated
LARGE = 16384  # bytes of a value of its own from which on its name is deleted after its last use


class Program:
    """The text of a plan and what its names stand for.

    Attributes:
        places: where its values lie.
        inputs: the names of the arguments.
        lines: the body of the function.
        shared: values that all calls share: NumPy's functions, constants, numbers.
        buffers: in the arena: name, offset, shape and dtype.
        views: of buffers: name, viewed name, equation.
        products: how many the plan's own threads share out.
        in_blocks: whether there are regions of more than one block.
        functions: the lines of the regions' functions.
        recycled: results whose memory is used again: the name of what gives it, and their kind.
        prepared: implementations that are prepared once a set of buffers: name, equation.
        scratch: of regions: name, the dtype and shape of a row of each intermediate array, rows of a block.
        names: what the compiled function binds, in the order of its parameters.
        result: the expressions that are returned.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.lines: list[str] = []
        self.shared: dict[str, Any] = {}
        self.buffers: list[tuple[str, int, Any]] = []
        self.views: list[tuple[str, str, Equation]] = []
        self.products = 0
        self.in_blocks = False
        self.functions: list[str] = []
        self.names: list[str] = []
        self.recycled: list[tuple[str, Aval]] = []
        self.prepared: list[tuple[str, Equation]] = []
        self.scratch: list[tuple[str, list[tuple[DType, Shape]], int]] = []
        self._numbers: dict[Any, str] = {}
        self._aliases: dict[int, list[str]] = {}
        self.inputs = [self.name(v) for v in places.graph.inputs]
        self._given = {v.index: self.name(v) for v in places.graph.inputs}
        for var, constant in places.graph.constants:
            self.shared[self.name(var)] = constant.value
        silences: list[Silence] = []
        for k, node in enumerate(places.nodes):
            if node.key is None:
                self._equation(node.equations[0])
            else:
                self._region(node)
            silences += [common(node.equations)[0]] * (len(self.lines) - len(silences))
            self._forget(places.dying.get(k, ()))
            silences += [None] * (len(self.lines) - len(silences))
        self.lines = silenced(self.lines, silences)
        self.result = [self._output(a) for a in places.graph.outputs]

    @staticmethod
    def name(var: Var) -> str:
        """Return the name of a variable, which no function or keyword of Python bears."""
        name = var.name
        return name + "_" if keyword.iskeyword(name) or name in ("arena", "np", "run") else name

    # -- operands -----------------------------------------------------------------------------------------------------
    def read(self, atom: Atom, *, plain: bool = False) -> str:
        """Return the text of an operand; numbers are arrays made once, or plain where an implementation wants them."""
        if isinstance(atom, Var):
            return self.name(atom)
        return self._number(atom, plain)

    def repeated(self, atom: Atom, shape: Shape) -> str:
        """Return the text of an operand; a number is an array of this shape."""
        if isinstance(atom, Var) or atom.aval.shape:
            return self.read(atom)
        key = (shape, atom)
        if key not in self._numbers:
            number = "ones" if atom.value == 1 else _name_of(atom)
            name = self._numbers[key] = self._free(f"{number}_{'x'.join(map(str, shape))}")
            self.shared[name] = np.full(shape, atom.value, atom.aval.dtype)
        return self._numbers[key]

    def ones(self, rows: Aval) -> str:
        """Return the text of a row of ones."""
        return self.repeated(Literal(1.0, Aval((), rows.dtype)), rows.shape[-1:])

    def _number(self, literal: Literal, plain: bool) -> str:
        aval = literal.aval
        if plain:
            return self._share(literal.value if aval.weak else aval.dtype.type(literal.value), literal)
        return self._share(np.array(literal.value, aval.dtype), literal)

    def _share(self, value: Any, literal: Literal) -> str:
        key = (isinstance(value, np.ndarray), literal)
        name = self._numbers.get(key)
        if name is None:
            name = self._numbers[key] = self._free(_name_of(literal))
            self.shared[name] = value
        return name

    def _free(self, wish: str) -> str:
        name, k = wish, 2
        while name in self.shared:
            name, k = f"{wish}_{k}", k + 1
        return name

    # -- equations ----------------------------------------------------------------------------------------------------
    def _equation(self, eq: Equation) -> None:
        out = eq.outputs[0]
        kind = self.places.kind[out.index]
        if kind == VIEW:
            self._view(eq, out)
        elif eq.primitive.lowering.ufunc is np.matmul and self._shares_out(eq):
            self._product(eq, out, kind)
        elif by_ufunc(eq):
            shape = eq.outputs[0].aval.shape
            full = wants_arrays(eq) and math.prod(shape) <= MOST_REPEATED
            xs = ", ".join([self.repeated(a, shape) if full else self.read(a) for a in eq.inputs])
            assert eq.primitive.lowering.ufunc is not None
            head = f"{self.ufunc_name(eq.primitive.lowering.ufunc)}({xs}" if not dots(eq) else xs.replace(", ", ".dot(")
            self._call(eq, head, out, kind)
        elif by_reduction(eq) and isinstance(eq.inputs[0], Var):
            self._reduction(eq, eq.inputs[0], out, kind)
        elif writes_into(eq):
            self._into(eq, out, kind)
        else:
            values = [self.read(a, plain=True) for a in eq.inputs]
            targets = ", ".join([self.name(v) for v in eq.outputs]) + ("," if eq.primitive.multiple_results else "")
            call = self.applied(eq, values)
            if (
                eq.primitive.multiple_results and eq.primitive.lowering.may_alias
            ):  # several views of memory that may be given to others
                call = f"{self.function_name('copies', copies)}({call})"
            self.lines.append(f"{targets} = {call}")

    def _reduction(self, eq: Equation, x: Var, out: Var, kind: str) -> None:
        assert eq.primitive.lowering.reduce_ufunc is not None
        name, axis = self.name(x), eq.keywords["axis"]
        if sums_few(eq):
            self._call(eq, self._summed(x, axis), out, kind)
        elif sums_rows(eq):
            self._call(eq, f"np.vecdot({name}, {self.ones(x.aval)}", out, kind)
        elif len(axis) == 1 and 0 < axis[0] < x.aval.ndim - 1 and x.aval.shape[axis[0]] in (2, 3, 4):
            self._by_parts(eq, x, axis[0], out, kind)
        else:
            self._call(eq, reduced(eq, self.ufunc_name(eq.primitive.lowering.reduce_ufunc), name), out, kind)

    def _summed(self, x: Var, axis: tuple[int, ...]) -> str:
        """Return the beginning of a product with ones."""
        name, everything = self.name(x), len(axis) == x.aval.ndim
        ones = self.ones(Aval((x.aval.size if everything else x.aval.shape[axis[0]],), x.aval.dtype))
        if everything and x.aval.ndim > 1:
            return f"{name}.reshape(-1).dot({ones}"
        return f"{name}.dot({ones}" if everything or axis == (1,) else f"{ones}.dot({name}"

    def _by_parts(self, eq: Equation, x: Var, axis: int, out: Var, kind: str) -> None:
        assert eq.primitive.lowering.reduce_ufunc is not None
        ufunc, lead = self.ufunc_name(eq.primitive.lowering.reduce_ufunc), ":, " * axis
        parts = [f"{self.name(x)}[{lead}{k}]" for k in range(x.aval.shape[axis])]
        self._call(eq, f"{ufunc}({parts[0]}, {parts[1]}", out, kind)
        for part in parts[2:]:
            self.lines.append(f"{ufunc}({self.name(out)}, {part}, out={self.name(out)})")

    def _shares_out(self, eq: Equation) -> bool:
        """Tell whether the plan's own threads compute a product."""
        x, y = eq.inputs
        large = isinstance(x, Var) and isinstance(y, Var) and shared_out(x.aval, y.aval, eq.outputs[0].aval)
        return large and blas.sharing()

    def _product(self, eq: Equation, out: Var, kind: str) -> None:
        self.products += 1
        if kind == BUFFER:
            self.buffer(out)
        else:
            self._empty(out)
        x, y = [self.read(a, plain=False) for a in eq.inputs]
        self.lines.append(f"{self.function_name('product', product)}({x}, {y}, {self.name(out)})")

    def _region(self, node: Node) -> None:
        """Emit a region: its function, memory for its results, and the call that shares out its blocks."""
        k = len(self.scratch) + 1
        blocks = Blocks(node, f"region_{k}", self)
        self.functions += blocks.lines
        self.in_blocks |= blocks.size > blocks.block
        self.scratch.append((f"scratch_{k}", blocks.slots, blocks.block))
        for var in node.outputs:
            if self.places.kind[var.index] == BUFFER:
                self.buffer(var)
            else:
                self._empty(var)
        parts: list[str] = []
        for var, _ in blocks.partials:
            parts.append(f"part_{self.name(var)}")
            dtype = self.function_name(var.aval.dtype.name, var.aval.dtype)
            shape = (-(-blocks.size // blocks.block), *var.aval.shape)
            self.lines.append(f"{parts[-1]} = np.empty({shape}, {dtype})")
        flat = "" if blocks.rows else ".reshape(-1)"
        taken = [self.name(v) + (flat if v.aval.ndim > 1 else "") for v in blocks.taken]
        arguments = ", ".join([*taken, *[self.name(v) for v in blocks.whole], *parts])
        function = self.function_name("run_blocks", run_blocks)
        self.lines.append(f"{function}({blocks.name}, {blocks.size}, {blocks.block}, scratch_{k}, ({arguments},))")
        for var, reduce in blocks.partials:
            self.lines.append(f"{reduce}(part_{self.name(var)}, 0, None, {self.name(var)})")

    def ufunc_name(self, ufunc: np.ufunc) -> str:
        """Return the text of a ufunc."""
        return (
            f"np.{ufunc.__name__}"
            if getattr(np, ufunc.__name__, None) is ufunc
            else self.function_name(ufunc.__name__, ufunc)
        )

    def function_name(self, name: str, function: Any) -> str:
        """Return the text of a function, which the plan will know by it."""
        wish = f"{name}_"
        while self.shared.get(wish, function) is not function:
            wish += "_"
        self.shared[wish] = function
        return wish

    def _call(self, eq: Equation, head: str, out: Var, kind: str) -> None:
        """Emit a call of a ufunc that writes into a buffer, or into memory of its own."""
        name = self.name(out)
        if kind == BUFFER:
            self.buffer(out)
            self.lines.append(f"{head}, out={name})")
        elif out.aval.ndim and not recycled(out.aval) and out.index not in self.places.taken:
            self.lines.append(f"{name} = {head})")
        else:
            self._empty(out)
            self.lines.append(f"{head}, out={name})")

    def _empty(self, out: Var) -> None:
        if out.index in self.places.taken:
            given = self._given[self.places.taken[out.index]]
            self.lines.append(f"{self.name(out)} = {self.function_name('given', given_memory)}({given})")
            return
        if recycled(out.aval):
            self.recycled.append((f"memory_of_{self.name(out)}", out.aval))
            self.lines.append(f"{self.name(out)} = memory_of_{self.name(out)}()")
            return
        dtype = self.function_name(out.aval.dtype.name, out.aval.dtype)
        self.lines.append(f"{self.name(out)} = np.empty({out.aval.shape}, {dtype})")

    def _into(self, eq: Equation, out: Var, kind: str) -> None:
        if kind == BUFFER:
            self.buffer(out)
        else:
            self._empty(out)
        xs = [self.name(out), *[self.read(a, plain=False) for a in eq.inputs]]
        if (
            eq.primitive.lowering.updates_first_operand
            and isinstance(eq.inputs[0], Var)
            and self._same_memory(out, eq.inputs[0])
        ):
            xs[1] = xs[0]
        if eq.primitive.lowering.make_kernel is None:
            function = self.function_name(eq.primitive.name, eq.primitive.lowering.impl_into)
            xs += self.keywords(eq)
        else:
            function = f"{eq.primitive.name}_{self.name(out)}"
            self.prepared.append((function, eq))
        self.lines.append(f"{function}({', '.join(xs)})")

    def _same_memory(self, out: Var, x: Var) -> bool:
        """Tell whether an output takes the memory of the operand that it updates."""
        root, offset = self.places.root[x.index], self.places.offset
        if out.index in self.places.taken:
            return False  # who gave it away may not have owned it: that is found out in the call
        return root in offset and out.index in offset and offset[root] == offset[out.index]

    def buffer(self, out: Var) -> None:
        """Enter a buffer of the arena."""
        self.buffers.append((self.name(out), self.places.offset[out.index], out.aval))

    def _view(self, eq: Equation, out: Var) -> None:
        source = eq.inputs[0]
        assert isinstance(source, Var)
        root = self.places.root[out.index]
        if self.places.kind[root] in (BUFFER, CONSTANT):
            self.views.append((self.name(out), self.name(source), eq))
            return
        self._aliases.setdefault(root, []).append(self.name(out))
        self.lines.append(f"{self.name(out)} = {self.applied(eq, [self.name(source)])}")

    def applied(self, eq: Equation, values: list[str]) -> str:
        """Return an implementation's call, or the expression of a view."""
        p = eq.primitive
        if p.lowering.emit_view is not None and not eq.inputs[0].aval.weak and isinstance(eq.inputs[0], Var):
            return p.lowering.emit_view(values[0], **eq.keywords)
        return f"{self.function_name(p.name, p.impl)}({', '.join([*values, *self.keywords(eq)])})"

    def keywords(self, eq: Equation) -> list[str]:
        """Return the text of an equation's parameters."""
        return [f"{k}={self._literal(k, v)}" for k, v in eq.params]

    def _literal(self, key: str, value: Any) -> str:
        if _is_plain(value):
            return repr(value)
        name = self._free(f"{key}_1") if not isinstance(value, np.dtype) else f"{value.name}_"
        self.shared[name] = value
        return name

    def _forget(self, roots: Any) -> None:
        names: list[str] = []
        for root in roots:
            var = self._made[root]
            if var.aval.nbytes >= LARGE:
                names += [self.name(var), *self._aliases.get(root, ())]
        if names:
            self.lines.append(f"del {', '.join(names)}")

    @functools.cached_property
    def _made(self) -> dict[int, Var]:
        return {v.index: v for eq in self.places.graph.equations for v in eq.outputs}

    def _output(self, atom: Atom) -> str:
        """Return the expression of a result that shares memory with no buffer, argument or constant."""
        if isinstance(atom, Literal):
            return f"np.array({self._number(atom, plain=False)})"
        root = self.places.root[atom.index]
        if self.places.kind[root] == FRESH and (root == atom.index or atom.aval.nbytes == self._made[root].aval.nbytes):
            return self.name(atom)
        if atom.aval.weak:
            return f"np.array({self.name(atom)}, {self.function_name(atom.aval.dtype.name, atom.aval.dtype)})"
        return f"np.array({self.name(atom)})"

    # -- text ---------------------------------------------------------------------------------------------------------
    def compiled(self) -> Bind:
        """Return the function that takes the values of one arena's names and gives the function that runs."""
        code = Code(self.lines, self.functions, f"[{', '.join(self.result)}]", self.inputs)
        self.shared.update(code.used)
        own = (self.buffers, self.views, self.scratch, self.recycled, self.prepared)
        self.names = [*self.shared, *[entry[0] for entries in own for entry in entries]]
        return code.bind(self.names)


def _name_of(literal: Literal) -> str:
    return "n_" + re.sub(r"\W", "_", str(literal.value).replace("-", "minus_").replace(".", "_"))


def copies(values: Any) -> list[Any]:
    """Return arrays with memory of their own."""
    return [np.array(v) for v in values]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))  # pyright: ignore[reportUnknownArgumentType]  # parameters of any type
    return value is None or type(value) in (bool, int, str)
