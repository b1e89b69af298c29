"""``python -m afx.migrate autograd PATH`` rewrites imports and names what is left."""

import ast
import re
from pathlib import Path

import pytest

from afx.migrate import main, migrate_source

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
from afx import grad, jacrev as jac  # derivatives
from afx.pytree import ravel as flatten
from afx.special import gammaln
from afx import logsumexp
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


LEFT = {
    "from autograd.extend import primitive": "afx.custom_vjp",
    "from autograd import make_vjp": r"afx.vjp\(fn",
    "import autograd\nautograd.hessian_vector_product(f)": r"afx.hvp\(",
    "from autograd.misc.optimizers import adam": "afx.optim.adam",
    "import autograd.numpy.random as npr\nnpr.randn(3)": r"afx.random.normal\(key",
    "import autograd.numpy as np\nnp.random.seed(0)": "afx.random.key",
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
    good.write_text("from autograd import grad\n", encoding="utf-8")
    assert main(["autograd", "--diff", str(tmp_path)]) == 0
    assert "+from afx import grad" in capsys.readouterr().out
    assert good.read_text(encoding="utf-8") == "from autograd import grad\n"
    assert main(["autograd", str(good)]) == 0
    assert good.read_text(encoding="utf-8") == "from afx import grad\n"
    bad.write_text("from autograd import make_jvp\n", encoding="utf-8")
    broken.write_text("from autograd import (\n", encoding="utf-8")
    assert main(["autograd", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert f"{bad}:1: autograd.make_jvp: write afx.jvp(" in printed
    assert f"{broken}:1: not read as Python" in printed
