"""Name table: derives from the folders of afx where each public name lives, and the stubs that type checkers read.

``python -m tests.generate_names`` writes them; a test compares them. The public names are a decision, which stands in
``tests/test_names.py``; those of `afx.numpy` are NumPy's.
"""

import ast
import importlib
import pkgutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

import afx
from afx.core.numpy_names import FUNCTIONS as SECOND_NAMES, UFUNCS
from afx.core.registry import FUNCTIONS, load_all
from afx.numpy._namespace import names
from tests.test_names import NAMES

PACKAGE = Path(afx.__file__).parent
TABLE = PACKAGE / "core" / "name_table.py"
STUB = PACKAGE / "__init__.pyi"
OPS_STUB = PACKAGE / "ops" / "__init__.pyi"

SEARCHED = ("core", "pytree", "ops", "transforms", "control", "runtime")
ELSEWHERE = {"PlanStatus": "afx.compiler.report", "set_threads": "afx.compiler.threads"}  # in modules not searched
LAST = ("afx.ops.linalg", "afx.ops.fft", "afx.ops.special", "afx.ops.nn", "afx.ops.random", "afx.transforms.sparse")
GENERATED = "generated: run python -m tests.generate_names"

OBJECTS = {  # names of `afx.numpy` that are neither functions of afx nor NumPy's own: a module, and the name there
    "array": ("afx.ops.creation.creation", "array"),
    "asanyarray": ("afx.ops.creation.creation", "asarray"),
    "ascontiguousarray": ("afx.ops.creation.creation", "asarray"),
    "asfortranarray": ("afx.ops.creation.creation", "asarray"),
    "c_": ("afx.ops.indexing.select", "c_"),
    "fft": ("afx.numpy", "fft"),
    "linalg": ("afx.numpy", "linalg"),
    "ndarray": ("afx.core.array.array", "Array"),
    "r_": ("afx.ops.indexing.select", "r_"),
    "random": ("afx.numpy", "random"),
    "row_stack": ("afx.ops.manipulation.join", "vstack"),
    "vectorize": ("afx.numpy._namespace", "vectorize"),
}
MAKING = {  # NumPy's: no operand is an Array, or it is written into
    "bartlett",
    "blackman",
    "broadcast_shapes",
    "empty",
    "eye",
    "fromfunction",
    "hamming",
    "hanning",
    "identity",
    "indices",
    "isscalar",
    "issubdtype",
    "kaiser",
    "ones",
    "promote_types",
    "put_along_axis",
    "tri",
    "zeros",
}
RESULTS = "# Typed as for Arrays: without one among the operands, functions give NumPy's ndarrays, which are taken as Arrays are."
UNTYPED = {"numpy.fft": {"test"}, "numpy.linalg": {"test"}}  # NumPy's stubs do not have them
NUMPY_VERSION = ".".join(np.__version__.split(".")[:2])


