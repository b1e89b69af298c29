"""Writer: files of Python with imports, functions and arrays, in statements as people write them."""

from __future__ import annotations

import base64
import re
import textwrap
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from afx.core import DType, Ndarray, SourceLocation, places_of
from afx.core.graph import Equation, Graph, Literal
from afx.export.templates import Names, Walk, source_text

# --- Modules: the parts of a file of Python that is being written: imports, functions, arrays, and the function
# itself

SHOWN = 16  # elements of an array that are written as numbers
LINE = 96  # characters of a line of encoded bytes
UNPACK = '''
def unpack(text, dtype, shape):
    """Return the array that a text holds: its bytes, compressed, in base64."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape)
'''


class Module:
    """What a file holds, in the order in which it was entered.

    Attributes:
        names: in use at the top of the file and in its function.
        imports: statements.
        known: the name of each value that is written down, and the value, so that its identity stays its own.
        parts: texts of functions and arrays.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.imports: set[str] = set()
        self.known: dict[int, tuple[str, Any]] = {}
        self.parts: list[str] = []

    def reserve(self, value: Any, wish: str) -> str:
        """Return the name of a value whose text will follow."""
        name = self.names.make(wish)
        self.known[id(value)] = name, value
        return name

    def define(self, value: Any, name: str, source: str) -> str:
        """Enter a value with its text under a name that nothing else takes."""
        self.known[id(value)] = name, value
        self.write(source.strip())
        return name

    def write(self, text: str) -> None:
        """Add a text at the top of the file."""
        self.parts.append(text)

    def enter_array(self, value: Ndarray, name: str) -> str:
        """Enter an array under a name, as numbers where there are few, else as encoded bytes; return the name."""
        self.known[id(value)] = name, value
        self.write(f"{name} = {self._array_text(value)}\n{name}.flags.writeable = False")
        return name

    def _array_text(self, value: Ndarray) -> str:
        if value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous:
            return f"{self._array_text(value.T)}.T"  # the order of elements decides about the last bits of products
        if value.size <= SHOWN:
            text = f"np.array({number_text(value.tolist())}, np.{value.dtype.name})"
            return text if value.size else f"np.zeros({value.shape}, np.{value.dtype.name})"
        if "import zlib" not in self.imports:
            self.imports |= {"import base64", "import zlib"}
            self.parts.insert(0, UNPACK.strip())
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 9)).decode()
        lines = "\n".join(textwrap.wrap(data, LINE))
        return f'unpack("""\n{lines}\n""", np.{value.dtype.name}, {value.shape})'


def number_text(value: Any) -> str:
    """Return a Python number, or a list of such, as an expression that gives it.

    >>> number_text(1.5), number_text(float("-inf")), number_text(True)
    ('1.5', '-np.inf', 'True')
    """
    if isinstance(value, list):
        return f"[{', '.join([number_text(item) for item in value])}]"  # pyright: ignore[reportUnknownVariableType]  # of any nesting
    if isinstance(value, complex):
        return f"complex({number_text(value.real)}, {number_text(value.imag)})"
    return repr(value).replace("inf", "np.inf").replace("nan", "np.nan")


# --- Writer: statements of a function of NumPy's, as people write them

TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
# no attribute, no keyword; texts whole, which are no names
NAME = re.compile(rf"{TEXT}|(?<![\w.])[A-Za-z_]\w*(?!\w|=[^=])")
WIDTH = 100  # characters of a line, up to which an expression takes in what one of its operands is


@attrs.frozen
class Statement:
    """One statement.

    Attributes:
        text: of all but the target.
        target: what it assigns; an empty text where that is not one name.
        depth: how deep it stands.
        place: the user's line that it comes from.
        silent: the floating-point errors that are ignored in it.
    """

    text: str
    target: str
    depth: int
    place: SourceLocation | None
    silent: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.target} = {self.text}" if self.target else self.text


class NumpyWriter:
    """The function that is being written, and the module around it."""

    def __init__(self, walk: Walk[NumpyWriter], module: Module, hidden: SourceLocation | None = None) -> None:
        self.walk = walk
        self.hidden = hidden  # the line that asks for the export, which says nothing about what is computed
        self.module = module
        self.statements: list[Statement] = []
        self._depth = 1
        self._place: SourceLocation | None = None
        self._silent: tuple[str, ...] = ()

    # -- what a walk asks for --
    def begin(self, eq: Equation) -> None:
        """Take the equation's line and the errors that are ignored there."""
        self._place, self._silent = places_of([eq.source])[0], eq.ignored_fp_errors

    def literal(self, literal: Literal) -> str:
        """Return a number of NumPy's."""
        return f"{dtype_text(literal.aval.dtype)}({number_text(literal.value)})"

    def constant(self, name: str, value: Ndarray) -> str:
        """Enter a captured array at the top of the file, each once."""
        known = self.module.known.get(id(value))
        return known[0] if known is not None else self.module.enter_array(value, name)

    # -- statements --
    def assign(self, target: str, text: str, silent: Sequence[str] = ()) -> None:
        """Write that a name is an expression."""
        ignored = tuple(sorted({*self._silent, *silent}))
        self.statements.append(Statement(text, target, self._depth, self._place, ignored))

    def write(self, text: str) -> None:
        """Write a statement of another kind."""
        self.assign("", text)

    def end(self, text: str) -> None:
        """Write the last statement."""
        self._place, self._silent = None, ()
        self.write(text)

    def assign_all(self, targets: Sequence[str], values: Sequence[str]) -> None:
        """Write that names become values, all at once."""
        pairs = [(t, v) for t, v in zip(targets, values, strict=True) if t != v]
        if len(pairs) == 1:
            self.assign(*pairs[0])
        elif pairs:
            self.write(f"{', '.join([t for t, _ in pairs])} = {', '.join([v for _, v in pairs])}")

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Write what stands within a statement such as ``for``."""
        place, silent = self._place, self._silent
        self._silent = ()
        self.write(head)
        self._depth += 1
        count = len(self.statements)
        yield
        if len(self.statements) == count:
            self.write("pass")
        self._depth -= 1
        self._place, self._silent = place, silent

    def inline(self, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Write a graph that an equation holds, where it is used."""
        names = self.walk.write(self, graph, operands)
        self._place, self._silent = None, ()
        return names

    # -- text --
    def lines(self) -> Iterator[str]:
        """Yield the lines of the function, each of the user's own above what became of it."""
        place: SourceLocation | None = None
        silent: tuple[str, ...] = ()
        for s in _taken_in(self.statements):
            indent = "    " * s.depth
            if s.place != place and s.place is not None and s.place != self.hidden:
                place, silent = s.place, ()
                text = source_text(place)
                if text:
                    yield f"{indent}# {text}"
            if s.silent != silent and s.silent:
                ignored = ", ".join([f'{name}="ignore"' for name in s.silent])
                yield f"{indent}with np.errstate({ignored}):"
            silent = s.silent
            yield f"{indent}{'    ' if silent else ''}{s}"


