"""Tracing for export: a function's graph, with its arguments and results as named slots."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.target import Target, current
from afx.core import Aval, DType, Function, aval_of, get_default_dtype, to_numpy_value
from afx.core.graph import Graph
from afx.errors import ExportError
from afx.transforms._arguments import check_callable, name_of
from afx.transforms.compile.make_graph import Traced, to_graph

# --- Slots: the arguments of an exported function, one a leaf, with their names in C

C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t", "float16": "uint16_t", "complex64": "float", "complex128": "double",
}  # fmt: skip
KEYWORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union
    unsigned using virtual void volatile wchar_t while xor xor_eq"""  # of C23 and C++20
MACROS = """assert BUFSIZ CLOCKS_PER_SEC complex EDOM EILSEQ EOF ERANGE errno EXIT_FAILURE EXIT_SUCCESS FILE HUGE_VAL I
    i386 imaginary INFINITY linux M_E M_PI NAN noreturn NULL offsetof RAND_MAX SEEK_CUR SEEK_END SEEK_SET setjmp
    stderr stdin stdout unix va_arg va_copy va_end va_start"""
LIBRARY = """abort abs accept acoshl alarm aligned_alloc asctime at_quick_exit atexit atof atoi atol atoll bind bsearch
    btowc cabs calloc carg ceil ceilf ceill chdir cimag clearerr clock close closedir conj connect cproj creal
    ctime difftime div dup execve exit fclose fdim feof ferror fflush ffs fgetc fgetpos fgets floor floorf
    floorl fmax fmaxf fmin fminf fopen fork fprintf fputc fputs fread freopen frexp fscanf fseek fsetpos ftell
    fwrite gamma getc getchar getenv getpid gets gmtime ilogb index isalnum isalpha isblank iscntrl isdigit
    isfinite isgraph isinf islower isnan isnormal isprint ispunct isspace isupper isxdigit j0 j1 jn kill labs
    ldexp ldiv lgammal link listen llabs lldiv llrint llround localtime logb longjmp lrint lround lseek malloc
    mblen mbstowcs mbtowc memchr memcmp mktime mmap modf nan nanf nearbyint nice open opendir pause perror pipe
    poll printf putc putchar puts qsort quick_exit raise rand random read readdir recv remainder remove remquo
    rename rewind rindex rint round roundf scalbln scalbn scanf select send setbuf setlocale setvbuf signal
    signbit signgam sleep snprintf socket sprintf srand sscanf stat strcat strchr strcmp strcoll strcpy strcspn
    strerror strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol
    strtold strtoll strtoul strtoull strxfrm sync system tgamma tgammaf time times tmpfile tmpnam tolower
    toupper trunc truncf uname ungetc unlink vfprintf vprintf vsnprintf vsprintf wait wcslen wcstombs wctomb
    write y0 y1 yn"""
HEADERS = re.compile(  # names of headers of C by their form, and those that compilers keep for themselves
    r"__.*|_[A-Z].*|U?INT\w*_(MIN|MAX|C)|U?INTMAX_C|(SIZE|PTRDIFF|WCHAR|WINT)_(MIN|MAX)"
    r"|u?int(_least|_fast)?\d+_t|u?int(ptr|max)_t|(clock|div|ldiv|max_align|off|pid|ptrdiff|size|ssize|time|wint)_t"
)
RESERVED = frozenset([*KEYWORDS.split(), *MACROS.split(), "work"])


