"""The house of afx: which file may import which, and what stands where.

Every file belongs to a layer. It imports lower layers, and files of its own layer as long as no circle arises;
imports stand at the top of the file. Four things are different on purpose: imports for type checkers alone, the lazy
loading of a package's ``__getattr__``, optional extras, which are imported by the function that needs them, and the few
modules that are listed as loaded late, since a plain import does without them.
"""

import ast
import functools
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "afx"

LAYERS = (
    ("errors", "moved", "other_names", "tracebacks"),
    ("pytree",),
    ("core",),
    ("compiler", "runtime"),
    ("ops",),
    ("transforms",),
    ("control", "random"),
    (
        "nn",
        "optim",
        "integrate",
        "interpolate",
        "stats",
        "cluster",
        "sample",
        "linalg",
        "sparse",
        "fft",
        "special",
        "ndimage",
        "signal",
        "debug",
    ),
    (
        "data",
        "distributed",
        "export",
        "interop",
        "scipy_families",
        "io",
        "migrate",
        "numpy",
        "plot",
        "testing",
        "train",
    ),
    ("__init__",),
)
REQUIRED = {"attrs", "numpy"}
FOR_CHECKERS = {"typing_extensions"}
EXTRAS = {
    "llvmlite",
    "matplotlib",
    "mpi4py",
    "onnx",
    "safetensors",
    "scipy",
    "sympy",
    "tensorboardX",
    "threadpoolctl",
    "tqdm",
}
TOP_LEVEL = {"CHANGELOG.md", "LICENSE", "README.md", "afx", "examples", "pyproject.toml", "tests"}
LONGEST_FILE = 800
SHORTEST_FILE = 40
FOLDER_MODULES = range(3, 17)
# modules that are short because they are a public path or a command
SHORT = {
    "afx.fft", "afx.migrate", "afx.migrate.__main__", "afx.numpy.fft", "afx.numpy.linalg", "afx.numpy.random",
    "afx.plot.__main__", "afx.sparse",
}  # fmt: skip

# Tokens that run (no docstrings, comments or blank lines) of each room, at most; a feature raises its room's number in
# its own commit.
BUDGETS: dict[str, int] = {
    "afx": 8_810,
    "compiler": 211_060,
    "control": 28_310,
    "core": 39_310,
    "data": 5_340,
    "distributed": 50_270,
    "export": 67_250,
    "integrate": 23_130,
    "interpolate": 9_090,
    "io": 17_480,
    "migrate": 70_880,
    "ndimage": 7_430,
    "nn": 22_990,
    "numpy": 4_220,
    "ops": 204_870,
    "optim": 52_380,
    "plot": 3_990,
    "pytree": 10_480,
    "random": 6_380,
    "runtime": 7_970,
    "sample": 20_450,
    "signal": 13_530,
    "stats": 37_700,
    "train": 6_060,
    "transforms": 64_930,  # sets of patterns that are compared by hashes
}
LONGEST_EXAMPLE = 150
ONE_NAME = re.compile(r'^ +"\w+",\n', re.MULTILINE)


class Import(NamedTuple):
    """One imported module or name, and where its import statement stands."""

    module: str
    line: int
    inside: str | None  # the innermost function around it
    for_checkers: bool

    @property
    def package(self) -> str:
        """The top-level package, such as ``numpy``."""
        return self.module.partition(".")[0]


def module_name(path: Path) -> str:
    """Return the dotted name of a file, `afx.core` for ``afx/core/__init__.py``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(module: str) -> int:
    """Return the number of the layer a module of afx belongs to."""
    house = [*module.split("."), "__init__"][1]
    return next((number for number, names in enumerate(LAYERS) if house in names), -1)


def owner(module: str) -> str:
    """Return the file that an imported dotted name lives in: a module's own, else that of its package."""
    return module if module in FILES else module.rpartition(".")[0]


