"""``python -m afx.migrate jax PATH`` rewrites programs of JAX, Optax and Equinox, which run and print the same."""

import dataclasses
import re
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import errors
from afx.migrate import for_equinox, for_jax, for_lax, for_trees, main, migrate_source
from tests.markdown import ROOT, blocks
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
        "import afx.migrate.for_equinox as eqx\nimport attrs\n\n\n@attrs.frozen\nclass A:\n"
        "    w: int = eqx.field(static=True)\n\n"
        '    def __init__(self, n):\n        object.__setattr__(self, "w", n)\n'
    )
    assert migrate_source(source, "jax") == (rewritten, [])


def run_rewritten(source: str, *names: str) -> dict[str, Any]:
    """Return what a program defines once it is rewritten, with a remark on each of these names and no other."""
    rewritten, remarks = migrate_source(source, "jax")
    assert [remark.name for remark in remarks] == [*names]
    found: dict[str, Any] = {}
    exec(rewritten, found)
    return found


def test_fields_are_set_however_they_are_assigned() -> None:
    """Values in parentheses, annotated ones, one for several fields, and several at once."""
    source = (
        "import equinox as eqx\nclass A(eqx.Module):\n    a: int\n    b: int\n    c: int\n    d: tuple\n    e: tuple\n"
        "    f: int\n    def __init__(self, n):\n        self.a = (\n            n\n            + 1\n        )\n"
        "        self.b, self.c = n, n + 2\n        self.d = self.e = n, n\n        self.f: int=(n == 3)\n"
    )
    found = run_rewritten(source)
    assert attrs.astuple(found["A"](3)) == (4, 3, 5, (3, 3), (3, 3), True)


IN_PARENTHESES = [
    "(x @ x.T).block_until_ready()",
    "(x\n @ x.T\n).block_until_ready()",
    "(x + 1).at[0, 7].set(3.0, mode='drop')",
    "(jax.jit(lambda a: a + 1)).lower(x).compile()(x)",
    "jnp.dot(x, (x.T + 1), precision='highest')",
    "jnp.dot(x, precision=(None), b=x.T)",
    "types.SimpleNamespace(x=x[0]).x[jnp.round((x[0])).astype(int)]",
]


@pytest.mark.parametrize("expression", IN_PARENTHESES)
def test_operands_may_stand_in_parentheses(expression: str) -> None:
    """What is written around and behind them leaves these whole."""
    jax: Any = pytest.importorskip("jax", reason="the reference is JAX's")
    source = (
        f"import types\nimport jax, jax.numpy as jnp\nx = jnp.arange(6.0).reshape(2, 3)\ny = x[0]\nz = ({expression})\n"
    )
    ours, theirs = dict[str, Any](), dict[str, Any]()
    exec(migrate_source(source, "jax")[0], ours)
    exec(source, theirs)
    np.testing.assert_allclose(np.asarray(ours["z"]), np.asarray(jax.device_get(theirs["z"])))


CALLS = [
    "jax.tree.broadcast((1, 2), ((x, 0), [0, None]))[1][0] + x",
    "jax.tree_util.tree_broadcast((1, 2), ((x, 0), [0, None]))[0][0] + x",
    "jnp.fill_diagonal(x, 7.0, inplace=False) + jnp.fill_diagonal(x, jnp.array([[8.0, 9.0]]), inplace=False)",
    "jax.nn.logsumexp(x, axis=1, where=x > 1)",
    "jax.scipy.special.logsumexp(x, 0, where=x > 0, b=x + 7, keepdims=True)",
    "jnp.stack(jet.jet(lambda a, b: jnp.sin(a) * b, (x, x.T[:2, :2].sum()), ((x, x + 1), (2.0, 0.0)))[1])",
    "seen if jax.debug.callback(seen.append, x[1], ordered=True) else jnp.stack(seen)",
    "ruled(x.sum())",
    "jax.jit(lambda x: at_once(x))(x)",
    "jnp.zeros(2) if hasattr(jax, 'nothing') else x",
    "jax.scipy.linalg.sqrtm(x.T[:2] @ x[:, :2]).real",
]
BEFORE = """import jax, jax.numpy as jnp
from jax.experimental import jet
seen, x = [], jnp.arange(6.0).reshape(2, 3)
ruled = jax.custom_jvp(lambda x: x**2)
ruled.defjvp(lambda x, t: (ruled(x[0]), t[0]), symbolic_zeros=False)
fast = jax.custom_vjp(lambda x: x**2)
fast.defvjp(lambda x: (fast(x), x), lambda x, g: (g * x,), optimize_remat=True)
def at_once(x):
    with jax.ensure_compile_time_eval():
        n = jnp.ones(3).sum()
    return x * n * jax.grad(fast)(2.0)
"""


@pytest.mark.parametrize("expression", CALLS)
def test_calls_have_jaxs_values(expression: str) -> None:
    """Functions and keywords that afx has under other names, or has no need of."""
    jax: Any = pytest.importorskip("jax", reason="the reference is JAX's")
    source = f"{BEFORE}z = {expression}\n"
    rewritten, remarks = migrate_source(source, "jax")
    assert [remark.advice for remark in remarks] == ["afx has no such name"] * ("hasattr" in expression)
    ours, theirs = dict[str, Any](), dict[str, Any]()
    exec(rewritten, ours)
    exec(source, theirs)
    np.testing.assert_allclose(np.asarray(ours["z"]), np.asarray(jax.device_get(theirs["z"])), rtol=1e-6, atol=1e-6)


