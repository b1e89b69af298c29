"""Functions that are renamed by whole modules, called at their defaults beside JAX: no number differs without a word."""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import afx
from afx.migrate import for_jax, for_lax, migrate_source
from afx.migrate.jax import JAX
from afx.migrate.rewriting import Remark

jax: Any = pytest.importorskip("jax", reason="jax is no dependency")

RNG = np.random.default_rng(0)
V, U = RNG.uniform(0.1, 0.9, (2, 6))
M = RNG.normal(size=(4, 4))
S = M @ M.T + np.eye(4)
CALLS: list[tuple[Any, ...]] = [
    (V,), (S,), (RNG.normal(size=(2, 3, 4)),), (M + 1j * S,), (np.array([-3, -1, 0, 2, 5]),), (V, U), (S, M[:, 0]), (V, 2),
    (4,),
]  # fmt: skip
OTHERWISE = {  # and why
    "jax.numpy.argpartition": "any order within parts",
    "jax.numpy.geomspace": "of numbers of either sign, where JAX has nan",
    "jax.numpy.partition": "any order within parts",
    "jax.nn.squareplus": "of a negative b, where JAX clips",
    "jax.scipy.signal.istft": "times of stacks along the signal, where JAX counts the first axis",
    "jax.scipy.linalg.pascal": "whole numbers, where JAX rounds",
    "jax.scipy.linalg.rsf2csf": "of what is no Schur form",
    "jax.scipy.special.beta": "JAX's digits of negative numbers",
    "jax.scipy.special.betaln": "JAX's digits of negative numbers",
    "jax.scipy.special.digamma": "inf at poles, as SciPy",
    "jax.scipy.special.expi": "-inf at 0, as SciPy",
    "jax.scipy.special.loggamma": "inf at poles, as SciPy",
    "jax.scipy.special.bernoulli": "JAX's digits",
    "jax.scipy.special.factorial": "of fractions below 0, where SciPy has 0",
}
PARTS = 4  # that processes share
TOGETHER = 16  # calls that are compiled as one program
NEVER = {"jax.disable_jit", "jax.jit", "jax.vmap", "jax.numpy.save", "jax.numpy.savez"}  # what is no function of arrays


def renamed() -> Iterator[tuple[str, Any, Any]]:
    """Yield the functions of modules that are renamed as a whole: the name, JAX's and afx's."""
    for home in JAX.modules:
        if not home.startswith(("jax.", "optax")) and home != "jax":
            continue  # layers and solvers, and a library that says what arrays are
        if home.startswith("jax.experimental.") and importlib.util.find_spec(home) is None:
            continue  # where JAX had its examples once
        module = importlib.import_module(home)
        for last in sorted(dir(module)):
            fn, target = getattr(module, last), JAX.resolve(f"{home}.{last}")
            if (
                last.startswith("_")
                or target is None
                or not callable(fn)
                or inspect.isclass(fn)
                or inspect.ismodule(fn)
            ):
                continue
            where, _, name = target.rpartition(".")
            if f"{home}.{last}" not in NEVER:
                yield f"{home}.{last}", fn, getattr(importlib.import_module(where), name)


@contextlib.contextmanager
def in_double() -> Iterator[None]:
    """Compute in float64 by default, in silence, in both libraries."""
    x64 = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        with afx.default_dtype(afx.float64), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        jax.config.update("jax_enable_x64", x64)


def numbers_of(compute: Callable[[], list[Any]]) -> list[np.ndarray[Any, Any]] | None:
    """Return what a call gives; None where it is refused, or gives no numbers."""
    try:
        found = [np.asarray(z) for z in compute()]
    except Exception:  # of whichever kind
        return None
    return found if all(z.dtype.kind in "fciub" for z in found) else None


def by_afx(fn: Any, args: tuple[Any, ...]) -> list[np.ndarray[Any, Any]] | None:
    """Return what a function of afx gives for these arguments, if anything."""
    return numbers_of(lambda: afx.pytree.leaves(fn(*[afx.asarray(x) if np.ndim(x) else x for x in args])))


