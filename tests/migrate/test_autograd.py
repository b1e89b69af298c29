"""``python -m afx.migrate autograd PATH`` rewrites programs, which run and print the same, and names what is left."""

import ast
import gc
import operator
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import afx
from afx.migrate import for_autograd, main, migrate_source
from tests.migrate.printed import PROGRAMS, check_program

PROGRAM = '''\
"""A fit."""
import autograd.numpy as np, sys
import autograd.scipy.stats.norm as norm
from autograd import grad, jacobian as jac  # derivatives
from autograd.misc.flatten import flatten
from autograd.scipy.special import (
    gammaln,
    logsumexp,
)
import autograd
import autograd as ag


def fit(x):
    if x.ndim: from autograd.scipy.signal import convolve
    y = np.linalg.norm(x) + norm.logpdf(x).sum()
    return autograd.jacobian(fit), ag.jacobian(fit), autograd.numpy.sin(y), "autograd"
'''
REWRITTEN = '''\
"""A fit."""
import afx.numpy as np
import sys
from afx.stats import norm as norm
from afx.migrate.for_autograd import grad
from afx import jacrev as jac  # derivatives
from afx.migrate.for_autograd import flatten
from afx.migrate.for_autograd import gammaln, logsumexp
import afx
import afx as ag


def fit(x):
    if x.ndim: from afx import convolve
    y = np.linalg.norm(x) + norm.logpdf(x).sum()
    return afx.jacrev(fit), ag.jacrev(fit), afx.numpy.sin(y), "autograd"
'''


def test_imports_and_names_are_rewritten() -> None:
    """Imports and dotted names become afx's; comments, texts and everything else stay."""
    found, remarks = migrate_source(PROGRAM)
    assert found == REWRITTEN
    assert remarks == []
    assert migrate_source(found) == (found, [])


