"""``python -m afx.migrate jax PATH`` rewrites programs of JAX, Optax and Equinox, which run and print the same."""

import re
from pathlib import Path

import pytest

from afx.migrate import main, migrate_source
from tests.migrate.printed import PROGRAMS, check_program

SOURCES = sorted((PROGRAMS / "jax").glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_programs_print_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs in the style of the documentation run after the command, and print JAX's numbers where keys do not draw them."""
    check_program(path, "jax", capsys)


def test_modules_are_frozen_classes() -> None:
    """``eqx.Module`` becomes a frozen attrs class, whose ``__init__`` sets its fields as frozen classes do."""
    source = (
        "import equinox as eqx\n\n\nclass A(eqx.Module):\n    w: int = eqx.field(static=True)\n\n"
        "    def __init__(self, n):\n        self.w = n\n"
    )
    rewritten = (
        "import afx\nimport afx.migrate.for_jax\nimport attrs\n\n\n@attrs.frozen\nclass A:\n"
        "    w: int = afx.migrate.for_jax.field(static=True)\n\n"
        '    def __init__(self, n):\n        object.__setattr__(self, "w", n)\n'
    )
    assert migrate_source(source, "jax") == (rewritten, [])


LEFT = {
    "import jax\njax.make_jaxpr(f)(x)": r"afx\.trace",
    "from jax import custom_vjp": r"afx\.custom_vjp\(fn, forward, backward\)",
    "import optax\no = optax.dpsgd(1.0)": r"afx\.optim",
    "import equinox as eqx\nc = eqx.nn.Conv2d(1, 2, 3, key=k)": r"a layer of afx\.nn",
    "import jax\njax.config.update('jax_enable_x64', True)": r"set_default_dtype",
}


@pytest.mark.parametrize("source", LEFT)
def test_what_is_left_is_named(source: str) -> None:
    """What has another form is printed with what to write."""
    _, remarks = migrate_source(source, "jax")
    assert len(remarks) == 1
    assert re.search(LEFT[source], remarks[0].advice)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command takes the library's name."""
    path = tmp_path / "program.py"
    path.write_text("import jax.numpy as jnp\nx = jnp.ones(2)\n", encoding="utf-8")
    assert main(["jax", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == "import afx as jnp\nx = jnp.ones(2)\n"
    assert "rewritten" in capsys.readouterr().out
