"""Derivatives at edges: ties, kinks, infinities, denormals; the stated choices, in every mode, plain and compiled."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
import afx.nn
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from tests.ops.samples import together

INF = np.inf
POOL = np.array([1.0, 1.0, 0.0, 2.0]).reshape(1, 4, 1)
FINITE = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-300, 1e300]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, at infinite values


def _sum(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: afx.sum(fn(*xs))


@together(
    ("fn", "xs", "expected"),
    [
        pytest.param(afx.abs, [0.0], [0.0], id="abs at 0"),
        pytest.param(afx.hypot, [0.0, 0.0], [0.0, 0.0], id="hypot at the origin"),
        pytest.param(afx.hypot, [1e200, 1e200], [0.5**0.5] * 2, id="hypot of large numbers"),
        pytest.param(afx.atan2, [0.0, 0.0], [0.0, 0.0], id="atan2 at the origin"),
        pytest.param(afx.atan2, [1e200, 1e200], [5e-201, -5e-201], id="atan2 of large numbers"),
        pytest.param(afx.atan2, [0.0, 1e-200], [1e200, 0.0], id="atan2 of small numbers"),
        pytest.param(afx.vector_norm, [[0.0, 0.0]], [[0.0, 0.0]], id="norm at the origin"),
        pytest.param(afx.vector_norm, [[3e200, 4e200]], [[0.6, 0.8]], id="norm of large numbers"),
        pytest.param(afx.vector_norm, [[3e-200, 4e-200]], [[0.6, 0.8]], id="norm of small numbers"),
        pytest.param(lambda x: afx.vector_norm(x, ord=1), [[0.0, -2.0]], [[0.0, -1.0]], id="1-norm at 0"),
        pytest.param(lambda x: afx.vector_norm(x, ord=INF), [[2.0, -2.0]], [[0.5, -0.5]], id="inf-norm at a tie"),
        pytest.param(lambda x: afx.vector_norm(x, ord=3), [[0.0, 0.0]], [[0.0, 0.0]], id="3-norm at the origin"),
        pytest.param(lambda x: afx.vector_norm(x, ord=1.5), [[0.0, 2.0]], [[0.0, 1.0]], id="1.5-norm on an axis"),
        pytest.param(lambda x: afx.vector_norm(x, ord=3), [[1.0, -INF]], [[0.0, -1.0]], id="3-norm with an infinity"),
        pytest.param(lambda x: afx.vector_norm(x, ord=-2), [[1.0, INF]], [[1.0, 0.0]], id="-2-norm with an infinity"),
        pytest.param(afx.std, [[3.0, 3.0]], [[0.0, 0.0]], id="std of equal values"),
        pytest.param(afx.var, [[3.0, 3.0]], [[0.0, 0.0]], id="var of equal values"),
        pytest.param(afx.pow, [0.0, 0.0], [0.0, 0.0], id="0 ** 0"),
        pytest.param(afx.pow, [0.0, 2.0], [0.0, 0.0], id="0 ** 2"),
        pytest.param(afx.pow, [0.0, 1.0], [1.0, 0.0], id="0 ** 1"),
        pytest.param(lambda x: x**2, [-3.0], [-6.0], id="square of a negative base"),
        pytest.param(lambda x: x**0, [0.0], [0.0], id="x ** 0 at 0"),
        pytest.param(lambda x: x**1, [0.0], [1.0], id="x ** 1 at 0"),
        pytest.param(lambda x: afx.pow(x, 3.0), [-2.0], [12.0], id="cube of a negative base"),
        pytest.param(afx.maximum, [1.0, 1.0], [0.5, 0.5], id="maximum at a tie"),
        pytest.param(afx.maximum, [INF, INF], [0.5, 0.5], id="maximum of infinities"),
        pytest.param(afx.maximum, [0.0, -0.0], [0.5, 0.5], id="maximum of both zeros"),
        pytest.param(afx.minimum, [1.0, 1.0], [0.5, 0.5], id="minimum at a tie"),
        pytest.param(afx.max, [[1.0, 1.0, 0.0]], [[0.5, 0.5, 0.0]], id="max at a tie"),
        pytest.param(afx.max, [[2.0] * 4], [[0.25] * 4], id="max at a tie of four"),
        pytest.param(afx.max, [[-INF, -INF]], [[0.5, 0.5]], id="max of infinities"),
        pytest.param(afx.min, [[-INF, 1.0]], [[1.0, 0.0]], id="min with an infinity"),
        pytest.param(
            lambda x: afx.nn.max_pool(x, 2), [POOL], [np.float64(POOL > 0) * [[[1], [0], [1], [1]]]], id="pool"
        ),
        pytest.param(lambda x: afx.sort(x) * np.array([1.0, 3.0]), [[2.0, 2.0]], [[2.0, 2.0]], id="sort at a tie"),
        pytest.param(lambda x: afx.clip(x, 0, 1), [[0.0, 1.0, 0.5, -1.0, 2.0]], [[1.0, 1.0, 1.0, 0.0, 0.0]], id="clip"),
        pytest.param(lambda x: afx.clip(x, 0.0, 1.0), [[INF, -INF]], [[0.0, 0.0]], id="clip of infinities"),
        pytest.param(afx.nn.relu, [[0.0, 1.0, -1.0]], [[0.0, 1.0, 0.0]], id="relu"),
        pytest.param(afx.sqrt, [0.0], [INF], id="sqrt at 0"),
        pytest.param(afx.sqrt, [5e-324], [0.5 / np.sqrt(5e-324)], id="sqrt of a denormal"),
        pytest.param(afx.cbrt, [0.0], [INF], id="cbrt at 0"),
        pytest.param(afx.log1p, [-1.0], [INF], id="log1p at -1"),
        pytest.param(afx.logaddexp, [INF, 0.0], [1.0, 0.0], id="logaddexp(inf, 0)"),
        pytest.param(afx.logaddexp, [-INF, 0.0], [0.0, 1.0], id="logaddexp(-inf, 0)"),
        pytest.param(afx.logaddexp, [-INF, -INF], [0.5, 0.5], id="logaddexp(-inf, -inf)"),
        pytest.param(afx.logaddexp, [INF, INF], [0.5, 0.5], id="logaddexp(inf, inf)"),
        pytest.param(afx.logaddexp, [-700.0, 0.0], [np.exp(-700.0), 1.0], id="logaddexp in the tail"),
        pytest.param(afx.logsumexp, [[-INF, 0.0]], [[0.0, 1.0]], id="logsumexp with -inf"),
        pytest.param(afx.logsumexp, [[INF, 0.0]], [[1.0, 0.0]], id="logsumexp with inf"),
        pytest.param(afx.logsumexp, [[-INF, -INF]], [[0.5, 0.5]], id="logsumexp of -inf alone"),
        pytest.param(afx.logsumexp, [[-INF]], [[1.0]], id="logsumexp of one -inf"),
        pytest.param(afx.prod, [[0.0, 2.0, 3.0]], [[6.0, 0.0, 0.0]], id="prod with a zero"),
        pytest.param(afx.prod, [[0.0, 0.0, 3.0]], [[0.0, 0.0, 0.0]], id="prod with two zeros"),
        pytest.param(afx.cumulative_prod, [[2.0, 0.0, 3.0]], [[1.0, 8.0, 0.0]], id="running product with a zero"),
        pytest.param(afx.exp, [[-INF, -800.0]], [[0.0, 0.0]], id="exp far below"),
        pytest.param(afx.expm1, [[-INF, 0.0, -40.0]], [[0.0, 1.0, np.exp(-40.0)]], id="expm1 in the tail"),
        pytest.param(afx.tanh, [[INF, -INF, 1e308]], [[0.0, 0.0, 0.0]], id="tanh far out"),
        pytest.param(afx.sigmoid, [[INF, -INF, -700.0]], [[0.0, 0.0, np.exp(-700.0)]], id="sigmoid in the tail"),
        pytest.param(afx.softplus, [[INF, -INF, 1000.0]], [[1.0, 0.0, 1.0]], id="softplus far out"),
        pytest.param(afx.log_sigmoid, [[INF, -INF, 0.0]], [[0.0, 1.0, 0.5]], id="log_sigmoid far out"),
        pytest.param(afx.nn.silu, [[0.0, 1000.0, -1000.0]], [[0.5, 1.0, 0.0]], id="silu far out"),
        pytest.param(afx.nn.gelu, [[0.0, 1000.0, -1000.0]], [[0.5, 1.0, 0.0]], id="gelu far out"),
        pytest.param(afx.nn.elu, [[1000.0, -1000.0, INF, -INF]], [[1.0, 0.0, 1.0, 0.0]], id="elu far out"),
        pytest.param(lambda x: afx.nn.log_softmax(x)[0], [[-1000.0, 0.0]], [[1.0, -1.0]], id="log_softmax"),
        pytest.param(lambda x: afx.nn.softmax(x)[0], [[-INF, 0.0]], [[0.0, 0.0]], id="softmax with -inf"),
        pytest.param(afx.atan, [[INF, -INF]], [[0.0, 0.0]], id="atan at infinity"),
        pytest.param(afx.divide, [1.0, INF], [0.0, 0.0], id="division by infinity"),
        pytest.param(lambda x: afx.where(x > 0, afx.log(x), 0.0), [[0.0, 1.0]], [[0.0, 1.0]], id="masked log"),
        pytest.param(lambda x: afx.where(x == 0, 1.0, afx.sin(x) / x), [0.0], [0.0], id="masked sinc"),
        pytest.param(lambda x: afx.where(x > 0, x * afx.log(x), 0.0), [[0.0, 1.0]], [[0.0, 1.0]], id="masked x log x"),
        pytest.param(afx.sum, [np.zeros((0, 2))], [np.zeros((0, 2))], id="sum of nothing"),
        pytest.param(afx.prod, [np.zeros(0)], [np.zeros(0)], id="product of nothing"),
    ],
)
def test_first_order(fn: Callable[..., Any], xs: list[Any], expected: list[Any]) -> None:
    """Reverse mode, forward mode and compiled reverse mode all give the stated derivative."""
    points = tuple(np.asarray(x, np.float64) for x in xs)
    nums = tuple(range(len(points)))
    for gradient in (afx.grad(_sum(fn), nums), afx.jit(afx.grad(_sum(fn), nums))):
        for g, want in zip(gradient(*points), expected, strict=True):
            np.testing.assert_allclose(np.asarray(g), want, rtol=1e-14)
    for k, (x, want) in enumerate(zip(points, expected, strict=True)):
        for place in np.ndindex(x.shape):
            ts = [np.zeros_like(v) for v in points]
            ts[k][place] = 1.0
            slope = np.asarray(afx.jvp(_sum(fn), points, tuple(ts))[1])
            np.testing.assert_allclose(slope, np.asarray(want)[place], rtol=1e-14)


@together(
    ("fn", "x", "expected"),
    [
        pytest.param(afx.abs, 0.0, 0.0, id="abs"),
        pytest.param(lambda x: x**2, 0.0, 2.0, id="x ** 2"),
        pytest.param(lambda x: x**3, 0.0, 0.0, id="x ** 3"),
        pytest.param(lambda x: afx.pow(x, 2.0), 0.0, 2.0, id="pow(x, 2.0)"),
        pytest.param(lambda x: x**1, 0.0, 0.0, id="x ** 1"),
        pytest.param(lambda x: x**0, 0.0, 0.0, id="x ** 0"),
        pytest.param(lambda x: afx.pow(x, x), 1.0, 2.0, id="x ** x"),
        pytest.param(lambda x: afx.logaddexp(x, 0.0), 0.0, 0.25, id="logaddexp at a tie"),
        pytest.param(lambda x: afx.logaddexp(x, 0.0), 1000.0, 0.0, id="logaddexp far out"),
        pytest.param(lambda x: afx.logaddexp(x, 0.0), -INF, 0.0, id="logaddexp at -inf"),
        pytest.param(afx.softplus, 0.0, 0.25, id="softplus"),
        pytest.param(afx.softplus, 1000.0, 0.0, id="softplus far out"),
        pytest.param(afx.tanh, 1000.0, 0.0, id="tanh far out"),
        pytest.param(afx.sigmoid, -1000.0, 0.0, id="sigmoid far out"),
        pytest.param(afx.nn.relu, 0.0, 0.0, id="relu"),
        pytest.param(afx.nn.gelu, 0.0, np.sqrt(2 / np.pi), id="gelu"),
        pytest.param(lambda x: afx.maximum(x, 0.0), 0.0, 0.0, id="maximum at a tie"),
        pytest.param(lambda x: afx.clip(x, 0, 1) ** 2, 1.0, 2.0, id="clip on its bound"),
        pytest.param(lambda x: afx.atan2(x, 0.0), 0.0, 0.0, id="atan2 at the origin"),
        pytest.param(lambda x: afx.hypot(x, 0.0), 0.0, 0.0, id="hypot at the origin"),
        pytest.param(lambda x: afx.hypot(x, 2.0 * x), 0.0, 0.0, id="hypot at the origin, aslant"),
        pytest.param(lambda x: afx.hypot(x, 2.0), 0.0, 0.5, id="hypot on an axis"),
        pytest.param(lambda x: afx.vector_norm(afx.stack([x, x])), 0.0, 0.0, id="norm at the origin"),
        pytest.param(lambda x: afx.vector_norm(afx.stack([x, x]), ord=3), 0.0, 0.0, id="3-norm at the origin"),
        pytest.param(lambda x: afx.std(afx.stack([x, 2 * x])), 0.0, 0.0, id="std of equal values"),
        pytest.param(lambda x: afx.prod(afx.stack([x, x])), 0.0, 2.0, id="prod of zeros"),
        pytest.param(lambda x: afx.prod(afx.stack([x, x, x])), 0.0, 0.0, id="prod of three zeros"),
        pytest.param(lambda x: afx.where(x > 0, afx.sqrt(x), 0.0), 0.0, 0.0, id="masked sqrt"),
    ],
)
def test_second_order(fn: Callable[[Any], Any], x: float, expected: float) -> None:
    """Reverse over reverse, forward over reverse, reverse over forward and all compiled give the second derivative."""
    one, point = np.float64(1), np.float64(x)

    def forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda v: afx.jvp(f, (v,), (one,))[1]

    for second in (afx.grad(afx.grad(fn)), forward(afx.grad(fn)), afx.grad(forward(fn)), afx.hessian(fn)):
        for run in (second, afx.jit(second)):
            assert float(run(point)) == pytest.approx(expected, rel=1e-14)


def test_infinite_legs_of_hypot() -> None:
    """Next to an infinite leg the other does not count: the derivatives are their limits 1 and 0, to an ulp of 0."""
    for dtype in (np.float32, np.float64):
        for xs, want in (((INF, 1.0), (1.0, 0.0)), ((2.0, -INF), (0.0, -1.0))):
            for gradient in (afx.grad(afx.hypot, (0, 1)), afx.jit(afx.grad(afx.hypot, (0, 1)))):
                found = [float(g) for g in gradient(*map(dtype, xs))]
                np.testing.assert_allclose(found, want, rtol=1e-14, atol=1e-37)


@together(
    ("fn", "slope", "xs"),
    [
        (afx.expm1, np.exp, [-30.0, -1e-9]),
        (afx.tanh, lambda x: 1 / np.cosh(x) ** 2, [15.0, 1e-9]),
        (afx.sigmoid, lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2, [40.0, 1e-9]),
        (afx.softplus, lambda x: np.exp(x) / (1 + np.exp(x)), [-40.0, 30.0]),
        (afx.log1p, lambda x: 1 / (1 + x), [1e-17, 1e17]),
        (afx.asinh, lambda x: 1 / np.hypot(1, x), [1e-9, 1e9]),
        (afx.asin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), [1 - 1e-12, -1 + 1e-12]),
        (afx.acos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), [1 - 1e-12, -1 + 1e-12]),
        (afx.acosh, lambda x: 1 / np.sqrt((x - 1) * (x + 1)), [1 + 1e-12, 1e9]),
        (afx.atanh, lambda x: 1 / ((1 - x) * (1 + x)), [1 - 1e-12, 1e-9]),
        (afx.tan, lambda x: 1 / np.cos(x) ** 2, [1.5707, 1e-9]),
    ],
)
def test_no_digits_are_lost(fn: Callable[[Any], Any], slope: Callable[[Any], Any], xs: list[float]) -> None:
    """In the tails and near singularities derivatives are right to thirteen digits, in relative terms."""
    for x in map(np.float64, xs):
        want = float(slope(np.longdouble(x)))
        assert float(afx.grad(fn)(x)) == pytest.approx(want, rel=1e-13)
        assert float(afx.jit(afx.grad(fn))(x)) == pytest.approx(want, rel=1e-13)


@together("p", [p for p in afx.primitives() if p.is_elementwise and p.is_differentiable], ids=lambda p: p.name)
def test_no_nan_where_the_value_is_finite(p: Primitive) -> None:
    """At finite operands whose value is finite, a derivative is a number or an infinity, never nan."""
    count = len(p.derivative.vjps or ()) - p.condition_operands
    head = (np.array(True),) * p.condition_operands
    xs = [np.array(column) for column in zip(*itertools.product(FINITE, repeat=count), strict=True)]
    if p.name == "pow":  # of a negative base it is defined at integer exponents only, as its docstring says
        xs = [x[~(xs[0] < 0)] for x in xs]
    z, back = afx.vjp(lambda *v: bind(p, *head, *v), *xs)
    is_wrong = np.any([np.isnan(np.asarray(g)) for g in back(afx.ones_like(z))], axis=0) & np.isfinite(np.asarray(z))
    assert [x[is_wrong].tolist() for x in xs] == [[]] * count