LEFT = {
    "import jax.random as jr\nk = jr.split(jr.key(0))\nx, y = jr.normal(k[0]), jr.gamma(k[1], 2.0)": r"other numbers than",
    "import jax, flax.linen as nn\nv = nn.Dense(3).init(jax.random.key(0), x)": r"other numbers than",
    "from jax.random import PRNGKey, normal\nx = normal(PRNGKey(0), (3,))": r"other numbers than",
    "import jax.numpy as jnp\nn = jnp.linalg.matrix_rank(a, rtol=1e-2)": r"relative to the largest",
    "import jax\njax.make_jaxpr(f)(x)": r"a Graph of afx's equations",
    "import jax.numpy as jnp\njnp.sum(x, promote_integers=False)": r"afx's has no promote_integers; its arguments are x, axis",
    "import jax\ndef f(i, x):\n return x[:, 2 * i] + x[3] + x[i] + x[i - 1]": r"past the end raises IndexRangeError",
    "import equinox as e\nclass M(e.Module):\n def __init__(self):\n  self.a, self.b[0] = 1, 2": r"one field a line: self\.a",
    "from jax import lax\nlax.all_to_all(x, 'i', 0, 0)": r"outside of afx\.vmap",
    "import os\nos.environ['JAX_ENABLE_X64'] = '1'\nimport jax": r"config\.update\(.jax_enable_x64., True\)",
    "import optax\no = optax.adafactor(0.1)": r"those of float32",
    "from jax.scipy.special import betaln\ny = betaln(a, b)": r"JAX's is off by some 1e-7",
    "import lineax as lx\ns = lx.QR()": r"afx has nothing of this name",
    "import diffrax\ns = diffrax.Euler()": r"between steps a cubic",
    "import jax.scipy.linalg as jsl\nx = jsl.inv(a, True)": r"afx's takes 1 by place",
    "from jax.experimental import sparse\nm = sparse.BCSR.fromdense(x)": r"afx\.sparse\.Csr\.from_entries",
    "import jaxopt\ns = jaxopt.BlockCoordinateDescent(f)": r"afx has nothing of this name|has no attribute",
    "from jax.experimental import io_callback": r"jax\.pure_callback",
    "import optax\nif hasattr(optax, 'privacy'):\n    f()": r"afx has no such name",
    "from jax import random\nk = random.split(k, (2, 3))": r"two numbers each",
    "import optax\no = optax.dpsgd(1.0)": r"afx\.optim",
    'import equinox as eqx\nc = eqx.nn.WeightNorm(a, "weight")': r"a layer of afx\.nn",
    "import jax.numpy as jnp\ncounts, edges = jnp.histogram(x, 5)": r"on the edge of two bins",
    "import jax\njax.sharding.use_mesh(m)": r"there is one device",
    "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=8'\nimport jax": r"there is one device",
    "from jax import lax\nlax.psum(x, 'i', axis_index_groups=groups)": r"no axis_index_groups; its arguments are x, axis_name",
    "import jax\nimport jax.numpy as jnp\njax.config.update('jax_enable_x64', 1)\nx = jnp.int8, jnp.uint8, y / 3": (
        "float32 under x64"
    ),
}


def test_a_repeated_tuple_is_a_place() -> None:
    """And no sum of arguments that may be past the end."""
    _, remarks = migrate_source("import jax\ndef f(n, x):\n    return x.at[(0,) * n].set(1.0)\n", "jax")
    assert remarks == []