def by_jax(calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> list[list[np.ndarray[Any, Any]] | None]:
    """Return what functions of JAX give for their arguments: as one program, in a third of the time that each alone takes."""

    def call(k: int, arrays: list[Any]) -> list[Any]:
        (fn, args), rest = calls[k], iter(arrays)
        return jax.tree.leaves(fn(*[next(rest) if np.ndim(x) else x for x in args]))

    given = [[jax.numpy.asarray(x) for x in args if np.ndim(x)] for _, args in calls]
    traced = [k for k, arrays in enumerate(given) if dtypes_in_trace(functools.partial(call, k), arrays)]
    together = jax.jit(lambda some: [call(k, arrays) for k, arrays in zip(traced, some, strict=True)])
    found = dict[int, Any]()
    with contextlib.suppress(Exception):  # of one that no compiler takes: each runs alone then
        found |= zip(traced, together([given[k] for k in traced]), strict=True)
    return [numbers_of(lambda k=k: found[k] if k in found else call(k, given[k])) for k in range(len(calls))]


def dtypes_in_trace(fn: Any, *args: Any) -> list[str]:
    """Return the dtypes of what a function of JAX gives, for which nothing is compiled; none where it looks at numbers."""
    try:
        return [str(z.dtype) for z in jax.tree.leaves(jax.eval_shape(lambda *xs: fn(*xs), *args))]
    except Exception:
        return []


def tell_apart(found: list[np.ndarray[Any, Any]], want: list[np.ndarray[Any, Any]]) -> str:
    """Return how results differ, an empty text where they do not."""
    if [z.shape for z in found] != [z.shape for z in want]:
        return f"{[z.shape for z in found]}, not {[z.shape for z in want]}"
    apart = [not np.allclose(x, z, rtol=1e-8, atol=1e-10, equal_nan=True) for x, z in zip(found, want, strict=True)]
    return f"{found}, not {want}" if any(apart) else ""


@pytest.mark.parametrize("part", range(PARTS))
def test_renamed_functions_have_jaxs_numbers(part: int) -> None:
    """In x64, whichever of these arguments both take; an error is no silence."""
    functions = [*renamed()]
    assert len(functions) > 500
    wrong = dict[str, str]()
    with in_double():
        calls = [(*f, args) for f in functions[part::PARTS] if f[0] not in OTHERWISE for args in CALLS]
        taken = [(call, found) for call in calls if (found := by_afx(*call[2:])) is not None]
        for k in range(0, len(taken), TOGETHER):
            some = taken[k : k + TOGETHER]
            wants = by_jax([(theirs, args) for (_, theirs, _, args), _ in some])
            for ((name, *_), found), want in zip(some, wants, strict=True):
                if want is not None and (text := tell_apart(found, want)):
                    wrong[name] = text
    assert not wrong, "\n".join([f"{name}: {text}" for name, text in wrong.items()])


KINKS = np.array([0.0, -1.0, 1.0, 0.0, 3.0, -3.0, 6.0, 1.0, -2.0, 2.0])  # with ties
AT_KINKS: list[tuple[Any, ...]] = [
    (KINKS,),
    (KINKS, KINKS[::-1]),
    (KINKS, np.array(1.0), np.array(3.0)),
    (np.ones((2, 3)),),
]
OTHER_SLOPES = {  # and why; the guide says so
    "ends of the domain, where JAX has nan, or what its formula gives": (
        "acosh angle arccosh arctan2 atan2 float_power fmod linalg.norm linalg.vector_norm pow power rem remainder std nanstd "
        "vander igamma igammac lgamma betainc digamma squareplus celu mod logspace"
    ),
    "equal elements share, where JAX takes the order of the sort": (
        "cummax cummin median nanmedian nanpercentile nanquantile percentile quantile sort partition trim_zeros unique "
        "unique_all unique_counts unique_inverse unique_values union1d intersect1d setdiff1d setxor1d"
    ),
    "0 at 0, where JAX has a half or 1": "copysign hypot",
    "of singular matrices, where rounding decides": "linalg.qr",
}


def slope(lib: Any, fn: Any, k: int, as_array: Any) -> Any:
    """Return the derivative of a weighed sum of what a function gives, by its argument k."""

    def total(x: Any, *args: Any) -> Any:
        parts = fn(*args[:k], x, *args[k:])
        parts = parts if isinstance(parts, (tuple, list)) else [parts]
        return sum(
            (z * np.arange(1.0, 1 + z.size).reshape(z.shape)).sum() for z in map(as_array, parts) if z.dtype.kind == "f"
        )

    return lambda *args: lib.grad(total)(args[k], *args[:k], *args[k + 1 :])


def test_slopes_at_kinks_are_jaxs() -> None:
    """At 0, ties, bounds and corners, but for those that the guide names."""
    apart, other = set[str](), {name for names in OTHER_SLOPES.values() for name in names.split()}
    homes = ("jax.numpy.", "jax.nn.", "jax.lax.")
    with in_double():
        calls = [
            (name, slope(jax, theirs, k, jax.numpy.asarray), slope(afx, own, k, afx.asarray), args)
            for name, theirs, own in renamed()
            if name.startswith(homes) and ".fft." not in name and name.partition(".")[2].partition(".")[2] not in other
            for args in AT_KINKS
            for k in range(len(args))
        ]
        taken = [(call, found) for call in calls if (found := by_afx(*call[2:])) is not None]
        for k in range(0, len(taken), TOGETHER):
            some = taken[k : k + TOGETHER]
            wants = by_jax([(theirs, args) for (_, theirs, _, args), _ in some])
            apart |= {call[0] for (call, z), want in zip(some, wants, strict=True) if want and tell_apart(z, want)}
    assert len(taken) > 300
    assert not apart, sorted(apart)


INTEGERS = {d: np.array([[1, 0, 1], [1, 1, 0], [1, 1, 1]], d) for d in ("bool", "int8", "int32")}
OTHER_DTYPES = {  # of integers: JAX takes float64 where a constant joins them, or afx computes in integers
    *("angle", "histogram", "histogram_bin_edges", "histogramdd", "poly", "rint", "sort_complex", "linalg.vector_norm"),
    *("special.factorial", "special.owens_t", "nn.elu", "nn.hard_sigmoid", "nn.hard_silu", "nn.hard_swish"),
    *("nn.log_sigmoid", "nn.mish", "nn.relu6", "nn.selu", "nn.soft_sign", "nn.softplus", "nn.squareplus"),
}


def dtypes_of(fn: Any, *args: Any) -> list[str] | None:
    """Return the dtypes of what a function gives; None where it does not take these."""
    try:
        return [str(np.asarray(z).dtype) for z in jax.tree.leaves(fn(*args), is_leaf=is_array)]
    except Exception:
        return None


def is_array(x: Any) -> bool:
    """Tell an Array."""
    return isinstance(x, afx.Array)


def test_integers_have_jaxs_floating_dtypes() -> None:
    """Under x64 JAX computes with integers below 64 bits in float32, and so do programs that were rewritten."""
    default, apart, count = afx.get_default_dtype(), set[str](), 0
    places = {"": (jax.numpy, afx)} | {k: (getattr(jax.numpy, k), getattr(afx, k)) for k in ("linalg", "fft")}
    places |= {"special": (jax.scipy.special, afx.special), "nn": (jax.nn, afx.nn)}
    try:
        for_jax.config.update("jax_enable_x64", True)
        with jax.enable_x64(True), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for place, (theirs, ours) in places.items():
                for name in [n for n in dir(theirs) if n[0].islower() and callable(getattr(ours, n, None))]:
                    for x in INTEGERS.values():
                        for k in (1, 2):
                            theirs_of = getattr(theirs, name), *[jax.numpy.asarray(x)] * k
                            want = dtypes_in_trace(*theirs_of) or dtypes_of(*theirs_of)
                            found = dtypes_of(getattr(ours, name), *[afx.asarray(x)] * k)
                            if want and found and any("float" in d or "complex" in d for d in want):
                                count += 1
                                if want != found:
                                    apart.add(f"{place}.{name}".lstrip("."))
    finally:
        afx.set_default_dtype(default)
    assert apart == OTHER_DTYPES & apart, sorted(apart - OTHER_DTYPES)
    assert count > 300


SIZED: dict[str, tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]] = {
    **dict.fromkeys(
        ("union1d", "intersect1d", "setdiff1d", "setxor1d"),
        (
            (np.array([3, 1, 2, 3, 1, 7]), np.array([2, 7, 9, 9])),
            ({"size": 2}, {"size": 9}, {"size": 9, "fill_value": -2}),
        ),
    ),
    "unique": (
        (np.array([[3, 1], [2, 3], [1, 7]]),),
        (
            {"size": 3},
            {"size": 6, "return_index": True, "return_inverse": True, "return_counts": True},
            {"size": 9, "fill_value": 5},
        ),
    ),
    "bincount": ((np.array([5, 1, 9, 1, -2]),), ({"length": 3}, {"length": 12})),
    "extract": ((np.array([1, 0, 1]), np.array([4, 5, 6])), ({"size": 1}, {"size": 3}, {"size": 3, "fill_value": 9})),
    "repeat": ((np.array([4, 5, 6]), np.array([1, 0, 2])), ({"total_repeat_length": 2}, {"total_repeat_length": 5})),
}


