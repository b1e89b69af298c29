"""An operation is stated once: what still states it again below or beside it is counted here, and the counts only fall."""

import ast
import functools
import io
import re
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

from afx.core.primitive import Primitive, primitives
from afx.core.registry import PACKAGES
from tests.markdown import ROOT, blocks, run_python
from tests.test_layers import PACKAGE

DIGITS = 9  # of a number that is a coefficient, which nobody types twice by chance
LONG_NUMBER = re.compile(rf"(?:\d[._]*){{{DIGITS}}}")
TREES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
# Files below the operations name none of them by strings: what they ask of one is in its record, and what they compute with
# on their own account stands in `scalar_ops`. Names of roles (`Algebra.canonical`) are the compiler's own, and these words
# NumPy's, of what `numpy.errstate` does, which two operations are called like.
HOMONYMS = {"compiler/native_backend/run/run.py": {"call", "log"}}
# Pairs of files with the same coefficients, and how many.
TWICE: dict[tuple[str, str], int] = {
    ("compiler/native_backend/functions/elementary.py", "compiler/native_backend/functions/portable.py"): 4,
    ("compiler/native_backend/functions/pairs.py", "compiler/native_backend/lowering/products.py"): 1,
    ("compiler/native_backend/functions/portable.py", "compiler/native_backend/standalone/fourier_loops.py"): 1,
    ("compiler/native_backend/functions/portable.py", "integrate/methods.py"): 1,
}
# Statements of what operations compute: implementations, native forms, formulas, and names in tables of compiler and exports.
STATEMENTS = 829


def operations() -> dict[str, Primitive]:
    """Return the primitives that are not roles of the compiler's, by name."""
    roles = {p.algebra.canonical for p in primitives()}
    return {p.name: p for p in primitives() if p.name not in roles and p.impl.__module__.startswith(PACKAGES)}


@functools.cache
def strings_of(path: Path) -> set[str]:
    """Return the strings of a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    homes = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef) and n.body]
    docs = {id(n.body[0].value) for n in homes if isinstance(n.body[0], ast.Expr)}
    constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs]
    return {n.value for n in constants if isinstance(n.value, str)}


def test_the_compiler_names_no_operation() -> None:
    """Passes read an operation's record."""
    names = operations().keys()
    found = {file: strings_of(path) & names for file, path in TREES.items() if file.startswith("compiler/")}
    assert {file: own for file, own in found.items() if own} == HOMONYMS


def test_operations_have_fewer_statements() -> None:
    """What an operation computes is stated in its record, and again in ever fewer tables."""
    named = operations()
    texts = [strings_of(path) for file, path in TREES.items() if file.startswith(("compiler/", "export/"))]
    lists = [{word for text in own if {*text.split()} <= named.keys() for word in text.split()} for own in texts]
    tables = [own & named.keys() | words for own, words in zip(texts, lists, strict=True)]  # names, and texts of names
    forms = [form for p in named.values() for form in (p.lowering.native, p.lowering.formula, p.lowering.parts)]
    own = sum(form is not None for form in forms)
    assert len(named) + own + sum(map(len, tables)) == STATEMENTS


def test_coefficients_stand_once() -> None:
    """A number of nine digits stands in one file."""
    homes = defaultdict[str, set[str]](set)
    for file, path in TREES.items():
        text = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline) if LONG_NUMBER.search(text) else ():
            is_decimal = token.type == tokenize.NUMBER and re.match(r"[\d._]+(e|$)", token.string.lower())
            digits = re.sub(r"[eE].*|[._]", "", token.string).strip("0") if is_decimal else ""
            if len(digits) >= DIGITS and not token.string.isdecimal():
                homes[digits].add(file)
    assert Counter(tuple(sorted(files)) for files in homes.values() if len(files) > 1) == TWICE


# -- the guide's operation --
ROADS = """
from afx import export

x = np.linspace(-2.0, 2.0, 7)
text = {}
exec(export.to_numpy(cubic_sigmoid, x), text)
formula = export.to_sympy(cubic_sigmoid, 1.0)
export.to_stablehlo(cubic_sigmoid, x)  # its text is refused where anything has no form
results = {
    "jit": afx.jit(cubic_sigmoid)(x),
    "native": afx.jit(cubic_sigmoid, backend="native")(x),
    "portable": afx.jit(cubic_sigmoid, backend="portable")(x),
    "compile": export.compile(cubic_sigmoid, x)(x),
    "compile portable": export.compile(cubic_sigmoid, x, bits="portable")(x),
    "to_numpy": text["cubic_sigmoid"](x),
    "to_onnx": export.from_onnx(export.to_onnx(cubic_sigmoid, x))(x),
    "to_sympy": [float(formula.subs(dict.fromkeys(formula.free_symbols, number))) for number in x],
}
for road, result in results.items():
    np.testing.assert_allclose(result, x / (1 + np.abs(x) ** 3), rtol=1e-14, err_msg=road)
print(len(results))
"""


def test_an_operation_of_the_guide_goes_every_road(tmp_path: Path) -> None:
    """An operation written as the guide says is compiled, portable and exported in every form, with eager's numbers."""
    text = (ROOT / "examples" / "guides" / "contributing.md").read_text(encoding="utf-8")
    block = next(block for _, block in blocks(text, "python") if "cubic_sigmoid_p = " in block)
    result = run_python(f"```python\n{block}{ROADS}```\n", tmp_path / "roads.py")
    assert (result.stdout, result.stderr) == ("8\n", "")