@pytest.mark.parametrize("source", LEFT)
def test_what_is_left_is_named(source: str) -> None:
    """What has another form is printed with what to write."""
    _, remarks = migrate_source(source, "jax")
    assert len(remarks) == 1
    assert re.search(LEFT[source], remarks[0].advice)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("i = x.astype(jnp.int32)\nz = y[i] / 2", 1),
        ("i = x.astype(jnp.int32)\nz = y[0] / 2", 0),
        ("s = s._replace(n=jnp.zeros(3, jnp.int32))\nz = s.n / 2", 1),
        ("i = (x.astype(jnp.int32) / 2).sum()", 1),
        ("def f(x):\n    i = x.astype(jnp.int32)\n    return i\nz = f(x) / 2", 1),
        ("i = x.astype(jnp.int32)\nz = i.mean()", 1),
        ("i = x.astype(jnp.int32)\nz = i // 2", 0),
        ("kind = jnp.int32\nz = x.astype(kind) / 2", 1),
    ],
)
def test_small_integers_are_told_where_they_may_be_divided(lines: str, count: int) -> None:
    """Their quotients and means are float32 under x64; places are not divided."""
    head = "import jax\nimport jax.numpy as jnp\njax.config.update('jax_enable_x64', True)\n"
    assert len(migrate_source(f"{head}{lines}\n", "jax")[1]) == count


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command takes the library's name."""
    path = tmp_path / "program.py"
    path.write_text("import jax.numpy as jnp\nx = jnp.ones(2)\n", encoding="utf-8")
    assert main(["jax", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == "import afx as jnp\nx = jnp.ones(2)\n"
    assert "rewritten" in capsys.readouterr().out


def test_imports_of_what_is_left_stay() -> None:
    """A name that is left has its module in its own line, which goes when that is edited."""
    source = "import jax\nimport jax.numpy as jnp\nprint(jax.typeof(jnp.sin)(x), jax.grad(jnp.sin)(1.0))\n"
    rewritten, remarks = migrate_source(source, "jax")
    assert rewritten.splitlines()[:2] == ["import afx", "import afx as jnp"]
    assert rewritten.splitlines()[-1] == "import jax; print(jax.typeof(jnp.sin)(x), afx.grad(jnp.sin)(1.0))"
    assert [r.line for r in remarks] == [3]
    rewritten, _ = migrate_source("from jax import random\nx = random.normal(k)\ny = random.key_impl(k)\n", "jax")
    assert "import jax.random as random; y =" in rewritten
    source = "import jax\n\n\n@jax.typeof\ndef f(x):\n    return jax.grad(jax.typeof)(x)\n"
    assert migrate_source(source, "jax")[0] == (
        "import afx\n\n\nimport jax\n@jax.typeof\ndef f(x):\n    import jax; return afx.grad(jax.typeof)(x)\n"
    )


def test_blocks_of_double_precision() -> None:
    """NumPy's data keep their dtype in them, in a program of single precision, and lose it again behind."""
    for_jax.config.update("jax_enable_x64", False)
    data = np.arange(2.0)
    with for_jax.enable_x64():
        assert (afx.asarray(data) * 0.5).dtype == (afx.asarray(0.5) * data).dtype == np.float64
        with for_jax.enable_x64(False):
            assert afx.sin(data).dtype == np.float32
        assert afx.sin(data).dtype == np.float64
    assert afx.sin(data).dtype == afx.asarray(data).dtype == np.float32


def test_a_program_may_begin_otherwise() -> None:
    """With a statement, or a decorated function, before its first import: what is needed comes before it."""
    for start in ("x = 1\n", "@print\ndef f():\n    pass\n"):
        rewritten, _ = migrate_source(f"{start}import jax\ny = jax.ShapeDtypeStruct((), float)\n", "jax")
        assert rewritten.startswith(f"import afx.migrate.for_jax\n{start}import afx\n")


OLD = """
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.tree_util import tree_flatten, tree_multimap, tree_reduce, tree_unflatten

tree = [[1, 2], {"b": 4.5, "a": True}]
vector, unravel = ravel_pytree(tree)
back = unravel(vector * 2)
leaves, structure = tree_flatten(tree)
moved = tree_unflatten(structure, map(lambda x: x + 1, leaves))
total = tree_reduce(lambda a, b: a + b, tree, initializer=10)
sums = tree_multimap(lambda a, b: a + b, [1, 2], [3, 4])
old = jax.tree_leaves(tree), jnp.alltrue(jnp.array([True])), jnp.in1d(jnp.array([1]), jnp.array([2]))
double = jax.jit(lambda x: 2 * x, backend="cpu", device=None)
jaxpr = jax.make_jaxpr(lambda n, x: jnp.sin(x) ** n, static_argnums=0)(3, 2.0)
names = [eqn.primitive.name for eqn in jaxpr.jaxpr.eqns][:1]
last = jnp.arange(5)[10]
caught = []
for kind in (TypeError, (ValueError, TypeError)):
    try:
        jnp.dot(jnp.ones((2, 3)), jnp.ones((2, 3)))
    except TypeError:
        caught.append(1)
try:
    jnp.dot(jnp.ones((2, 3)), jnp.ones((2, 3)))
except (KeyError, TypeError) as error:
    caught.append(2)
"""


def test_what_tutorials_write() -> None:
    """Trees of numbers, names that JAX had, places of machines, graphs, and errors that are caught, as JAX has them."""
    found = run_rewritten(OLD, "jax.make_jaxpr")
    np.testing.assert_array_equal(found["vector"], [1, 2, True, 4.5])
    assert [x.dtype.kind for x in afx.pytree.leaves(found["back"])] == ["i", "i", "b", "f"]
    assert found["moved"] == [[2, 3], {"a": 2, "b": 5.5}]
    assert found["sums"] == [4, 6]
    assert [found["total"], found["double"](3.0), found["last"], found["names"]] == [18.5, 6.0, 4, ["sin"]]
    assert found["caught"] == [1, 1, 2]
    assert [len(found["old"][0]), found["old"][1], found["old"][2][0]] == [4, True, False]
    assert str(found["jaxpr"]).startswith("graph(")
    assert migrate_source("try:\n    f()\nexcept TypeError:\n    pass\n", "jax")[1] == []
    assert "afx" not in migrate_source("try:\n    f()\nexcept TypeError:\n    pass\n", "jax")[0]


def test_keywords_of_partial_calls_are_those_of_the_calls() -> None:
    """``partial(jax.jit, …)`` has afx's keywords, without those that change no number, and remarks on others."""
    source = (
        "from functools import partial\nimport jax\nimport jax.numpy as jnp\n\n\n"
        "@partial(jax.jit, static_argnums=0, donate_argnames='x', inline=True)\ndef f(n, x):\n    return n * x\n\n\n"
        "@partial(jax.named_call, name='g')\ndef g(x):\n    return x + 1\n\n\n"
        "total = partial(jnp.sum, axis=0, promote_integers=False)\nby_twos = partial(jax.lax.map, f, batch_size=2)\n"
    )
    rewritten, remarks = migrate_source(source, "jax")
    assert "@partial(afx.jit, static_argnums=0)" in rewritten
    assert "partial(afx.map, f, block=2)" in rewritten
    assert [(r.line, r.name) for r in remarks] == [(16, "jnp.sum(promote_integers=)")]
    found: dict[str, Any] = {}
    exec(rewritten, found)
    assert [found["f"](2, 3.0), found["g"](1)] == [6.0, 2]


def test_chex_checks_values_and_makes_dataclasses() -> None:
    """Its dataclasses are trees, its types afx's, and what it asserts raises where it does not hold."""
    source = (
        "import chex\nimport jax\nimport jax.numpy as jnp\n\n\n@chex.dataclass(frozen=True)\nclass Model:\n"
        "    w: chex.Array\n    n: chex.Numeric = 2\n\n\ndef f(m: Model) -> chex.Scalar:\n    return m.n * m.w.sum()\n\n\n"
        "g = jax.grad(f)(Model(w=jnp.ones((3, 2)), n=2.0)).replace(n=0.0)\n"
    )
    found = run_rewritten(source)
    g, chex = found["g"], found["chex"]
    chex.assert_trees_all_equal({"a": g.w}, {"a": np.full((3, 2), 2.0)})
    chex.assert_trees_all_close(g, g, g)
    chex.assert_shape([g.w, g.w], (3, 2))
    chex.assert_shape([g.w, 1.0], [(None, 2), ()])
    chex.assert_shape(np.ones((4, 3, 2)), (4, ..., 2))
    chex.assert_rank([g.w, np.ones(2)], {1, 2})
    chex.assert_type([g.w, 1], [float, int])
    chex.assert_equal_shape([g.w, g.w])
    chex.assert_scalar(1.0)
    chex.assert_equal(1, 1)
    chex.assert_axis_dimension(g.w, 1, 2)
    chex.assert_tree_all_finite(g)
    chex.assert_trees_all_equal_shapes(g, g)
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("assert_shape", (g.w, (3, 3))),
        ("assert_shape", (g.w, (3, ..., 2, 2))),
        ("assert_rank", (g.w, 1)),
        ("assert_rank", ([g.w, 1.0], [2, 1])),
        ("assert_type", (g.w, int)),
        ("assert_type", (g.w, np.int8)),
        ("assert_equal_shape", ([g.w, g.w[0]],)),
        ("assert_scalar", (g.w,)),
        ("assert_equal", (1, 2)),
        ("assert_axis_dimension", (g.w, 0, 2)),
        ("assert_tree_all_finite", ([np.inf],)),
        ("assert_trees_all_equal_structs", (g, [1])),
        ("assert_trees_all_equal_shapes", ([np.ones(2)], [np.ones(3)])),
        ("assert_trees_all_close", ([1.0], [1.1])),
        ("assert_trees_all_equal", ([1.0], [1.0 + 1e-9])),
    ]
    for name, args in wrong:
        with pytest.raises(AssertionError):
            getattr(chex, name)(*args)


def test_axes_have_names_where_they_are_given() -> None:
    """``vmap`` is afx's own unless its axis has a name; meshes of devices come down to the processor."""
    source = (
        "import functools\nimport jax\nfrom jax import lax, vmap\nfrom jax.sharding import PartitionSpec as P\n\n"
        "mesh = jax.make_mesh((1,), ('x',))\nf = jax.vmap(abs)\n"
        "g = vmap(lambda x: x - lax.pmean(x, 'i'), in_axes=1, axis_name='i')\n"
        "h = jax.pmap(lambda x: lax.psum(x, 'i'), axis_name='i')\n"
        "@functools.partial(jax.vmap, axis_name='i')\ndef k(x):\n    return lax.axis_index('i')\n"
        "with mesh:\n    y = jax.lax.with_sharding_constraint(jax.device_put(g(jax.numpy.eye(2)), P('x')), P())\n"
    )
    rewritten, remarks = migrate_source(source, "jax")
    assert remarks == []
    assert "f = afx.vmap(abs)" in rewritten
    names: dict[str, Any] = {}
    exec(rewritten, names)
    np.testing.assert_array_equal(names["y"], [[0.5, -0.5], [-0.5, 0.5]])
    np.testing.assert_array_equal(names["h"](np.eye(2)), np.ones((2, 2)))
    np.testing.assert_array_equal(names["k"](np.eye(2)), [0, 1])


def test_imports_that_nothing_uses_go() -> None:
    """What is left and never read is not imported; its line is still named."""
    source = "import optax\nfrom optax._src import base\nimport jax.experimental.pallas as pl\nprint(optax.adam(1.0))\n"
    rewritten, remarks = migrate_source(source, "jax")
    lines = rewritten.splitlines()
    assert (lines[:2], lines[-1]) == (["import afx.migrate.for_optax as optax", "import afx"], "print(optax.adam(1.0))")
    assert [remark.line for remark in remarks] == [2, 3]


SINGLE = """
import jax, numpy as np
import jax.numpy as jnp
i, f, m = jnp.arange(1, 4), jnp.array(np.array([0.5, 1.5, 2.5])), jnp.ones((3, 3))
results = [
    i * f, f + np.arange(3), f * np.float64(2), np.ones(3) * f, f**i, i / f, jnp.where(i > 1, i, f), jnp.maximum(i, f), m @ i,
    jnp.einsum("ij,j->i", m, i), jnp.concatenate([i, f]), jnp.hypot(i, f), jnp.sin(np.ones(2)), jnp.polyval(i, f), i / 2,
    jax.jit(lambda x: x * i)(np.ones(3)), jax.grad(lambda x: (x * i).sum())(np.ones(3)), jnp.asarray([np.float64(1), 2.0]),
    jax.lax.scan(lambda c, x: (c + x, c), jnp.zeros(()), np.ones(3))[0], f.astype(float), jnp.zeros(2, dtype=float),
    jax.vmap(lambda a, b: a * b)(i, f), jnp.mean(i), jnp.arange(3) * 0.5, np.float64(2) + jnp.linspace(0, 1, 3),
]
count = jax.lax.fori_loop(0, 3, lambda n, c: c + jnp.arange(3)[n], jnp.int32(1))
print(f"{f[0] / 3} {jnp.float32(0.1):.3f}", count)
"""


def test_programs_are_in_float32_unless_they_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    """As in JAX without ``jax_enable_x64``: NumPy's data of float64, too, and integers beside floats."""
    rewritten, remarks = migrate_source(SINGLE, "jax")
    names: dict[str, Any] = {}
    default = afx.get_default_dtype()
    try:
        exec(rewritten, names)
    finally:
        afx.set_default_dtype(default)
    assert (remarks, {x.dtype for x in names["results"]}) == ([], {np.dtype("float32")})
    assert capsys.readouterr().out == "0.1666666716337204 0.100 4\n"
    assert (afx.asarray(np.ones(2)).dtype, (afx.arange(2) * afx.ones(2)).dtype) == (np.float64, np.float64)


def test_einops_takes_arrays() -> None:
    """Its functions of the array API know afx's Arrays, traced ones too."""
    source = "import einops\nfrom einops import repeat\ny = einops.rearrange(x, 'a -> 1 a')\n"
    rewritten = (
        "import einops.array_api\nfrom einops.array_api import repeat\ny = einops.array_api.rearrange(x, 'a -> 1 a')\n"
    )
    assert migrate_source(source, "jax") == (rewritten, [])
    with pytest.MonkeyPatch.context() as patch:  # and where it is not installed
        patch.setitem(sys.modules, "einops", None)
        assert migrate_source(source, "jax") == (rewritten, [])


def test_a_library_of_one_module_is_imported_once() -> None:
    """Optax's names are those of one module of the tool, under its name or another one."""
    rewritten, _ = migrate_source("import optax as ox, jax as j\no = ox.adam(0.1), j.grad(f), j.device_get(x)\n", "jax")
    assert rewritten.splitlines()[-1] == "o = ox.adam(0.1), j.grad(f), afx.migrate.for_jax.device_get(x)"
    rewritten, remarks = migrate_source("import optax\no = optax.adam(0.1)\n", "jax")
    assert (rewritten, remarks) == ("import afx.migrate.for_optax as optax\no = optax.adam(0.1)\n", [])


def test_layers_have_equinoxs_weights() -> None:
    """Weights are [outputs, inputs], uniform up to one over the root of the inputs; sizes may be "scalar"."""
    key = afx.random.key(0)
    net = for_equinox.MLP("scalar", "scalar", 16, 2, afx.tanh, afx.exp, use_final_bias=False, key=key)
    assert [layer.weight.shape for layer in net.layers] == [(16, 1), (16, 16), (1, 16)]
    assert net.layers[2].bias is None
    assert float(abs(net.layers[1].weight).max()) <= 0.25
    first, second, last = net.layers
    hidden = afx.tanh(second.weight @ afx.tanh(first.weight @ afx.ones(1) * 0.3 + first.bias) + second.bias)
    np.testing.assert_allclose(net(0.3), afx.exp(last.weight @ hidden)[0], rtol=1e-6)
    grads = afx.grad(lambda net: net(0.3))(net)
    assert grads.layers[0].weight.shape == (16, 1)


def test_the_one_operand_of_a_condition_may_be_none() -> None:
    """``lax.cond(p, f, g, operand=None)`` calls functions of None, as programs of JAX's early years do."""
    source = "from jax import lax\nprint(lax.cond(True, lambda _: 1.0, lambda _: 2.0, operand=None))\n"
    rewritten, remarks = migrate_source(source, "jax")
    assert "lax.cond(" in rewritten
    assert remarks == []
    assert float(for_lax.cond(False, lambda _: 1.0, lambda _: 2.0, operand=None)) == 2.0


def test_draws_take_jaxs_arguments() -> None:
    """By position and by name, with a dtype behind the shape; what they do not know is an error."""
    key = afx.random.key(0)
    wide = np.asarray(for_jax.normal(key, (2, 3), np.float64))
    assert wide.dtype == np.float64
    assert (wide != wide.astype(np.float32)).any()  # drawn with all its digits
    assert for_jax.poisson(key, 3.0, (4,), np.int32).dtype == np.int32
    assert for_jax.uniform(key, (4,), minval=2.0, maxval=3.0).min() >= 2
    assert for_jax.randint(key, (4,), 0, 5, np.int32).dtype == np.int32
    assert for_jax.categorical(key, np.zeros((3, 4)), 0).shape == (4,)
    assert for_jax.choice(key, a=5, shape=(2,), replace=False).shape == (2,)
    assert for_jax.rademacher(key, (4,)).dtype == np.int64  # JAX draws integers
    assert for_jax.bernoulli(key).shape == ()
    counts = [for_jax.binomial(key, 10, 0.4, (4,)), for_jax.multinomial(key, 10, np.array([0.2, 0.8]))]
    assert {z.dtype for z in counts} == {np.dtype("float32")}  # JAX's are floats
    with pytest.raises(errors.ArgumentError, match="permutation: takes x, axis: got 1 values"):
        for_jax.permutation(key, np.arange(4), independent=True)
    with pytest.raises(errors.ArgumentError, match="normal: takes shape, dtype"):
        for_jax.normal(key, (2,), np.float32, 1.0)


def test_one_bad_file_is_named_and_others_are_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encodings are those that files declare, links are left alone, and what cannot be read is named."""
    outside = tmp_path / "outside.py"
    outside.write_text("import jax\n")
    folder = tmp_path / "programs"
    folder.mkdir()
    text = "import jax.numpy as jnp  # é\n"
    (folder / "a.py").write_bytes(b"import jax  # \xe9\n")
    (folder / "b.py").write_bytes(b"# -*- coding: latin-1 -*-\n" + text.encode("latin-1"))
    (folder / "c.py").write_bytes(text.encode("utf-8-sig"))
    (folder / "d.py").write_bytes(b"import jax\0\n")
    (folder / "e.py").write_text("import jax.numpy as jnp\n")
    (folder / "link.py").symlink_to(outside)
    assert main(["jax", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert re.findall(r"(\w)\.py:1: not read", printed) == ["a", "d"]
    assert re.findall(r"(\w)\.py: rewritten", printed) == ["b", "c", "e"]
    assert (folder / "b.py").read_text(encoding="latin-1").splitlines()[1] == "import afx as jnp  # é"
    assert (folder / "c.py").read_bytes() == "import afx as jnp  # é\n".encode("utf-8-sig")
    assert outside.read_text() == "import jax\n"


REWRITTEN = {
    "jnp.float32(x)": "afx.migrate.for_jax.float32(x)",
    "jnp.nonzero(x, size=3)": "afx.migrate.for_jax.nonzero(x, size=3)",
    "jnp.nonzero(x)": "jnp.nonzero(x)",
    "jax.tree.leaves(x, is_leaf=f)": "afx.migrate.for_trees.tree_leaves(x, is_leaf=f)",
    "jnp.dot(x, y, precision=lax.Precision.HIGHEST)": "jnp.dot(x, y)",
    "jnp.dot(x, y, precision=jax.lax.Precision.HIGHEST) + jax.lax.rsqrt(x)": "jnp.dot(x, y) + afx.migrate.for_lax.rsqrt(x)",
    "jnp.matmul(x, precision=None, spec=y)": None,
    "x.at[0].mul(2.0)": "x.at[0].multiply(2.0)",
    "jnp.exp(x).at[0].set(y.at[1].mul(3), mode='drop')": (
        "afx.migrate.for_jax.at(jnp.exp(x))[0].set(y.at[1].multiply(3), mode='drop')"
    ),
    "x.at[0].power(2)": "afx.migrate.for_jax.at(x)[0].power(2)",
    "x.at[i].apply(f)": "afx.migrate.for_jax.at(x)[i].apply(f)",
    "x.at[x.at[1].get()].div(2.0)": "x.at[x.at[1].get()].divide(2.0)",
    "x.sum().block_until_ready()": "x.sum()",
    "jnp.issubdtype(x.dtype, jnp.integer)": "jnp.issubdtype(x.dtype, numpy.integer)",
    "jnp.searchsorted(x, y)": "afx.migrate.for_jax.searchsorted(x, y)",
    "jnp.full_like(x, 1, None, (3,))": "jnp.full_like(x, 1, None, shape=(3,))",
    "jax.tree.leaves(x, f)": "afx.migrate.for_trees.tree_leaves(x, f)",
    "lax.reduce_sum(x, axes=(0,))": "afx.sum(x, axis=(0,))",
    "jnp.union1d(ar1=x, ar2=y, size=3)": "afx.migrate.for_jax.union1d(ar1=x, ar2=y, size=3)",
    "jax.grad(f)(abs(x))": "afx.grad(f)(afx.migrate.for_jax.abs(x))",
    "abs(x)": "abs(x)",
    "y = hasattr(jax, 'tree') and hasattr(jnp.linalg, 'qr') or hasattr(x, 'T')": "y = True and True or hasattr(x, 'T')",
    "lax.conv(x, y, (1,), 'SAME')": "lax.conv(x, y, (1,), 'SAME')",
}


@pytest.mark.parametrize("line", REWRITTEN)
def test_calls_are_rewritten_by_what_they_are_given(line: str) -> None:
    """Dtypes as functions, keywords that afx has not or that change no number, and updates by shorter names."""
    rewritten, remarks = migrate_source(f"import jax\nimport jax.numpy as jnp\nfrom jax import lax\n{line}\n", "jax")
    if REWRITTEN[line] is None:
        assert "its arguments are" in remarks[0].advice
        return
    assert rewritten.splitlines()[-1] == REWRITTEN[line]
    assert remarks == []


def test_trees_have_jaxs_paths_and_leaves() -> None:
    """Paths by steps, trees the other way round, fields that are whole numbers, and functions with arguments."""
    jax: Any = pytest.importorskip("jax", reason="the reference is JAX's")
    tree = {"a": [1.0, {"b": 2.0}], "c": (3.0,)}
    want = [(jax.tree_util.keystr(p), x) for p, x in jax.tree_util.tree_flatten_with_path(tree)[0]]
    pairs, treedef = for_trees.tree_flatten_with_path(tree)
    assert [(for_trees.keystr(p), x) for p, x in pairs] == want
    assert [for_trees.keystr(p, simple=True, separator="/") for p, _ in pairs] == ["a/0", "a/1/b", "c/0"]
    assert for_trees.tree_map_with_path(lambda p, x, y: len(p) * x + y, tree, tree) == {
        "a": [3.0, {"b": 8.0}],
        "c": (9.0,),
    }
    assert for_trees.tree_leaves_with_path(tree) == pairs
    assert treedef == afx.pytree.structure(tree)
    rows = [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}]
    inner, outer = afx.pytree.structure(rows[0]), afx.pytree.structure([0, 0])
    assert for_trees.tree_transpose(outer, inner, rows) == {"x": [1.0, 3.0], "y": [2.0, 4.0]}
    assert afx.jit(lambda f, x: f(x))(for_trees.Partial(lambda a, b: a - b, 1.0), 3.0) == -2.0

    @for_trees.register_dataclass
    @dataclasses.dataclass
    class Counter:
        count: int
        weight: Any
        name: str = dataclasses.field(default="", metadata={"static": True})

    counter = Counter(3, 1.0, "n")
    assert afx.pytree.leaves(counter) == [3, 1.0]
    assert afx.pytree.map(lambda x: 2 * x, counter) == Counter(6, 2.0, "n")
    assert [for_trees.keystr(p) for p, _ in for_trees.tree_leaves_with_path([counter])] == ["[0].count", "[0].weight"]
    assert isinstance(pairs[0][0][0], for_trees.DictKey)
    other = {"a": "x", "b": [None, len, object], "c": (1, 2.0)}
    assert for_trees.tree_leaves(other) == jax.tree.leaves(other)
    assert for_trees.tree_map(str, other) == jax.tree.map(str, other)
    assert [for_trees.keystr(p) for p, _ in for_trees.tree_leaves_with_path(other)] == [
        "['a']",
        "['b'][1]",
        "['b'][2]",
        "['c'][0]",
        "['c'][1]",
    ]
    assert repr(for_trees.tree_map(lambda x: x, other)) == repr(other)
    model = [for_equinox.MLP(1, 1, 1, 1, key=afx.random.key(0)), afx.tanh, "a"]  # whose functions are no leaves
    assert len(for_trees.tree_leaves(model)) == 5
    assert len(for_trees.tree_leaves_with_path(model)) == 5
    pairs, _ = for_trees.tree_flatten_with_path(other, is_leaf=lambda x: isinstance(x, list))
    assert pairs[1][1] is other["b"]
    assert for_trees.put(for_trees.tree_structure(other), for_trees.tree_leaves(other)) == other


def test_registered_classes_have_their_keys() -> None:
    """Keys that a class gives its children, places where it gives none, and trees the other way round by JAX's words."""
    jax: Any = pytest.importorskip("jax", reason="the reference is JAX's")
    found = []
    for tree_util in (jax.tree_util, for_trees):

        class Box:
            def __init__(self, low: Any, high: Any) -> None:
                self.low, self.high = low, high

            def tree_flatten_with_keys(self, keys: Any = tree_util) -> Any:
                return ((keys.GetAttrKey("low"), self.low), (keys.DictKey("high"), self.high)), None

            @classmethod
            def tree_unflatten(cls, _: Any, children: Any) -> Any:
                return cls(*children)

        class Pair(Box):
            def tree_flatten(self) -> Any:
                return (self.low, self.high), None

        class Named(Box):
            pass

        tree_util.register_pytree_with_keys_class(Box)
        tree_util.register_pytree_node_class(Pair)
        tree_util.register_pytree_node(Named, Pair.tree_flatten, Named.tree_unflatten, Box.tree_flatten_with_keys)
        tree = [Box(1.0, {"x": 2.0}), Pair(3.0, None), Pair(None, 4.0), Named(5.0, 6.0)]
        found.append([(tree_util.keystr(p), x) for p, x in tree_util.tree_leaves_with_path(tree)])
        found.append(tree_util.tree_map(lambda x: -x, tree)[0].high)
        rows = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
        words = {"outer_treedef": tree_util.tree_structure([0, 0]), "inner_treedef": tree_util.tree_structure(rows[0])}
        found.append(tree_util.tree_transpose(**words, pytree_to_transpose=rows))
    assert found[:3] == found[3:]


def test_places_within_bounds_stay() -> None:
    """What is held within bounds, compared, or no array of the program's is left as it is."""
    source = (
        "import jax.numpy as jnp\nk = jnp.clip((x * 4).astype(int), 0, 3)\nlabels = y.astype(int)\n"
        "z = table[k] + x[labels == 1] + f(x)[labels], rows[labels]\ntable[labels] = 1\n"
    )
    text, _ = migrate_source(source, "jax")
    held = (
        "z = table[k] + x[labels == 1] + f(x)[labels], afx.migrate.for_jax.at(rows)[labels].get()\ntable[labels] = 1\n"
    )
    assert text.endswith(held)


def test_histograms_count_in_floats() -> None:
    """As JAX's do, of the default dtype; boxes of several numbers count in integers."""
    counts, edges = for_jax.histogram(np.array([0.1, 0.2, 0.7]), bins=2, range=(0.0, 1.0))
    assert (counts.dtype, counts.tolist(), edges.tolist()) == (afx.get_default_dtype(), [2.0, 1.0], [0.0, 0.5, 1.0])
    x = np.array([0.1, 0.2, 0.7])
    assert (
        for_jax.histogram2d(x, x, 2)[0].dtype.kind == for_jax.histogramdd(x[:, None], 2)[0].dtype.kind == "i"
    )  # as JAX's
    assert for_jax.histogram2d(x, x, 2, density=True)[0].dtype.kind == "f"


def test_the_guide_shows_what_the_tool_does() -> None:
    """The whole program of the guide from JAX becomes the one below it, with a remark on draws alone."""
    text = (ROOT / "examples" / "guides" / "from_jax.md").read_text(encoding="utf-8")
    ((_, before),), ((_, after),) = blocks(text, "text"), blocks(text, "python")
    found, remarks = migrate_source(before, "jax")
    assert found == after
    assert [(r.name, "other numbers" in r.advice) for r in remarks] == [("jax.random.normal", True)]


def test_a_module_that_is_passed_on_is_kept() -> None:
    """Its import stands in the line that needs it, and a remark says so."""
    text, remarks = migrate_source("import jax\nprint(dir(jax), jax.numpy.ones(2))\n", "jax")
    assert "import jax; print(dir(jax), afx.ones(2))" in text
    assert [(r.line, r.name) for r in remarks] == [(2, "jax")]


def test_integers_compute_as_under_x64() -> None:
    """Truth values and integers below 64 bits alone give float32, eager and compiled, until the default dtype is set."""
    default, counts = afx.get_default_dtype(), np.array([1, 2, 4], np.int32)
    try:
        for_jax.config.update("jax_enable_x64", True)
        for run in (afx.mean, afx.jit(afx.mean)):
            mean = np.asarray(run(afx.asarray(counts) > 1))
            assert (mean.dtype, float(mean)) == (np.float32, float(np.float32(2 / 3)))
        accuracy = afx.mean(afx.arange(200) < 160)  # 160 times 1/200, in the digits of XLA
        assert float(accuracy) == 0.7999999523162842
        assert np.isnan(float(afx.mean(np.zeros(0, bool))))
        dtypes = [np.asarray(x).dtype for x in (afx.exp(counts), afx.asarray(counts) / 3, afx.special.gammaln(counts))]
        assert dtypes == [np.float32] * 3
        wide = [afx.asarray(counts) * 0.5, afx.exp(counts.astype(np.int64)), afx.asarray(counts > 1) / 3]
        assert [np.asarray(x).dtype for x in wide] == [np.float64] * 3
    finally:
        afx.set_default_dtype(default)
    with afx.default_dtype(afx.float64):
        assert np.asarray(afx.mean(counts)).dtype == np.float64


def test_dicts_are_sorted_as_under_x64() -> None:
    """What trees' functions, derivatives and compiled functions return prints as JAX's; other classes stay."""
    default, tree = afx.get_default_dtype(), {"w": 2.0, "b": {"z": 3.0, "a": 1.0}}

    def total(p: Any) -> Any:
        return p["w"] ** 2 + p["b"]["z"] * p["b"]["a"]

    assert list(afx.grad(total)(tree)) == ["w", "b"]
    try:
        for_jax.config.update("jax_enable_x64", True)
        found = [afx.grad(total)(tree), afx.jit(afx.grad(total))(tree), for_trees.tree_map(lambda x: x, tree)]
        assert [(list(t), list(t["b"])) for t in found] == [(["b", "w"], ["a", "z"])] * 3
        assert [float(t["w"]) for t in found] == [4.0, 4.0, 2.0]
        ordered = OrderedDict([("z", 1.0), ("a", 2.0)])
        assert list(for_trees.tree_map(lambda x: -x, ordered).items()) == [("z", -1.0), ("a", -2.0)]
    finally:
        afx.set_default_dtype(default)


def test_chains_of_updates_are_wrapped_one_by_one() -> None:
    """Each update by JAX's rules has a pair of brackets of its own, in a chain too."""
    source = "import jax.numpy as jnp\ny = x.at[0].power(2).at[1].add(1.0).at[2].apply(f)\n"
    rewritten, remarks = migrate_source(source, "jax")
    at = "afx.migrate.for_jax.at"
    assert rewritten.splitlines()[-1] == f"y = {at}({at}(x)[0].power(2).at[1].add(1.0))[2].apply(f)"
    assert not remarks


def test_dataclasses_in_static_fields_hash() -> None:
    """JAX compares what stands in static fields, and hashes it not."""
    source = """
import dataclasses
from dataclasses import dataclass
import equinox as eqx
import jax

@dataclass
class Size:
    rows: int = 2

@dataclasses.dataclass(order=True)
class Kind:
    name: str = "a"

@dataclass()
class Other:
    name: str = "a"

class Model(eqx.Module):
    scale: jax.Array
    size: Size = eqx.field(static=True)
    kind: Kind = eqx.field(static=True)

    def __call__(self, x):
        return self.scale * x * self.size.rows

double = jax.tree_util.tree_map(lambda leaf: leaf * 2, Model(1.5, Size(), Kind()))
result = eqx.filter_jit(lambda m, x: m(x))(double, 3.0)
"""
    rewritten, _ = migrate_source(source, "jax")
    assert rewritten.count("unsafe_hash=True") == 2
    names: dict[str, Any] = {"__name__": "program"}
    exec(rewritten, names)
    assert float(names["result"]) == 18.0


PARTS = """
import jax, jax.numpy as jnp
from jax import tree_util

class Scaled:
    def __init__(self, x, by):
        self.x, self.by = x, by

tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), {"by": s.by}), lambda rest, parts: Scaled(parts[0], rest["by"]))
product = jax.jit(lambda s: s.x * s.by)
results = [product(Scaled(2.0, 3)), product(Scaled(2.0, 4)), jax.tree.map(lambda x: 2 * x, Scaled(2.0, 3)).x]
double, kinds = jnp.float64, [jnp.int32, jnp.float32]
results += [double(0.1), *[kind(3) for kind in kinds], jnp.zeros(1, double)[0]]
ids = jnp.array([1, 2, 0, 3, -1])
results += [*jax.ops.segment_sum(jnp.arange(1.0, 6.0), ids, num_segments=3), *jax.ops.segment_max(ids, ids, 3)]
try:
    jax.jit(lambda x: 1 if x > 0 else 2)(1.0)
except jax.errors.TracerBoolConversionError:
    results.append(5)
"""


def test_parts_that_do_not_hash_dtypes_with_names_and_segments_past_the_end() -> None:
    """What JAX compares of a structure may be a dict; what belongs to none of so many segments is left out."""
    rewritten, remarks = migrate_source(PARTS, "jax")
    assert remarks == []
    names: dict[str, Any] = {}
    exec(rewritten, names)
    want = [6, 8, 4, 0.1, 3, 3, 0, 3, 1, 2, 0, 1, 2, 5]
    np.testing.assert_array_equal([float(x) for x in names["results"]], want)


def test_remarks_name_lines_of_the_rewritten_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Imports in front move them; `--diff`, which writes nothing, names those of the file as it is."""
    path = tmp_path / "program.py"
    path.write_text("import jax, optax\nimport jax.numpy as jnp\n\nx = jax.export.export(f)\n", encoding="utf-8")
    assert main(["jax", "--diff", str(path)]) == 1
    assert f"{path}:4: jax.export" in capsys.readouterr().out
    assert main(["jax", str(path)]) == 1
    lines = path.read_text(encoding="utf-8").splitlines()
    assert (
        f"{path}:{1 + next(k for k, line in enumerate(lines) if 'export.export' in line)}: " in capsys.readouterr().out
    )


HOMES = """jax jax.numpy jax.numpy.linalg jax.numpy.fft jax.lax jax.lax.linalg jax.nn jax.nn.initializers jax.random jax.tree
jax.tree_util jax.image jax.ops jax.flatten_util jax.scipy.linalg jax.scipy.special jax.scipy.stats
jax.scipy.optimize jax.scipy.signal jax.scipy.ndimage jax.scipy.fft jax.scipy.integrate jax.scipy.interpolate
jax.scipy.sparse.linalg jax.scipy.cluster.vq jax.scipy.spatial.transform jax.example_libraries.stax
jax.example_libraries.optimizers jax.debug jax.dtypes jax.ad_checkpoint jax.typing jax.test_util jax.experimental
jax.experimental.ode jax.experimental.sparse jax.experimental.checkify jax.sharding equinox equinox.nn flax.linen
flax.struct flax.core flax.serialization flax.traverse_util flax.training.train_state flax.training.common_utils
chex optax optax.losses optax.contrib optax.tree optax.tree_utils optax.schedules optax.transforms optax.projections
jaxopt jaxopt.projection jaxopt.prox jaxopt.objective jaxopt.loss jaxopt.implicit_diff"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("home", HOMES.split())
def test_every_name_is_rewritten_or_remarked_on(home: str) -> None:
    """Each name that a program may take from a public module: what stands for it is there, or a remark with its line."""
    module = pytest.importorskip(home, reason="no dependency")
    for name in [name for name in dir(module) if name[0] not in "_@"]:
        text, remarks = migrate_source(f"import {home}\n\nx = {home}.{name}\n", "jax")
        if not any(remark.line == 3 for remark in remarks):
            exec(text, {})