@pytest.mark.parametrize("name", SIZED)
def test_results_of_a_length_are_jaxs(name: str) -> None:
    """What is missing, and what is cut, eager and compiled."""
    args, ways = SIZED[name]
    for options in ways:
        want = jax.tree.leaves(getattr(jax.numpy, name)(*args, **options))
        own = functools.partial(getattr(for_jax, name), **options)
        for fn in (own, afx.jit(own)):
            found = afx.pytree.leaves(fn(*args))
            assert len(found) == len(want)
            for x, z in zip(found, want, strict=True):
                np.testing.assert_array_equal(x, z)


ATTENTION: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True, "scale": 0.3},
    "masked": {"mask": RNG.random((2, 1, 4, 4)) > 0.3, "bias": RNG.normal(size=(2, 6, 4, 4))},
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_jaxs(name: str) -> None:
    """Of [batch, time, heads, size], with as many keys or fewer, to the float32 of JAX's softmax."""
    options = ATTENTION[name]
    q, k, v = RNG.normal(size=(3, 2, 4, 6, 3))
    for count in (6, 2):
        args = q, k[:, :, :count], v[:, :, :count]
        with jax.enable_x64(True):
            want = np.asarray(jax.nn.dot_product_attention(*map(jax.numpy.asarray, args), **options))
        np.testing.assert_allclose(for_lax.dot_product_attention(*args, **options), want, rtol=1e-5, atol=1e-6)


