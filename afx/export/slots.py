"""Slots: the arguments of an exported function, one a leaf, with their names in C."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import attrs

from afx.core.dtypes import DType

__all__ = ["Slot", "escape_line", "explain_name", "name_slots"]

C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t",
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
    used, found = {*taken, *RESERVED}, list[Slot]()
    for path, shape, dtype in items:
        stem = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_") or "x"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        name, k = stem, 1
        while name in used or HEADERS.fullmatch(name):
            k += 1
            name = f"{stem}_{k}"
        used.add(name)
        found.append(Slot(path, name, shape, dtype))
    return tuple(found)