def _taken_in(statements: Sequence[Statement]) -> list[Statement]:
    """Return statements where one whose value is used once, in the next statement, is a part of that."""
    uses = Counter([name for s in statements for name in NAME.findall(s.text)])
    made = Counter([s.target for s in statements])
    statements_left: list[Statement] = []
    for s in statements:
        last = statements_left[-1] if statements_left else None
        if last is not None and made[last.target] == uses[last.target] == 1 and _are_beside(last, s):
            text = _substitute(s.text, last.target, last.text)
            if text != s.text and len(text) + 4 * s.depth + len(s.target) < WIDTH:
                statements_left[-1] = attrs.evolve(s, text=text, place=last.place)
                continue
        statements_left.append(s)
    return statements_left


def _are_beside(first: Statement, second: Statement) -> bool:
    if not first.target or second.text.endswith(":") or (first.depth, first.silent) != (second.depth, second.silent):
        return False
    return second.place in (first.place, None)


def _substitute(text: str, name: str, value: str) -> str:
    """Return an expression with another in the place of a name, in parentheses where it needs them."""
    match_of_name = next((match for match in NAME.finditer(text) if match[0] == name), None)
    if match_of_name is None:
        return text
    before, after = text[: match_of_name.start()], text[match_of_name.end() :]
    left = before.rstrip().rpartition(" ")[2] if before.endswith(" ") else before
    stands_alone = before[-1:] in {"", "(", "["} or before.endswith((", ", ": ", "= ", "return "))
    stands_alone = stands_alone and (after[:1] in {"", ")", "]"} or after.startswith(", ") or after[:1] == "}")
    is_sum = left[-1:] in {"", "(", "[", ",", "=", "+", "-"}
    is_sum = is_sum and (after[:1] in {"", ")", "]", ","} or after.startswith((" + ", " - ")))
    bare = stands_alone or is_atom(value) or (is_sum and is_product(value))
    return f"{before}{value if bare else f'({value})'}{after}"


def is_product(text: str) -> bool:
    """Tell whether an expression binds more than a sum does.

    >>> is_product("x * np.sin(y + z)"), is_product("x * y + z")
    (True, False)
    """
    return is_atom(re.sub(r" [*/@] ", "*", text))


def is_atom(text: str) -> bool:
    """Tell whether an expression needs no parentheses beside an operator.

    >>> is_atom("np.sin(x + y)"), is_atom("x + y"), is_atom("-x"), is_atom("np.sin(x) + (y)")
    (True, False, False, False)
    """
    depth = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and not depth:
            return False
    return not text.startswith("-")


def dtype_text(dtype: DType) -> str:
    """Return the name of a dtype in NumPy."""
    return f"np.{dtype.name}" if dtype.kind != "b" else "np.bool_"