PLACES: dict[str, Any] = {
    "rows": np.array([1, 7]),
    "one": 3,
    "before": -9,
    "columns": np.s_[:, np.array([-1, -4, 5])],
    "last": np.s_[..., np.array([[0, 9]])],
    "around": np.s_[1, ..., np.array([4, 1])],
    "new": (None, np.array([0, 2])),
    "apart": np.s_[np.array([0, 5]), 1:3, np.array([3, 4])],
    "mask": (np.array([[True, False, True], [False, True, False]]), np.array(7)),
    "inside": np.s_[:, -1],
}
UPDATES = ("set", "add", "subtract", "mul", "divide", "min", "max", "power")


@pytest.mark.parametrize("mode", ["fill", "clip", "drop", None])
@pytest.mark.parametrize("name", PLACES)
def test_places_outside_by_jaxs_modes(name: str, mode: str | None) -> None:
    """What is read there, and what updates do, of floats, integers and truth values."""
    index, options = PLACES[name], {"mode": mode} if mode else {}
    x = np.arange(1.0, 25.0).reshape(2, 3, 4)
    xs = [x.astype(kind) for kind in (np.float32, np.int32, np.uint8, np.bool_)]
    twice = np.append(index, index) if isinstance(index, np.ndarray) else index

    def results(at: Callable[[Any], Any], xs: list[Any]) -> dict[str, Any]:
        read = {f"get {x.dtype}": at(x)[index].get(**options) for x in xs}
        written = {name: getattr(at(xs[0])[index], name)(2.0, **options) for name in UPDATES}
        return read | written | {"apply": at(xs[0])[twice].apply(lambda v: 2 * v, **options)}

    wanted = jax.jit(lambda xs: results(lambda x: x.at, xs))(xs)
    for way, z in results(for_jax.at, xs).items():
        assert z.dtype == wanted[way].dtype
        np.testing.assert_array_equal(z, wanted[way], way)
    read = afx.grad(lambda x: for_jax.at(x)[index].get(mode="fill", fill_value=0.0).sum())(x)
    assert read.sum() == for_jax.at(np.ones_like(x))[index].get(mode="fill", fill_value=0.0).sum()


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_values_between_points_are_jaxs(mode: str, order: int) -> None:
    """Beyond the edges of a grid too, where JAX's modes have other meanings than SciPy's, and of integers."""
    places = [
        np.array([-7.3, -1.2, -0.4, 0.5, 3.2, 4.4, 4.8, 9.1]),
        np.array([1.0, 2.5, -3.2, 5.4, 5.7, 6.2, 11.0, 0.0]),
    ]
    with in_double():
        for grid in (RNG.normal(size=(5, 6)), RNG.integers(0, 9, (5, 6))):
            found = for_jax.map_coordinates(grid, places, order, mode, 2.0)
            wanted = jax.scipy.ndimage.map_coordinates(grid, places, order, mode, 2.0)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["definite", "indefinite", "complex", "stack", "apart"])