def targets(node: ast.Import | ast.ImportFrom, importer: str) -> list[str]:
    """Return the dotted names that an import statement asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        is_package = FILES[importer].name == "__init__.py"
        parent = parts[: len(parts) - node.level + is_package]
        base = ".".join([*parent, *base.split(".")]).rstrip(".")
    names = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in FILES else base for name in names]


def is_type_checking(node: ast.AST) -> bool:
    """Tell whether a statement is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def walk(node: ast.AST, importer: str, inside: str | None = None, for_checkers: bool = False) -> Iterator[Import]:
    """Yield every import below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in targets(child, importer):
                yield Import(target, child.lineno, inside, for_checkers)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from walk(child, importer, child.name, for_checkers)
        else:
            yield from walk(child, importer, inside, for_checkers or is_type_checking(child))


class Contents(NamedTuple):
    """What tests ask of a file: its imports, the modules that it loads and names by texts, the number of its running tokens."""

    imports: list[Import]
    loaded: set[str]
    named: set[str]
    tokens: int


@functools.cache
def read_all() -> dict[str, Contents]:
    """Return the contents of each file: to parse them all takes seconds, of the test that first asks."""
    return {name: read_contents(name, path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def read_contents(name: str, text: str) -> Contents:
    """Return the contents of a file."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    tokens = running_tokens(text, nodes)
    return Contents(list(walk(tree, name)), modules_by_name(nodes), named_modules(nodes, name), tokens)


def find_imports() -> dict[str, list[Import]]:
    """Return the imports of each file."""
    return {name: contents.imports for name, contents in read_all().items()}


def is_lazy_loading(module: str, entry: Import) -> bool:
    """Tell whether an import belongs to the lazy loading of a package."""
    return FILES[module].name == "__init__.py" and entry.inside == "__getattr__"


def test_each_file_has_a_layer() -> None:
    """Each file of afx stands in one of the rooms of the house."""
    wrong = [module for module in FILES if layer(module) < 0]
    assert not wrong, f"in no layer: {wrong}; give their package a place in LAYERS"


def test_a_file_imports_lower_layers_only() -> None:
    """A file imports only lower layers and files of its own layer, for type checkers too."""
    wrong = [
        f"{module}, line {entry.line}: {entry.module}"
        for module in FILES
        for entry in find_imports()[module]
        if entry.package == "afx" and layer(owner(entry.module)) > layer(module)
    ]
    assert not wrong, f"imports from a higher layer: {wrong}"


def test_the_runtime_knows_nothing_of_the_compiler() -> None:
    """Threads, BLAS, memory and tuning lie below the compiler, whose `Target` holds their `Thresholds`."""
    found = {
        owner(e.module) for name, entries in find_imports().items() if name.startswith("afx.runtime.") for e in entries
    }
    assert not {name for name in found if name.startswith("afx.compiler")}


# imports that close a circle, and why: all are for type checkers alone
CIRCLES = {
    ("afx.core.array.methods", "afx.core.array.array"): "a mixin returns the Array that it is mixed into",
    ("afx.core.array.operators", "afx.core.array.array"): "a mixin returns the Array that it is mixed into",
    ("afx.core.registry", "afx.core.array.array"): "the functions that Arrays find there return Arrays",
}


