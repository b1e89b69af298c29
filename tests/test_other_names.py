"""Names of other libraries lead to afx's own, wherever they are typed."""

import importlib
import re
import subprocess
import sys

import pytest

import afx
from afx.other_names import OTHER_NAMES
from tests.markdown import ROOT, can_be_had

TYPED = [
    ("afx", "block_until_ready", "a call returns when"),
    ("afx", "lax", "afx.scan"),
    ("afx", "make_jaxpr", "afx.trace"),
    ("afx", "solve_ivp", "afx.integrate.odeint"),
    ("afx", "tree_map", "afx.pytree.map"),
    ("afx.data", "DataLoader", "afx.data.batches"),
    ("afx.data", "train_test_split", "afx.data.split"),
    ("afx.linalg", "null_space", "afx.linalg.svd"),
    ("afx.nn", "Conv2d", "afx.nn.Conv.create(key, (3, 3)"),
    ("afx.nn", "CrossEntropyLoss", "afx.nn.softmax_cross_entropy"),
    ("afx.optim", "SGD", "afx.optim.sgd"),
    ("afx.optim", "apply_updates", "optimizer.step(params, grads, state)"),
    ("afx.optim", "cosine_decay_schedule", "afx.optim.cosine_decay"),
    ("afx.random", "PRNGKey", "afx.random.key(seed)"),
    ("afx.stats", "lognormal", "afx.stats.lognorm"),
]


@pytest.mark.parametrize(("module", "name", "call"), TYPED)
def test_a_name_of_another_library_leads_to_ours(module: str, name: str, call: str) -> None:
    """The error about a missing name shows the call that stands for it."""
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}'; write ") as found:
        getattr(importlib.import_module(module), name)
    assert call in str(found.value)


def test_an_import_of_such_a_name_is_told_too() -> None:
    """``from afx.random import PRNGKey`` keeps the advice, which Python itself would swallow."""
    code = "from afx.random import PRNGKey"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "ImportError: cannot import name 'PRNGKey' from 'afx.random'; write afx.random.key(seed)" in run.stderr


@pytest.mark.parametrize("module", OTHER_NAMES)
def test_unknown_names_stay_plain(module: str) -> None:
    """A name that nobody knows gets no advice but Python's, and ``hasattr`` stays False."""
    package = importlib.import_module(module)
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'nobody_knows'$"):
        package.nobody_knows  # noqa: B018 - the access itself is tested
    assert not hasattr(package, "__wrapped__")


@pytest.mark.parametrize("module", OTHER_NAMES)
def test_each_call_that_is_shown_exists(module: str) -> None:
    """The advice names what is there, for names that afx itself does not have."""
    own = importlib.import_module(module).__all__
    for name, advice in OTHER_NAMES[module].items():
        assert name not in own
        assert [path for path in re.findall(r"afx(?:\.[A-Za-z]\w*)+", advice) if not can_be_had(path)] == []


def test_names_of_the_guides_are_answered() -> None:
    """Each function that a guide's table names is afx's own or is answered where a user would type it."""
    answered = {name for names in OTHER_NAMES.values() for name in names}
    own = {name for module in ["afx", *OTHER_NAMES] for name in importlib.import_module(module).__all__}
    for guide in ("from_jax", "from_pytorch", "from_autograd"):
        text = (ROOT / "examples" / "guides" / f"{guide}.md").read_text(encoding="utf-8")
        text = re.sub(r"(?s)## Every name of jax\.scipy.*?(?=\n## )", "", text)  # has a test of its own
        cells = re.findall(r"^\| (`[^|]*) \|", text, flags=re.MULTILINE)
        quoted = re.findall(r"`(?:jax|eqx|optax|torch|autograd|nn)\.(?:[a-z]+\.)*(\w+)[`(]", " ".join(cells))
        assert {name for name in quoted if name not in answered | own} == set()
    assert not hasattr(afx, "PRNGKey")