def test_factors_of_cholesky_are_jaxs(kind: str) -> None:
    """By NumPy's and SciPy's names, of either triangle, and nan where there are none: eager and compiled."""
    h = M + 1j * S
    matrix = {
        "definite": S,
        "indefinite": M + M.T,
        "complex": h @ h.conj().T,
        "stack": np.stack([S, -S]),
        "apart": M + 9 * np.eye(4),
    }
    x = matrix[kind]

    def factors(numpy_factor: Any, cholesky: Any, cho_factor: Any, x: Any) -> list[Any]:
        one, two = (lambda up: numpy_factor(x, upper=up)), (lambda low: cholesky(x, lower=low))
        return [f(is_on) for f in (one, two, lambda low: cho_factor(x, lower=low)[0]) for is_on in (False, True)]

    with in_double():
        linalg, scipy = jax.numpy.linalg, jax.scipy.linalg
        wanted = jax.jit(functools.partial(factors, linalg.cholesky, scipy.cholesky, scipy.cho_factor))(x)
        own = functools.partial(factors, for_jax.factor, for_jax.cholesky, for_jax.cho_factor)
        for found in (own(x), afx.jit(own)(x)):
            for z, w in zip(found, wanted, strict=True):
                np.testing.assert_allclose(z, np.asarray(w), rtol=1e-12, atol=1e-12)


def run_beside_jax(source: str) -> tuple[str, list[Remark]]:
    """Run a program as it is and rewritten, compare their results, and return the text and the remarks."""
    rewritten, remarks = migrate_source(source, "jax")
    theirs, own = dict[str, Any](), dict[str, Any]()
    exec(source, theirs)
    exec(rewritten, own)
    for found, want in zip(own["results"], theirs["results"], strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)
    return rewritten, remarks


