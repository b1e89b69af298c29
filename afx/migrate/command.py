"""Command: ``python -m afx.migrate LIBRARY PATH`` rewrites files, and prints what was changed and what is left."""

from __future__ import annotations

import argparse
import difflib
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from afx.migrate.for_jax import by_name
from afx.migrate.jax import JAX, JaxMigration
from afx.migrate.rewriting import Library, Migration, Remark, rewrite

__all__ = ["main", "migrate_source"]

# --- autograd's names: what stands for them in afx, in NumPy, or among functions with autograd's own arguments

_MODULES = """autograd.numpy: afx.numpy
autograd.numpy.fft: afx.numpy.fft
autograd.numpy.linalg: afx.numpy.linalg
autograd.numpy.random: numpy.random
autograd.misc.optimizers autograd.scipy.special: afx.migrate.for_autograd
autograd.scipy.linalg: afx.linalg
autograd.scipy.stats: afx.stats"""
_RENAMED = """autograd: afx
autograd checkpoint hessian jacobian=jacrev: afx.*
autograd.builtins dict isinstance list tuple type: builtins.*
autograd.scipy.signal.convolve: afx.convolve
autograd grad value_and_grad deriv elementwise_grad grad_and_aux grad_named hessian_tensor_product
  hessian_vector_product=hessian_tensor_product holomorphic_grad make_hvp make_jvp make_vjp tensor_jacobian_product
  vector_jacobian_product=tensor_jacobian_product: afx.migrate.for_autograd.*
autograd.core getval: afx.migrate.for_autograd.*
autograd.tracer getval: afx.migrate.for_autograd.*
autograd.extend defvjp primitive: afx.migrate.for_autograd.*
autograd.misc flatten fixed_points.fixed_point=fixed_point flatten.flatten=flatten
  flatten.flatten_func=flatten_func: afx.migrate.for_autograd.*
autograd.scipy.integrate odeint: afx.migrate.for_autograd.*
autograd.test_util check_grads: afx.migrate.for_autograd.*"""
_ADVICE = """autograd.core: afx.is_traced(x) tells traced arrays, afx.stop_gradient(x) gives their values
autograd.extend: afx.custom_vjp(fn, forward, backward), or an op: examples/guides/extending.md
autograd.make_ggnvp: afx.jvp and afx.vjp, one after the other
autograd.multigrad_dict: afx.grad(fn, argnames=names)
autograd.tracer: afx.trace(fn)(x), a Graph of equations
autograd.util: examples/guides/extending.md tells of rules"""
AUTOGRAD = Library(
    roots=("autograd",),
    guide="from_autograd.md",
    setting="afx.set_default_dtype(afx.float64)",
    sets="afx.set_default_dtype(afx.float64)",
    modules=by_name(_MODULES),
    renamed=by_name(_RENAMED),
    notes={"autograd.scipy.integrate.odeint": "steps are afx's own: what is found agrees to the tolerance"},
    advice=by_name(_ADVICE),
)


# --- The command

LIBRARIES = {"autograd": (AUTOGRAD, Migration), "jax": (JAX, JaxMigration)}


def migrate_source(source: str, library: str = "autograd") -> tuple[str, list[Remark]]:
    """Return a program with the names of a library rewritten, and remarks on what is left.

    Raises:
        SyntaxError: it is no Python.

    >>> print(migrate_source("from autograd import grad, jacobian")[0])
    from afx.migrate.for_autograd import grad
    from afx import jacrev as jacobian
    """
    return rewrite(source, *LIBRARIES[library])


def files_below(path: Path) -> Iterator[Path]:
    """Yield a Python file itself, or those below a folder, without links: what they lead to may be somebody else's."""
    yield from [path] if path.is_file() else sorted([file for file in path.rglob("*.py") if not file.is_symlink()])


def main(arguments: list[str] | None = None) -> int:
    """Rewrite files, print what was changed and what is left, and return 1 where something is left."""
    parser = argparse.ArgumentParser(prog="python -m afx.migrate", description="rewrite programs for afx")
    parser.add_argument("library", choices=list(LIBRARIES), help="the library that the programs use")
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders")
    parser.add_argument("--diff", action="store_true", help="print what would change, and write nothing")
    chosen = parser.parse_args(arguments)
    left = 0
    for path in [file for given in chosen.paths for file in files_below(given)]:
        left += _migrate_file(path, chosen.library, chosen.diff)
    return 1 if left else 0


def _migrate_file(path: Path, library: str, only_show: bool) -> int:
    """Rewrite one file, and return how much is left."""
    try:
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        source = data.decode(encoding)
        migrated, remarks = migrate_source(source, library)
        changed = migrated.encode(encoding)
    except SyntaxError as error:
        print(f"{path}:{error.lineno or 1}: not read as Python: {error.msg}")
        return 1
    except (OSError, ValueError) as error:  # bytes that are not of the encoding, or are 0
        print(f"{path}:1: not read: {error}")
        return 1
    if only_show:
        old, new = (text.splitlines(keepends=True) for text in (source, migrated))
        print("".join(difflib.unified_diff(old, new, str(path), str(path))), end="")
    elif migrated != source:
        path.write_bytes(changed)
        print(f"{path}: rewritten")
    places = None if only_show else _lines_after(source, migrated)
    for remark in remarks:
        line = places[remark.line] if places else remark.line
        print(f"{path}:{line}: {remark.name}: {remark.advice}")
    return len(remarks)


def _lines_after(source: str, migrated: str) -> dict[int, int]:
    r"""Return where the lines of a program, numbered from 1, stand in the rewritten one; what is new comes before a line.

    >>> _lines_after("a\nb\nc\n", "new\na\nmore\nB\nc\n")
    {1: 2, 2: 4, 3: 5}
    """
    pairs = difflib.SequenceMatcher(None, source.splitlines(), migrated.splitlines(), False).get_opcodes()
    return {
        old + 1: max(first, last - (stop - old)) + 1
        for _, start, stop, first, last in pairs
        for old in range(start, stop)
    }