SOURCES = sorted((PROGRAMS / "autograd").glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_programs_print_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs in the style of autograd's examples run after the command, and print autograd's numbers to 1e-6."""
    check_program(path, "autograd", capsys)


REPLACED = {
    "from autograd.extend import primitive": "from afx.migrate.for_autograd import primitive",
    "from autograd import make_vjp": "from afx.migrate.for_autograd import make_vjp",
    "import autograd\nh = autograd.hessian_vector_product(f)": (
        "import afx\nimport afx.migrate.for_autograd\nh = afx.migrate.for_autograd.hessian_tensor_product(f)"
    ),
    "from autograd.misc.optimizers import adam as a, sgd": "from afx.migrate.for_autograd import adam as a, sgd",
    "import autograd.misc.optimizers as o\nx = o.adam(g, x)": (
        "import afx.migrate.for_autograd as o\nx = o.adam(g, x)"
    ),
    "import autograd.numpy.random as npr\nx = npr.randn(3).T": "import numpy.random as npr\nx = npr.randn(3).T",
    "from autograd.numpy import random\nx = random.rand()": "from numpy import random\nx = random.rand()",
    "import autograd.numpy as np\nx = np.random.rand(3) + np.pi": (
        "import afx.numpy as np\nimport numpy\nx = numpy.random.rand(3) + np.pi"
    ),
    "from autograd.scipy import stats\nx = stats.norm.cdf(0)": "from afx import stats\nx = stats.norm.cdf(0)",
    "import autograd.scipy.signal\nc = autograd.scipy.signal.convolve": "import afx\nc = afx.convolve",
    "import autograd\ng = autograd.scipy.special.expit": (
        "import afx\nimport afx.migrate.for_autograd\ng = afx.migrate.for_autograd.expit"
    ),
    "from autograd.core import getval": "from afx.migrate.for_autograd import getval",
}


@pytest.mark.parametrize("source", REPLACED)
def test_names_find_what_stands_for_them(source: str) -> None:
    """Names that have autograd's own arguments are found under them, random numbers are NumPy's, imports are added."""
    assert migrate_source(source) == (REPLACED[source], [])


def test_programs_that_run_begin_with_float64() -> None:
    """A program that runs by itself sets the default dtype behind its first imports; a module does not, and once is enough."""
    module = "import autograd.numpy as np\nimport os\n\nX = np.ones(3)\n\n\ndef f(x):\n    return x\n"
    rewritten, _ = migrate_source(module)
    assert "default_dtype" not in rewritten
    rewritten, _ = migrate_source(module + "print(f(X))\n")
    assert rewritten.startswith(
        "import afx.numpy as np\nimport os\nimport afx\n\nafx.set_default_dtype(afx.float64)\n\nX = np.ones(3)\n"
    )
    assert migrate_source(rewritten) == (rewritten, [])


def test_special_functions_of_data_give_ndarrays() -> None:
    """What autograd leaves plain may be written: the values of special functions of ndarrays, and gradients."""
    assert type(for_autograd.expit(np.zeros(2))) is np.ndarray
    assert type(for_autograd.logsumexp(np.zeros(2))) is np.ndarray
    assert isinstance(for_autograd.logsumexp(afx.zeros(2)), afx.Array)
    g = for_autograd.grad(lambda x: np.sum(for_autograd.gammaln(x)))(np.array([2.0]))
    g[0] += 1.0
    assert g.tolist() == pytest.approx([1.4227843350984672])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        operator.attrgetter("nothing")(for_autograd)


def test_derivatives_of_pythons_numbers_are_float64() -> None:
    """Whatever the default dtype is, as autograd's; arrays keep theirs, and results may be written."""
    for derivative in (for_autograd.grad, for_autograd.elementwise_grad, for_autograd.deriv):
        slope = derivative(lambda x: x * np.tanh(x))(0.3)
        assert slope.dtype == np.float64
        assert slope == pytest.approx(np.tanh(0.3) + 0.3 / np.cosh(0.3) ** 2, rel=1e-14)
    slope = for_autograd.elementwise_grad(lambda x: x**2)(np.arange(3, dtype=np.float32))
    slope[0] = 1
    assert (slope.dtype, slope.tolist()) == (np.float32, [1, 2, 4])
    z = 0.3 + 0.5j
    slope = for_autograd.holomorphic_grad(lambda z: z**2 * np.exp(z))(z)
    np.testing.assert_allclose(slope, (2 * z + z**2) * np.exp(z), rtol=1e-14)


LEFT = {
    "from autograd.extend import Box": "afx.custom_vjp",
    "from autograd import make_ggnvp": "afx.vjp",
    "from autograd.tracer import Node": r"afx.trace\(fn\)",
    "import autograd.numpy as np\nnp.msort(x)": "numpy has none",
    "from autograd.nowhere import nothing": "nothing of this name",
}


@pytest.mark.parametrize("source", LEFT)
def test_what_is_left_is_named(source: str) -> None:
    """What has another form stays as it is, and its line says what to write."""
    found, remarks = migrate_source(source)
    ast.parse(found)
    assert len(remarks) == 1
    assert remarks[0].line == source.count("\n") + 1
    assert re.search(LEFT[source], remarks[0].advice)


def test_generators_that_hold_their_state_are_no_remark() -> None:
    """``np.random.RandomState`` is there."""
    assert migrate_source("import autograd.numpy as np\nr = np.random.RandomState(0)")[1] == []


def test_two_imports_in_one_line() -> None:
    """An import behind another statement stays in its line."""
    found, _ = migrate_source("x = 1; import autograd.numpy as np, sys")
    assert found == "x = 1; import afx.numpy as np; import sys"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command walks a folder, shows a diff when asked, and returns 1 where something is left."""
    good, bad, broken = (tmp_path / name for name in ("good.py", "bad.py", "broken.py"))
    good.write_text("from autograd import hessian\n", encoding="utf-8")
    assert main(["autograd", "--diff", str(tmp_path)]) == 0
    assert "+from afx import hessian" in capsys.readouterr().out
    assert good.read_text(encoding="utf-8") == "from autograd import hessian\n"
    assert main(["autograd", str(good)]) == 0
    assert good.read_text(encoding="utf-8") == "from afx import hessian\n"
    bad.write_text("from autograd import make_ggnvp\n", encoding="utf-8")
    broken.write_text("from autograd import (\n", encoding="utf-8")
    assert main(["autograd", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert f"{bad}:1: autograd.make_ggnvp: write afx.jvp" in printed
    assert f"{broken}:1: not read as Python" in printed


def test_functions_with_rules_live_as_long_as_they_are_used() -> None:
    """`fixed_point` makes one a call: nothing remembers those, nor the arrays that they hold."""
    step = for_autograd.primitive(lambda x: x**3)
    for_autograd.defvjp(step, lambda ans, x: lambda g: g * 3.0 * x**2)
    assert for_autograd.grad(step)(np.float64(2.0)) == 12.0
    alive = weakref.ref(step)
    del step
    gc.collect()
    assert alive() is None