STAGES = """
import jax, numpy as np
import jax.numpy as jnp
f = jax.jit(lambda x, n, *, m: x * n + m, static_argnums=1, static_argnames="m")
compiled = f.lower(jnp.ones(3), 2, m=1).compile()
spec = jax.ShapeDtypeStruct((2,), jnp.float32)
twice = jax.jit(lambda x: 2 * jax.pure_callback(lambda v, k=1.0: np.sort(v)[::-1] * np.float32(k), spec, x, k=0.5))
rows = jax.vmap(lambda x, y: jax.pure_callback(np.add, x, x, y, vmap_method="sequential"), in_axes=(0, None))
pair = jax.pure_callback(lambda v: (v.sum(), [v]), (jax.ShapeDtypeStruct((), jnp.float32), [spec]), jnp.ones(2))
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, s: jax.pure_callback(np.cos, s, s), x))
jax.effects_barrier()
results = [
    compiled(jnp.arange(3.0)), jax.jit(jnp.sin).lower(spec).compile()(jnp.ones(2)), twice(jnp.array([1.0, 3.0])),
    rows(jnp.ones((3, 2)), jnp.arange(2.0)), pair[1][0], loop(1.0), len("A B".lower().split()),
]
"""


def test_functions_are_lowered_and_python_computes_parts() -> None:
    """A compiled function is called without its static arguments; batches of a callback go one by one."""
    _, remarks = run_beside_jax(STAGES)
    assert remarks == []
    stage = for_jax.lower(afx.jit(afx.sin), afx.ones(8))
    assert "sin" in stage.as_text()
    assert stage.cost_analysis()["bytes accessed"] > 0
    assert [r.name for r in migrate_source("import jax\nprint(c.as_text())\n", "jax")[1]] == ["c.as_text"]


LITERAL = """
import jax
import jax.numpy as jnp
N = 5
x = jnp.arange(N) + 1.0
y = x.at[10].set(9.0) + x[N]
x = x.at[3].add(2.0)
m = 2 * jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
def last(x):
    t = jnp.linspace(0, 1, num=4)
    t = t.at[-9].mul(3).at[1].set(7.0)
    return t[7] * x[2] + m[2].sum() + jnp.zeros_like(t)[:3][0]
r = jnp.zeros((3,))
for i in range(3):
    r = r.at[i].set(x[i])
q = jnp.arange(4.0)
far = [q[9], q[jnp.array([50, -60])], q[jnp.array([1, -4])]]
results = far + [y, m[1, 7], m[:, 3], m[5], m[1, 2], x[-6], x[N - 1], last(x), r[3], r[-3], jnp.eye(2)[1]]
"""


def test_literal_places_past_the_end() -> None:
    """Of arrays whose lengths stand in the file, reads and updates are JAX's; other lines stay as they are."""
    rewritten, remarks = run_beside_jax(LITERAL)
    assert remarks == []
    assert rewritten.count("for_jax.at(") == 12
    assert "r = r.at[i].set(x[i])" in rewritten
    source = (
        "import jax.numpy as jnp\nx = jnp.zeros(3)\nx = jnp.zeros(8)\ndef f(x, y):\n    return x[5] + y[9]\nz = x[5]\n"
    )
    assert migrate_source(source, "jax")[0] == source.replace("import jax.numpy as jnp", "import afx as jnp")


DIVISORS = {  # where XLA multiplies by 1 over the divisor, and where it does not
    "number": lambda m, x: x / 3,
    "compiled": lambda m, x: m.jit(lambda y: y / 3)(x),
    "of one element": lambda m, x: m.jit(lambda y: y[4] / 3)(x),
    "of one element, at once": lambda m, x: x[4] / 3,
    "batched": lambda m, x: m.vmap(lambda y: y / 3)(x),
    "sum": lambda m, x: x / x.sum(dtype=np.float32),
    "rows": lambda m, x: x.reshape(5, 4) / x[:4],
    "all": lambda m, x: x / x[::-1],
    "mean": lambda m, x: x[:5].astype(np.float32).mean(),
}