@attrs.frozen
class Slot:
    """An array that the function of C reads or writes, dense in row-major order.

    Attributes:
        path: where the leaf stands among the arguments, or in the result, of the Python function.
        name: of the parameter in C.
        shape: its lengths.
        dtype: of its elements.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def c_type(self) -> str:
        """The type of an element in C."""
        return C_TYPES[self.dtype.name]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.path}: {self.dtype}[{','.join(map(str, self.shape))}]"


def escape_line(text: str) -> str:
    r"""Return a text as one line that can be printed: line ends, control characters and the like are escaped.

    >>> print(escape_line("a\nb"))
    a\nb
    """
    return "".join([letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text])


def explain_name(name: str) -> str | None:
    """Return what hinders a function of this name in C or C++, None where nothing does.

    >>> explain_name("double"), explain_name("errno"), explain_name("loss")
    ('a word of C', 'a macro of C', None)
    """
    if name in KEYWORDS.split():
        return "a word of C"
    if name in MACROS.split():
        return "a macro of C"
    if name == "main":
        return "where programs begin"
    return (
        "reserved in C"
        if HEADERS.fullmatch(name)
        else "a function of the C library"
        if name in LIBRARY.split()
        else None
    )


def name_slots(items: Sequence[tuple[str, tuple[int, ...], DType]], taken: Iterable[str] = ()) -> tuple[Slot, ...]:
    """Return slots with a C name each, from their paths.

    >>> import numpy as np
    >>> double = np.dtype("f8")
    >>> [slot.name for slot in name_slots([("w[0]", (2,), double), ("w[1]", (), double), ("int", (), double)])]
    ['w_0', 'w_1', 'int_2']
    """
    used, slots = {*taken, *RESERVED}, list[Slot]()
    for path, shape, dtype in items:
        stem = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_") or "x"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        name, k = stem, 1
        while name in used or HEADERS.fullmatch(name):
            k += 1
            name = f"{stem}_{k}"
        used.add(name)
        slots.append(Slot(path, name, shape, dtype))
    return tuple(slots)


# --- Tracing for export

Item = tuple[str, tuple[int, ...], DType]


@attrs.frozen
class Traceable:
    """A function's program on its way to another language.

    Attributes:
        name: of the function.
        graph: simplified, without weak types; what it called is inlined, loops and branches hold graphs of their own.
        inputs: path, shape and dtype of each leaf of the arguments; their names are still to be made unique.
        outputs: the same of the results, whose paths begin with ``result``.
        in_tree: the structure of the positional arguments.
        out_tree: the structure of the result.
    """

    name: str
    graph: Graph
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    in_tree: Any
    out_tree: Any


def trace_program(
    fn: Function, args: tuple[Any, ...], who: str, name: str | None = None, target: Target | None = None
) -> Traceable:
    """Trace a function for arguments like these, and simplify its graph, for the current target or another one.

    Raises:
        ExportError: it closes over a traced array.
    """
    traced, avals, _ = trace_arguments(fn, args, who)
    given = arguments_of(fn, args, avals)
    paths = [f"result{path}" for path in pytree.paths(traced.out_tree)]
    results = [(path, a.aval.shape, a.aval.dtype) for path, a in zip(paths, traced.graph.outputs, strict=True)]
    return Traceable(
        name or name_of(fn),
        prepare(traced.graph, target),
        tuple([Slot(path, path, shape, dtype) for path, shape, dtype in given]),
        tuple([Slot(path, path, shape, dtype) for path, shape, dtype in results]),
        pytree.structure(args),
        traced.out_tree,
    )


def prepare(graph: Graph, target: Target | None = None) -> Graph:
    """Return a graph as a plan computes it before anything is fused: expanded, of strong types, simplified.

    It has no branches that the function has not.
    """
    plain = attrs.evolve(target or current.target, unmask_min_elements=sys.maxsize)
    return simplify(graph, plain, expanding=True)


def trace_arguments(fn: Function, args: tuple[Any, ...], who: str) -> tuple[Traced, list[Aval], Any]:
    """Return a function's graph, the Avals of its arguments' leaves, and the structure of ``(args, {})``.

    Raises:
        ExportError: it closes over a traced array.
    """
    check_callable(fn, who)
    given: Any = (args, {})
    leaves, tree = pytree.flatten(given)
    avals = [_aval(x, who) for x in leaves]
    traced = to_graph(fn, tree, avals, f"{who} of {name_of(fn)}")
    if traced.lifted:
        raise ExportError(
            f"{who}: {name_of(fn)} closes over a traced array: got {traced.lifted[0]!r}; pass it as an argument"
        )
    return traced, avals, tree


def _aval(x: Any, who: str) -> Aval:
    """Return the abstract value of a parameter: a Python float, a weak one, has the default dtype."""
    if isinstance(x, Aval):
        return Aval(x.shape, x.dtype)
    aval = aval_of(x, who)
    if not aval.weak:
        return aval
    kind = np.asarray(to_numpy_value(x, who)).dtype.kind
    return Aval((), np.dtype(get_default_dtype()) if kind == "f" else np.asarray(x).dtype, True)


def arguments_of(fn: Function, args: tuple[Any, ...], avals: Sequence[Aval]) -> list[Item]:
    """Return path, shape and dtype of each leaf; paths begin with the names of arguments where these are known."""
    names = argument_names(fn, len(args))
    paths = [
        f"{name}{path}" for name, arg in zip(names, args, strict=True) for path in pytree.paths(pytree.structure(arg))
    ]
    return [(path, aval.shape, aval.dtype) for path, aval in zip(paths, avals, strict=True)]


def argument_names(fn: Function, count: int) -> list[str]:
    """Return the names of a function's positional arguments, or ``x0``, ``x1`` … where it does not tell; no two are alike."""
    try:
        parameters = [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    for k in range(len(names), count):
        name = f"x{k}"
        while name in names:
            name += "_rest"
        names.append(name)
    return names
