"""Lower bounds: the core of the suite with the oldest NumPy, SciPy, attrs and typing-extensions that are promised.

``python -m tests.lower_bounds`` makes an environment of the first releases that ``pyproject.toml`` names, beside the one
it runs in, and needs nothing but Python itself.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = (
    "tests/core",
    "tests/pytree",
    "tests/random",
    "tests/transforms/derivatives/test_grad.py",
    "tests/transforms/compile/test_jit.py",
    "tests/transforms/test_nesting.py",
    "tests/transforms/test_errors.py",
    "tests/ops/creation",
    "tests/ops/indexing",
    "tests/ops/manipulation",
    "tests/ops/reductions",
    "tests/ops/sorting",
    "tests/ops/special/test_special.py",
    "tests/ops/test_python_numbers.py",
    "tests/ops/test_rearranging.py",
    "tests/train",
    "tests/test_import.py",
    "tests/test_names.py",
)
BEYOND = (
    "tests/core/test_other_libraries.py",
    "tests/core/test_numpy_names.py",
    "tests/core/test_pickling.py",
    "tests/core/test_array_api.py",
)
EXTRAS = ("progress", "scipy", "threads")
TOOLS = ("pytest", "pytest-xdist", "hypothesis")


def find_bounds(project: str) -> list[str]:
    """Return the oldest releases of what the library and some extras need, as pip reads them."""
    table = tomllib.loads(project)["project"]
    extras = table["optional-dependencies"]
    needed = [*table["dependencies"], *[one for extra in EXTRAS for one in extras[extra]]]
    pairs = [re.fullmatch(r"([\w-]+)>=([\d.]+)", one) for one in needed]
    return [f"{pair[1]}=={pair[2]}.*" for pair in pairs if pair]


def main() -> int:
    """Install the bounds, run the core with them, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        bounds = find_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        print("lower bounds:", *bounds, flush=True)  # noqa: T201  # what it is for
        subprocess.run([python, "-m", "pip", "install", "-q", *bounds, *TOOLS], check=True)
        ignored = [f"--ignore={path}" for path in BEYOND]
        run = [python, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", *ignored, *CORE]
        return subprocess.run(run, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