@pytest.mark.parametrize("name", DIVISORS)
def test_quotients_are_rounded_as_xlas(name: str) -> None:
    """Of integers of few bytes, and of float32, bit for bit; with a float of Python's they are float64."""
    default, x = afx.get_default_dtype(), np.array([5, 7, 11, 13, 17, 19, 23, 29, 31, 37] * 2, np.int32)
    try:
        for_jax.config.update("jax_enable_x64", True)
        with jax.enable_x64(True):
            for kind in (np.int32, np.float32):
                want = np.asarray(DIVISORS[name](jax, jax.numpy.asarray(x.astype(kind))))
                found = np.asarray(DIVISORS[name](afx, afx.asarray(x.astype(kind))))
                assert (found.dtype, found.tobytes()) == (want.dtype, want.tobytes())
        assert np.asarray(afx.asarray(x) / 3.0).dtype == np.float64
    finally:
        afx.set_default_dtype(default)


def test_integers_leave_floats_their_dtype() -> None:
    """Under x64 JAX's float32 stays float32 beside integers of any size, eager and compiled."""
    default, x = afx.get_default_dtype(), np.array([[1, -2], [3, 4]])
    y = np.array([[0.1, 0.2], [0.3, -0.4]], np.float32)
    fns: dict[str, Any] = {
        "product": lambda m, a, b: a * b, "quotient": lambda m, a, b: a / b, "matrix": lambda m, a, b: a @ b,
        "choice": lambda m, a, b: m.where(b > 0, a, b), "stack": lambda m, a, b: m.stack([a, b]),
        "join": lambda m, a, b: m.concatenate([a, b]),
    }  # fmt: skip
    try:
        for_jax.config.update("jax_enable_x64", True)
        with jax.enable_x64(True):
            for fn in fns.values():
                for kind in (np.bool_, np.int8, np.int32, np.int64):
                    want = np.asarray(fn(jax.numpy, jax.numpy.asarray(x.astype(kind)), jax.numpy.asarray(y)))
                    for run in (fn, afx.jit(fn, static_argnums=0)):
                        found = np.asarray(run(afx, afx.asarray(x.astype(kind)), afx.asarray(y)))
                        assert found.dtype == want.dtype
                        np.testing.assert_allclose(found, want, rtol=1e-6)
    finally:
        afx.set_default_dtype(default)
    assert np.asarray(afx.asarray(x.astype(np.int32)) * y).dtype == np.float64


TAKEN = """
x = jnp.arange(6.0).reshape(2, 3)
k = jnp.array([0, 5, -1, -7])
results = [
    jnp.take(x, k, axis=1), jnp.take(x, k), jnp.take(x, 2, axis=0), jnp.take(x, k, axis=1, mode="clip"),
    jnp.take(x, jnp.array([4, -1]), axis=1, mode="wrap"), jnp.take(x, k, axis=1, mode="fill", fill_value=-1),
    jnp.fill_diagonal(x, 7.0, inplace=False), jnp.fill_diagonal(x.T, jnp.array([8.0, 9.0]), inplace=False),
    jnp.take_along_axis(x, jnp.array([[0, 3], [-1, 2]]), axis=1), jnp.take_along_axis(x, jnp.array([1, 9]), axis=None),
    jnp.take(jnp.arange(3, dtype=jnp.int8), k), jnp.take(jnp.arange(3) > 1, k), jax.jit(lambda i: jnp.take(x, i, axis=0))(k),
    jax.grad(lambda x: jnp.nansum(jnp.take(x, k, axis=1) ** 2))(x), jax.vmap(lambda r, i: jnp.take(r, i))(x, jnp.array([1, 4])),
]
deep = jax.tree.map(lambda a, b: (a, b), {"a": 1, "b": [2]}, {"a": [3, 4], "b": [{"c": 5}]})
turned = jax.tree.transpose(jax.tree.structure({"a": 0, "b": 0}), None, {"a": [1, 2], "b": [3, 4]})
parts = jax.tree_util.treedef_children(jax.tree.structure([{"a": 0}, 1, None]))
kinds = [jax.tree_util.treedef_is_leaf(p) for p in parts], jax.tree.structure([{"a": 0}, 1]).num_nodes
texts = str(jax.tree.structure({"a": [0, (1, None)]})), jax.tree_util.all_leaves([1, [2]])
"""