def test_no_import_circle() -> None:
    """Files import each other without any circle, imports inside functions and for type checkers included."""
    graph = {
        module: {
            owner(entry.module) for entry in entries if entry.package == "afx" and not is_lazy_loading(module, entry)
        }
        - {right for left, right in CIRCLES if left == module}
        for module, entries in find_imports().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import circle: " + " imports ".join(reversed(error.args[1])))
    needless = [
        pair
        for pair in CIRCLES
        if not any(e.for_checkers and owner(e.module) == pair[1] for e in find_imports()[pair[0]])
    ]
    assert not needless, f"no longer imported: {needless}"


# modules that a function imports when it first needs them: a plain import, or a first call, does without them
LOADED_LATE = {
    "afx.compiler.native_backend.service.process": {"afx.compiler.native_backend.service.unit"},
    "afx.compiler.native_backend.run.start": {"afx.compiler.native_backend.service.build"},
    "afx.compiler.native_backend.run.swap": {
        f"afx.compiler.native_backend.{n}" for n in ("run.portable", "run.start", "service.build", "service.process")
    },
    "afx.errors": {"afx.other_names", "afx.tracebacks"},
    "afx.interop": {"afx.scipy_families"},
    "afx.transforms.compile.compiled_call": {"afx.compiler.native_backend.service.process"},
    "afx.transforms.derivatives.nan_check": {"afx.transforms.derivatives.nan_search"},
}

# modules that are loaded by a string: by a package whose names load on first use
BY_NAME = {"afx": {"afx.*"}}
# tables of names: those that load on first use, those in files, and those of other libraries
NAMES_MODULES = {
    "afx", "afx.core.numpy_names", "afx.core.name_table", "afx.core.registry", "afx.io.naming",
    "afx.migrate.command", "afx.migrate.jax",
    "afx.other_names",
}  # fmt: skip


def modules_by_name(nodes: list[ast.AST]) -> set[str]:
    """Return the modules of afx that a file loads by a string, ``*`` where part of the name is computed."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    loads = [call.args[0] for call in calls if ast.unparse(call.func).endswith(("import_module", "__import__"))]
    names = [re.sub(r"\{.*?\}", "*", ast.unparse(name).removeprefix("f").strip("'\"")) for name in loads]
    return {name for name in names if name.partition(".")[0] == "afx"}


def test_modules_loaded_by_name_are_known() -> None:
    """An import in a string hides from the tests of layers and circles: each is listed above, and no other is added."""
    assert {module: contents.loaded for module, contents in read_all().items() if contents.loaded} == BY_NAME


def named_modules(nodes: list[ast.AST], module: str) -> set[str]:
    """Return the modules of afx of which a text of a file, or its beginning, is the name: a dotted one, or a script's import."""
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    found = {name for text in texts for name in re.findall(r"^(afx(?:\.\w+)*)\.?$", text)}
    scripts = [text for text in texts if text.startswith("import ")]
    siblings = {name for text in scripts for name in re.findall(r"\b(?:import|from) (\w+)", text)}
    folder = module.rpartition(".")[0]
    names = (found | {f"{folder}.{name}" for name in siblings}) & FILES.keys()
    return {name for name in names if FILES[name].name != "__init__.py"}


def test_no_circle_hides_in_a_text() -> None:
    """What a file names by a text, such as the script of another process, it imports too, where tests of circles see it."""
    hidden = {
        module: names
        for module, contents in read_all().items()
        if module not in NAMES_MODULES
        if (names := contents.named - {owner(entry.module) for entry in contents.imports} - {module})
    }
    assert not hidden


# bounds that are no choice: what NumPy's implementations share, NumPy's own sums, and the process that runs without afx
BOUNDS = {
    "child.py": {"IDLE_SECONDS", "WATCH_SECONDS"},
    "emit.py": {"MAX_UNITS", "SECONDS"},
    "reductions.py": {"PAIRWISE_MIN_ELEMENTS"},
    "constants.py": {
        "DOT_SUM_MIN_LENGTH", "DOT_SUM_MAX_LENGTH", "DOT_SUM_MAX_ELEMENTS", "TURN_MIN_ROWS", "TURN_MAX_COLUMNS",
    },
}  # fmt: skip


def test_thresholds_of_the_compiler_stand_in_target() -> None:
    """The compiler reads its bounds from `Target`: no file of it has one of its own, but for those listed above."""
    bound = re.compile(
        r"^((?:[A-Z]+_)*(?:MIN|MAX|FEW|LEAST|MOST|SECONDS|NS|LANES|STRIP)(?:_[A-Z]+)*)(?:, [A-Z_]+)* = [0-9(]",
        re.MULTILINE,
    )
    files = [*(PACKAGE / "compiler").rglob("*.py"), PACKAGE / "core" / "constants.py"]  # whose bounds ops share
    found: dict[str, set[str]] = {}
    for path in files:
        found.setdefault(path.name, set()).update(bound.findall(path.read_text(encoding="utf-8")))
    facts = {"SINGLE_LANES", "FOLD_LANES"}
    assert {name: own - facts for name, own in found.items() if own - facts} == BOUNDS


def test_ops_import_what_they_call() -> None:
    """Ops find each other by imports, which the test of circles sees, and never through the table of functions.

    Their formulas take one function from it: the loop that ends by a condition, which stands above ops.
    """
    wrong = dict[str, int]()
    for name, path in FILES.items():
        text = path.read_text(encoding="utf-8")
        if name.startswith("afx.ops.") and "FUNCTIONS" in text:
            nodes = list(ast.walk(ast.parse(text)))
            loops = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == "while_loop"]
            allowed = {id(n.value) for n in loops}
            found = [n for n in nodes if isinstance(n, ast.Name) and n.id == "FUNCTIONS" and id(n) not in allowed]
            wrong |= {name: found[0].lineno} if found else {}
    assert not wrong, f"import the function from its file: {wrong}"


def test_imports_stand_at_the_top() -> None:
    """Only optional extras, lazy loading and what is listed as loaded late are imported inside a function."""
    wrong = [
        f"{module}, line {entry.line}: {entry.module} in {entry.inside}"
        for module in FILES
        for entry in find_imports()[module]
        if entry.inside and entry.package not in EXTRAS and not is_lazy_loading(module, entry)
        if owner(entry.module) not in LOADED_LATE.get(module, ())
    ]
    assert not wrong, f"imports hidden in functions: {wrong}"


