"""What a plain ``import afx`` does: little."""

import importlib
import pkgutil
import subprocess
import sys

import afx
from afx.core.name_table import MEMBERS
from afx.core.registry import FUNCTIONS, LAZY, find_homes
from tests.generate_names import OPS_STUB, STUB, TABLE, numpy_stubs, ops_stub, stub, table
from tests.test_names import NAMES


def modules_after(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded by a statement."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-W", "error", "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(output.split())


def packages(modules: set[str]) -> set[str]:
    """Return the top-level packages of modules."""
    return {name.partition(".")[0] for name in modules}


def test_import_loads_numpy_and_attrs_only() -> None:
    """``import afx`` loads NumPy, attrs and the standard library, and warns of nothing."""
    loaded = packages(modules_after("import afx")) - set(sys.stdlib_module_names)
    assert loaded - packages(modules_after("import numpy")) <= {"afx", "attr", "attrs"}


def test_import_leaves_alone_what_costs_time() -> None:
    """Neither attrs nor the compiler nor further transformations load before they are needed."""
    loaded = modules_after("import afx") - modules_after("import numpy, inspect")  # which NumPy 2.0 leaves to others
    own = {name for name in loaded if name.startswith("afx.")}
    assert not packages(loaded) & {"attr", "attrs", "dataclasses", "hashlib", "inspect", "logging", "re", "typing"}
    assert not {name for name in own if name.startswith(("afx.compiler", "afx.runtime"))}
    assert not own & {
        "afx.core.graph",
        "afx.core.tracing.traces",
        "afx.transforms.compile.jit",
        "afx.transforms.vmap",
    }
    assert len(own) <= 71  # each costs 0.1 ms and more


def test_families_load_what_is_asked_for() -> None:
    """An optimizer and a layer load their own modules: neither solvers nor other rules, losses and layers."""
    loaded = modules_after("from afx import nn, optim; optim.adam, nn.Linear")
    assert {"afx.optim.rules.adam", "afx.nn.linear"} <= loaded
    others = {f"afx.optim.{name}" for name in ("solvers", "wrappers", "clipping", "rules.muon", "rules.adagrad")}
    assert not loaded & (
        others | {"afx.nn.losses", "afx.nn.recurrent", "afx.nn.attention", "afx.interpolate", "afx.linalg"}
    )
    assert modules_after("import afx.nn, afx.optim") - modules_after("import afx") == {"afx.nn", "afx.optim"}


def test_no_module_of_a_family_has_the_name_of_a_member() -> None:
    """A module that is imported takes the place of its name in the package: `nn.layer` would be no function."""
    for family in MEMBERS:
        held = {m.name for m in pkgutil.iter_modules(importlib.import_module(family).__path__)}
        assert not held & find_homes(family).keys()


def test_import_leaves_numpy_as_it_was() -> None:
    """``import afx`` changes neither NumPy's error handling nor its print options."""
    settings = "numpy.geterr(), sorted(numpy.get_printoptions().items(), key=str)"
    code = f"import numpy; before = repr(({settings})); import afx; assert repr(({settings})) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_are_generated_anew() -> None:
    """The name table and the stub are those that the folders give."""
    assert TABLE.read_text(encoding="utf-8") == table(), "run python -m tests.generate_names"
    assert STUB.read_text(encoding="utf-8") == stub(), "run python -m tests.generate_names"
    assert OPS_STUB.read_text(encoding="utf-8") == ops_stub(), "run python -m tests.generate_names"
    for path, text in numpy_stubs().items():
        written = path.read_text(encoding="utf-8")
        if written.partition("\n")[0] == text.partition("\n")[0]:  # with this version of NumPy
            assert written == text, "run python -m tests.generate_names"


def test_every_name_is_where_the_table_says() -> None:
    """A lookup of any name loads its module and finds it there."""
    for name, module in LAZY.items():
        assert hasattr(importlib.import_module(module), name) or hasattr(FUNCTIONS, name)
    assert set(NAMES["afx"]) <= set(dir(afx))