def test_elements_that_are_taken_from_outside_and_deeper_trees() -> None:
    """``take`` has nan, or the least integer, for places outside; trees beside the first may be deeper, as in JAX."""
    head = "import jax\nimport jax.numpy as jnp\n"
    rewritten, remarks = migrate_source(head + TAKEN, "jax")
    theirs: dict[str, Any] = {}
    own: dict[str, Any] = {}
    exec(head + TAKEN, theirs)
    exec(rewritten, own)
    for found, want in zip(own["results"], theirs["results"], strict=True):
        np.testing.assert_array_equal(found, want)
    assert remarks == []
    for name in ("deep", "turned", "kinds", "texts"):
        assert own[name] == theirs[name]


LAWS = "from jax.scipy.stats.norm import logpdf, cdf as below\nx = logpdf(0.5) + below(0.5)\n"


def test_names_of_laws_are_imported_from_them() -> None:
    """A law is no module of afx's, and a text in an index is no name."""
    rewritten, remarks = migrate_source(LAWS, "jax")
    names: dict[str, Any] = {}
    exec(rewritten, names)
    np.testing.assert_allclose(names["x"], -1.0439385332 + 0.6914624613, rtol=1e-6)
    source = "import jax.numpy as jnp\ny = x.astype(int)\nz = batch['y']\n"
    assert (remarks, migrate_source(source, "jax")[0].splitlines()[2]) == ([], "z = batch['y']")


TREES = """
import jax
import jax.numpy as jnp

tree = {"w": jnp.ones(3), "n": jnp.arange(3), "on": jnp.array(True)}

def loss(tree, x):
    return jnp.sum(tree["w"] * x * tree["n"]), tree["n"]

@jax.jit
def step(tree):
    (value, n), grads = jax.value_and_grad(loss, has_aux=True, allow_int=True)(tree, 2.0)
    return value, n, jax.tree.map(lambda p, g: p if g.dtype == jax.dtypes.float0 else p - 0.1 * g, tree, grads)

value, n, after = step(tree)
grads, aux = jax.grad(loss, has_aux=True, allow_int=True)(tree, 2.0)
seen = [value, n, aux, after["w"], after["n"], after["on"], grads["w"]]
are = [grads[name].dtype == jax.dtypes.float0 for name in ("w", "n", "on")]
shapes = [grads[name].shape for name in ("w", "n", "on")]
"""


def test_derivatives_by_trees_that_hold_integers() -> None:
    """``allow_int``: those by whole numbers are told by `float0`, and steps leave such leaves alone."""
    source, remarks = migrate_source(TREES, "jax")
    names: list[dict[str, Any]] = [{}, {}]
    for text, own in zip((TREES, source), names, strict=True):
        exec(text, own)
    assert remarks == []
    assert [own["are"] for own in names] == [[False, True, True]] * 2
    assert names[0]["shapes"] == names[1]["shapes"]
    for want, found in zip(names[0]["seen"], names[1]["seen"], strict=True):
        np.testing.assert_allclose(found, np.asarray(want), rtol=1e-6)
        assert found.dtype.kind == want.dtype.kind


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("print(jnp.arange(3).dtype)", 1), ("assert jnp.arange(3).dtype == jnp.int32", 1), ("y = f'{x.nbytes}'", 1),
        ("y = (x * 1103515245 + 12345) % 2147483648", 1), ("y = x << 13", 1), ("y = jnp.zeros(3, jnp.int64)", 1),
        ("y = jnp.arange(3) * 31 + x[0] * (1 << 4)", 0), ("y = jnp.zeros(3, x.dtype)", 0),
        ("assert x.dtype == jnp.float32", 0), ("jax.config.update('jax_enable_x64', True)\nprint(x.dtype)", 0),
    ],
)  # fmt: skip
def test_integers_of_64_bits_are_told_where_they_show(line: str, count: int) -> None:
    """In programs without ``jax_enable_x64``, where JAX's have 32: dtypes that are shown, and numbers beyond."""
    _, remarks = migrate_source(f"import jax\nimport jax.numpy as jnp\n{line}\n", "jax")
    assert sum("64 bits" in remark.advice for remark in remarks) == count