def modules() -> list[ModuleType]:
    """Return the modules that public names come from, those of afx's families last."""
    found = [importlib.import_module(f"afx.{folder}") for folder in SEARCHED]
    walked = [m.name for p in found for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    names = sorted({*walked, *[p.__name__ for p in found]}, key=lambda name: (name.startswith(LAST), name))
    return [importlib.import_module(name) for name in names]


def own_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: those that it lists, else those without underscore that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    names: list[str] = []
    for node in ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_") or name in NAMES["afx"]]


def families() -> list[str]:
    """Return the public modules of afx."""
    held = {m.name for m in pkgutil.iter_modules(afx.__path__)}
    return sorted(held.intersection(NAMES["afx"]))


def homes() -> dict[str, str]:
    """Return the module of every public name that is no module, and of functions that operators and NumPy look up."""
    load_all()
    found: dict[str, str] = dict(ELSEWHERE)
    for module in modules():
        if "._" not in module.__name__:
            for name in own_names(module):
                found.setdefault(name, module.__name__)
    public = set(NAMES["afx"]) - set(families())
    looked_up = {name: fn.__module__ for name, fn in vars(FUNCTIONS).items() if fn.__module__.startswith("afx.")}
    second = {name: home for name, home in found.items() if _registered_name(home, name) in looked_up}
    return second | looked_up | {name: found[name] for name in public}


def _registered_name(home: str, name: str) -> str:
    """Return the name under which a function was entered that is known by several."""
    value = getattr(importlib.import_module(home), name)
    registered = str(getattr(value, "__name__", "")).rstrip("_")
    return registered if getattr(FUNCTIONS, registered, None) is value else ""


LATER = ("afx.nn", "afx.optim")  # families whose names load their modules when they are first asked for


def member_homes(family: str) -> dict[str, str]:
    """Return the module of each public name of a family, as its imports for type checkers say."""
    tree = ast.parse(Path(importlib.import_module(family).__file__ or "").read_text(encoding="utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    found = dict[str, str]()
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        if node.module == family:  # modules of its own
            continue
        names = [alias.name for alias in node.names]
        found |= dict.fromkeys(importlib.import_module(node.module).__all__ if names == ["*"] else names, node.module)
    return found


def table() -> str:
    """Return the text of the name table."""
    at = homes()
    public = set(NAMES["afx"])
    lines = [f'"""Name table: the module of each function, so that it loads on first use ({GENERATED})."""', ""]
    for title, wanted in (("PUBLIC", True), ("INTERNAL", False)):
        names = [name for name in sorted(at) if (name in public) == wanted]
        lines.append(f"{title}: dict[str, str] = {{  # names by module")
        for home in sorted({at[name] for name in names}):
            line = f'    "{home}": "{" ".join([name for name in names if at[name] == home])}",'
            lines += [line] if len(line) <= 120 else _wrapped(line)
        lines.append("}")
    lines.append("MEMBERS: dict[str, dict[str, str]] = {  # of families whose names load when they are asked for")
    for family in LATER:
        members = member_homes(family)
        lines.append(f'    "{family}": {{')
        for home in sorted({*members.values()}):
            line = f'        "{home}": "{" ".join(sorted([name for name in members if members[name] == home]))}",'
            lines += [line] if len(line) <= 120 else _wrapped(line, 8)
        lines.append("    },")
    lines.append("}")
    lines.append("FAMILIES = (")
    names = ", ".join([f'"{name}"' for name in families()])
    lines.append(textwrap.indent(textwrap.fill(f"{names},", 116), "    "))
    return "\n".join([*lines, ")  # fmt: skip", ""])


def _wrapped(line: str, indent: int = 4) -> list[str]:
    """Return an entry whose names take several lines."""
    home, names = line.strip().rstrip(",").split(": ")
    return [textwrap.fill(names.strip('"'), 116, initial_indent=f'{" " * indent}{home}: """') + '""",']


def stub() -> str:
    """Return the text of the stub."""
    at = dict.fromkeys(families(), "afx") | homes()
    public = [name for name in sorted(NAMES["afx"]) if name in at]
    lines = [f"# {GENERATED}", ""]
    lines += _imports({(at[name], f"{name} as {name}") for name in public})
    return "\n".join([*lines, "", "__version__: str", "__array_api_version__: str", ""])


def ops_stub() -> str:
    """Return the text of the stub of `afx.ops`, from which rooms above take functions."""
    at = {name: home for name, home in homes().items() if home.startswith("afx.ops.")}
    held = {(home, f"{name} as {name}") for name, home in at.items() if hasattr(importlib.import_module(home), name)}
    return "\n".join([f"# {GENERATED}", "", *_imports(held), ""])


def _imports(pairs: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines that import names, with their module each, as many names a line as it holds."""
    yield "# fmt: off"
    for home in sorted({home for home, _ in pairs}):
        names = sorted(name for module, name in pairs if module == home)
        line = f"from {home} import {', '.join(names)}"
        yield line if len(line) <= 120 else f"from {home} import (\n{textwrap.fill(', '.join(names), 120)}\n)"


def numpy_stubs() -> dict[Path, str]:
    """Return the texts of the stubs of `afx.numpy`: afx's functions under NumPy's names, and NumPy's other ones."""
    at, texts = homes(), {}
    for module, own in ((np, None), (np.linalg, afx.linalg), (np.fft, afx.fft)):
        sources = {n: _source(module, own, n, at) for n in names(module) if n not in UNTYPED.get(module.__name__, ())}
        imported = {(home, f"{name} as {name}") for n, (home, name) in sources.items() if n == name}
        renamed = {n: source for n, source in sources.items() if n != source[1]}
        imported |= {(home, f"{name} as _{name}") for home, name in renamed.values()}
        lines = [f"# {GENERATED}, with NumPy {NUMPY_VERSION}", RESULTS, "", *_imports(imported), ""]
        lines += [f"{n} = _{name}" for n, (_, name) in renamed.items()]
        file = "__init__" if own is None else module.__name__.rpartition(".")[2]
        texts[PACKAGE / "numpy" / f"{file}.pyi"] = "\n".join(lines).rstrip("\n") + "\n"
    return texts


def _source(module: ModuleType, own: ModuleType | None, name: str, at: dict[str, str]) -> tuple[str, str]:
    """Return the module, and the name there, of what a name of NumPy's is in `afx.numpy`."""
    value = getattr(module, name)
    if own is not None:
        return (own if hasattr(own, name) else module).__name__, name
    if name in OBJECTS:
        return OBJECTS[name]
    if name in MAKING:
        return "numpy", name
    known = value.__name__ if isinstance(value, np.ufunc) else name
    ours = UFUNCS.get(known, SECOND_NAMES.get(known, known))
    is_function = callable(value) and not isinstance(value, type)
    return (at[ours], ours) if is_function and at.get(ours, "").startswith(("afx.core", "afx.ops")) else ("numpy", name)


def main() -> None:
    """Write the name table and the stubs."""
    TABLE.write_text(table(), encoding="utf-8")
    STUB.write_text(stub(), encoding="utf-8")
    OPS_STUB.write_text(ops_stub(), encoding="utf-8")
    for path, text in numpy_stubs().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
