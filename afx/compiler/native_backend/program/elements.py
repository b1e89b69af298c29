"""Elements of native programs: memory, constants, operations on one element, and sums in a known order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

import attrs

from afx.core import Shape
from afx.core.primitive import Printable
from afx.core.scalar_ops import scalar_op

# --- Elements of native programs: memory, constants, and operations on one element of each operand

Names: TypeAlias = "Mapping[int, str]"
"""What a text calls the roots of a block."""

Mode: TypeAlias = Literal["r", "w", "a"]
"""Whether memory is read, written, or both: added to."""


@attrs.frozen(repr=False)
class Root(Printable):
    """Memory of a block that shares no byte with its other roots while both are in use.

    Attributes:
        param: position among the block's parameters, or -1 where it lies in the arena.
        offset: bytes from the parameter, or from the beginning of the arena.
    """

    param: int
    offset: int = 0


@attrs.frozen(repr=False)
class Ref(Printable):
    """Strided elements in a root.

    Attributes:
        root: number of the root in its block.
        dtype: NumPy's name without byte order, such as ``f4``.
        offset: bytes to the first element.
        strides: bytes between neighbours, one an axis of the iteration space.
    """

    root: int
    dtype: str
    offset: int
    strides: Shape

    @property
    def size(self) -> int:
        """Bytes of an element.

        >>> Ref(0, "c16", 0, ()).size
        16
        """
        return int(self.dtype[1:])

    def text(self, names: Names, rank: int) -> str:
        """Return an element of it: its name, and where it is counted in elements.

        >>> Ref(0, "f4", 8, (12, 4)).text({0: "x"}, 2)
        'x[2 + 3*i + j]'
        """
        terms = [str(self.offset // self.size)] if self.offset else []
        for axis, stride in zip(axis_names(rank), self.strides, strict=False):
            if stride:
                terms.append(axis if stride == self.size else f"{stride // self.size}*{axis}")
        return f"{names[self.root]}[{' + '.join(terms) or '0'}]"


def axis_names(rank: int) -> list[str]:
    """Return the names of the numbers that count along axes.

    >>> axis_names(2)
    ['i', 'j']
    """
    return ["i", "j", "k", "l", "n", "o", "q", "r"][:rank] if rank <= 8 else [f"i{k}" for k in range(rank)]


class Access(NamedTuple):
    """Memory that a step touches; loops name whole roots, without dtype and strides."""

    ref: Ref
    mode: Mode


@attrs.frozen(repr=False)
class UfuncLoop(Printable):
    """Inner loop of a NumPy ufunc, called by pointer.

    Attributes:
        ufunc: its name in NumPy.
        dtypes: of operands and results, as `Ref.dtype`.
        has_data: whether NumPy passes it a pointer of its own.
    """

    ufunc: str
    dtypes: tuple[str, ...]
    has_data: bool

    @property
    def symbol(self) -> str:
        """Name under which its address is linked; that of its data ends in ``.data``."""
        return f"ufunc.{self.ufunc}.{'.'.join(self.dtypes)}"


@attrs.frozen(repr=False)
class Fast(Printable):
    """Function of the second tier, with bits of its own.

    Attributes:
        name: as in the table of `afx.compiler.native_backend.functions`.
        loop: NumPy's loop, for elements that the function leaves to it; None where it takes all.
    """

    name: str
    loop: UfuncLoop | None


class Element(Printable):
    """What a nest reads, knows or computes for each point of its space.

    Attributes:
        name: what computes it, an operation of `afx.compiler.native_backend.llvm.op`, the loop of a ufunc, or a function of
            the second tier; empty where nothing does.
        args: positions of the operands.
    """

    __slots__ = ()
    name: str | UfuncLoop | Fast = ""
    args: Shape = ()

    @property
    def is_loop(self) -> bool:
        """Whether NumPy's loop computes it."""
        return isinstance(self.name, UfuncLoop)

    @property
    def is_function(self) -> bool:
        """Whether a function of the second tier computes it."""
        return isinstance(self.name, Fast)

    @property
    def is_call(self) -> bool:
        """Whether it is no instruction, but a function of NumPy or of the second tier."""
        return not isinstance(self.name, str)


@attrs.frozen(repr=False)
class Load(Element):
    """Element read from memory."""

    ref: Ref

    @property
    def dtype(self) -> str:
        """Its type."""
        return self.ref.dtype

    def text(self, _xs: Sequence[str], names: Names, rank: int) -> str:
        """Return the element in a text."""
        return self.ref.text(names, rank)