def test_optional_packages_load_lazily() -> None:
    """At the top, a file imports NumPy, attrs and the standard library; type checkers may see more."""
    free = REQUIRED | set(sys.stdlib_module_names) | {"afx"}
    wrong = [
        f"{module}, line {entry.line}: {entry.module}"
        for module in FILES
        for entry in find_imports()[module]
        if entry.package not in free | (FOR_CHECKERS | EXTRAS if entry.for_checkers else set())
        and not (entry.inside and entry.package in EXTRAS)
    ]
    assert not wrong, f"needs more than NumPy and attrs at import: {wrong}"


def too_long(folder: Path, limit: int) -> dict[str, int]:
    """Return the Python files below a folder with more lines than a limit; those of one name in a list do not count."""
    counts = {
        str(path.relative_to(ROOT)): len(ONE_NAME.sub("", path.read_text(encoding="utf-8")).splitlines())
        for path in folder.rglob("*.py")
    }
    return {name: count for name, count in counts.items() if count > limit}


def test_files_stay_short() -> None:
    """A file of afx is a subject of at most 800 lines, an example has at most 150."""
    assert not too_long(PACKAGE, LONGEST_FILE)
    assert not too_long(ROOT / "examples", LONGEST_EXAMPLE)


def test_files_are_no_splinters() -> None:
    """A file of afx has at least 40 lines, packages' own and some public paths excepted."""
    short = {
        name
        for name, path in FILES.items()
        if path.name != "__init__.py" and len(path.read_text(encoding="utf-8").splitlines()) < SHORTEST_FILE
    }
    assert short <= SHORT


def test_folders_are_neither_flat_nor_empty() -> None:
    """A folder of afx has from 3 to 16 modules and folders; the package itself holds the rooms."""
    folders = {path.parent for path in FILES.values()} - {PACKAGE}
    counts = {
        str(folder.relative_to(ROOT)): sum(
            (entry.suffix == ".py" and entry.name != "__init__.py") or (entry / "__init__.py").exists()
            for entry in folder.iterdir()
        )
        for folder in folders
    }
    assert not {name: count for name, count in counts.items() if count not in FOLDER_MODULES}


def room(module: str) -> str:
    """Return the room a module belongs to: its folder in the package, or `afx` for single files."""
    parts = module.split(".")
    return parts[1] if (PACKAGE / parts[1 % len(parts)]).is_dir() and len(parts) > 1 else "afx"


def running_tokens(text: str, nodes: list[ast.AST]) -> int:
    """Return the number of a file's tokens that run: no docstrings, comments, blank lines or indentation."""
    bodies = [getattr(node, "body", None) for node in nodes]
    docs = {
        (body[0].lineno, body[0].col_offset)
        for body in bodies
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    }
    silent = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
        tokenize.ENDMARKER,
    }  # fmt: skip
    count, depth = 0, 0  # an f-string is one token, as before Python 3.12
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        depth -= kind in {"FSTRING_END", "TSTRING_END"}
        is_end = kind.endswith("STRING_END")
        count += depth == 0 and not is_end and token.type not in silent and token.start not in docs
        depth += kind in {"FSTRING_START", "TSTRING_START"}
    return count


def spent() -> dict[str, int]:
    """Return the tokens that run in each room."""
    found: dict[str, int] = {}
    for name, contents in read_all().items():
        found[room(name)] = found.get(room(name), 0) + contents.tokens
    return found


def test_rooms_keep_to_their_budgets() -> None:
    """What comes in is paid for by what goes: no room has more tokens that run than its budget."""
    found = spent()
    assert found.keys() == BUDGETS.keys()
    assert not {name: count for name, count in found.items() if count > BUDGETS[name]}


def test_nothing_else_stands_at_the_top_level() -> None:
    """The checkout holds the package, its examples and tests, and the project's own papers."""
    ignored = {line.strip("/\n") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    entries = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert entries - ignored <= TOP_LEVEL


def test_installed_size() -> None:
    """Installed, afx takes less than 5.69 MB, beside what Python caches of it."""
    assert (
        sum(path.stat().st_size for path in PACKAGE.rglob("*") if path.suffix != ".pyc" and path.is_file()) < 5_690_000
    )
