"""What a plain ``import afx`` does: little."""

import importlib
import subprocess
import sys

import afx


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded by a statement."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-W", "error", "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in output.split()}


def test_import_loads_numpy_and_attrs_only() -> None:
    """``import afx`` loads NumPy, attrs and the standard library, and warns of nothing."""
    loaded = modules_after("import afx") - set(sys.stdlib_module_names)
    assert loaded - modules_after("import numpy") <= {"afx", "attr", "attrs"}


def test_import_leaves_numpy_as_it_was() -> None:
    """``import afx`` changes neither NumPy's error handling nor its print options."""
    settings = "numpy.geterr(), sorted(numpy.get_printoptions().items(), key=str)"
    code = f"import numpy; before = repr(({settings})); import afx; assert repr(({settings})) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_lazy_table_names_what_exists() -> None:
    """Each name that loads on first use is where the table says, and each public name of such a module is in it."""
    for module, names in afx._LAZY.items():
        loaded = importlib.import_module(module)
        assert [name for name in names.split() if not hasattr(loaded, name)] == []
        public = [name for name in loaded.__all__ if getattr(afx, name, None) is getattr(loaded, name)]
        assert set(public) <= set(names.split())