@attrs.frozen(repr=False)
class Number(Element):
    """Constant.

    Attributes:
        value: as Python's number.
        dtype: its type.
    """

    value: bool | int | float | complex
    dtype: str

    def __eq__(self, other: object) -> bool:
        # repr tells 0.0 from -0.0 and finds nan equal to itself
        return isinstance(other, Number) and repr(self.value) == repr(other.value) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype))

    def text(self, _xs: Sequence[str], _names: Names, _rank: int) -> str:
        """Return the number in a text."""
        return repr(self.value)


@attrs.frozen(repr=False)
class Op(Element):
    """Operation on earlier values of its nest, whose result has a dtype."""

    name: str | UfuncLoop | Fast
    dtype: str
    args: tuple[int, ...]

    @property
    def loop(self) -> UfuncLoop | None:
        """The loop of NumPy that it may call."""
        name = self.name.loop if isinstance(self.name, Fast) else self.name
        return name if isinstance(name, UfuncLoop) else None

    def text(self, texts: Sequence[str], _names: Names, _rank: int) -> str:
        """Return the operation in a text, of values with these texts."""
        xs = [texts[k] for k in self.args]
        if isinstance(self.name, UfuncLoop):
            return f"np.{self.name.ufunc}({', '.join(xs)})"
        if isinstance(self.name, Fast):
            return f"{self.name.name}({', '.join(xs)})"
        if symbol := scalar_op(self.name).symbol:
            return f"({xs[0]} {symbol} {xs[1]})"
        return f"{self.dtype if self.name == 'cast' else self.name}({', '.join(xs)})"


Value: TypeAlias = "Load | Number | Op"


# --- Sums of products in a known order: a tree of additions, of which some are fused with the multiplication of a
# term

T = TypeVar("T")

SumTree: TypeAlias = "int | tuple[Literal['plain', 'left', 'right'], SumTree, SumTree]"
"""A term by its number, or an addition of two trees; ``left`` or ``right`` is a term whose product is not rounded."""

Wide: TypeAlias = Literal["", "products", "terms"]


@attrs.frozen(eq=False, repr=False)
class Arithmetic(Printable, Generic[T]):
    """What a sum is computed with.

    Attributes:
        term: the two factors of a term.
        multiply: rounds a product.
        add: rounds a sum.
        fuse: of x, y and z rounds ``x * y + z`` once.
        widen: gives float64 of float32.
        narrow: gives float32 of float64.
        zero: gives 0 of the type of a value.
    """

    term: Callable[[int], tuple[T, T]]
    multiply: Callable[[T, T], T]
    add: Callable[[T, T], T]
    fuse: Callable[[T, T, T], T]
    widen: Callable[[T], T]
    narrow: Callable[[T], T]
    zero: Callable[[T], T]


@attrs.frozen(repr=False)
class Sum(Printable):
    """How the terms of an element of a product are added up.

    Attributes:
        tree: the order.
        zero: where a 0 is added, which makes -0 to 0: to the first product, or to the sum.
        wide: of float32: products rounded to float32, or terms, that are added up in float64.

    >>> chain(3)
    Sum(tree=('right', ('right', 0, 1), 2), zero='', wide='')
    """

    tree: SumTree
    zero: Literal["", "start", "end"] = ""
    wide: Wide = ""

    def evaluate(self, ops: Arithmetic[T]) -> T:
        """Return the sum."""
        total = self._tree(ops, self.tree)
        if self.wide:
            total = ops.narrow(total)
        return ops.add(total, ops.zero(total)) if self.zero == "end" else total

    def _tree(self, ops: Arithmetic[T], tree: SumTree) -> T:
        if isinstance(tree, int):
            return self._product(ops, tree)
        kind, left, right = tree
        if kind == "plain":
            return ops.add(self._tree(ops, left), self._tree(ops, right))
        one, rest = (left, right) if kind == "left" else (right, left)
        assert isinstance(one, int)
        return ops.fuse(*self._factors(ops, one), self._tree(ops, rest))

    def _factors(self, ops: Arithmetic[T], k: int) -> tuple[T, T]:
        x, y = ops.term(k)
        return (ops.widen(x), ops.widen(y)) if self.wide == "terms" else (x, y)

    def _product(self, ops: Arithmetic[T], k: int) -> T:
        x, y = self._factors(ops, k)
        if self.zero == "start":
            return ops.fuse(x, y, ops.zero(x))
        product = ops.multiply(x, y)
        return ops.widen(product) if self.wide == "products" else product


@attrs.frozen(repr=False)
class Orders(Printable):
    """How the elements of a product are added up.

    Attributes:
        kinds: the different orders.
        numbers: of each element, row by row, the number of its order.
    """

    kinds: tuple[Sum, ...]
    numbers: tuple[int, ...]


def chain(terms: int) -> Sum:
    """Return the order of one term after the other, each fused."""
    tree: SumTree = 0
    for k in range(1, terms):
        tree = ("right", tree, k)
    return Sum(tree)
