"""Rules of the user's own: they hold in every order and nesting, and whatever they give arrives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import TracerError

Fn = Callable[[Any], Any]
X = np.array([2.0, -3.0])

steep = afx.custom_jvp(afx.abs, lambda x, t: (afx.abs(x[0]), 7.0 * t[0]))  # |x| with the derivative 7


def squares(z: Any) -> Any:
    """Return the sum of squares."""
    return afx.sum(z**2)


PLACES: dict[str, Fn] = {  # all with the Hessian 2·7² on the diagonal
    "plain": lambda x: squares(steep(x)),
    "jit inside": lambda x: squares(afx.jit(steep)(x)),
    "jit of all": afx.jit(lambda x: squares(steep(x))),
    "scan": lambda x: afx.scan(lambda c, y: (c + steep(y) ** 2, None), 0.0, x)[0],
    "scan in pieces": lambda x: afx.scan(lambda c, y: (c + steep(y) ** 2, None), 0.0, x, checkpoint=1)[0],
    "carry": lambda x: squares(afx.scan(lambda c, _: (steep(c), None), x, None, length=1)[0]),
    "fori_loop": lambda x: afx.fori_loop(0, 2, lambda k, c: c + steep(x[k]) ** 2, 0.0),
    "cond": lambda x: squares(afx.cond(afx.sum(x) < 9.0, steep, lambda v: v, x)),
    "checkpoint": lambda x: squares(afx.checkpoint(steep)(x)),
    "vmap": lambda x: squares(afx.vmap(steep)(x)),
    "vmap of jit": lambda x: squares(afx.vmap(afx.jit(steep))(x)),
    "masked": lambda x: afx.sum(afx.where(x > 9.0, 0.0, steep(x) ** 2)),
    "tree": lambda x: squares(PAIR({"a": x[0], "b": x[1]})["a"]) + squares(PAIR({"a": x[0], "b": x[1]})["b"]),
}
PAIR: Any = afx.custom_jvp(
    lambda d: {"a": afx.abs(d["a"]), "b": afx.abs(d["b"])},
    lambda d, t: (d[0], {"a": 7.0 * t[0]["a"], "b": 7.0 * t[0]["b"]}),
)
SECOND: dict[str, Callable[[Fn], Fn]] = {
    "forward over reverse": afx.hessian,
    "reverse over reverse": lambda f: afx.jacrev(afx.grad(f)),
    "reverse over forward": lambda f: afx.jacrev(afx.jacfwd(f)),
    "forward over forward": lambda f: afx.jacfwd(afx.jacfwd(f)),
    "compiled forward over reverse": lambda f: afx.jit(afx.hessian(f)),
    "compiled reverse over reverse": lambda f: afx.jit(afx.jacrev(afx.grad(f))),
    "compiled forward over forward": lambda f: afx.jit(afx.jacfwd(afx.jacfwd(f))),
    "reverse over compiled": lambda f: afx.jacrev(afx.jit(afx.grad(f))),
    "batched": lambda f: lambda x: afx.vmap(afx.hessian(f))(x[None])[0],
    "linearize": lambda f: lambda x: afx.vmap(afx.linearize(afx.grad(f), x)[1])(np.eye(2)),
}


@pytest.mark.parametrize("second", SECOND)
def test_second_derivatives_follow_the_rule(second: str) -> None:
    """The result of a custom_jvp has the rule's derivative under every outer transformation, not the function's own."""
    for place, fn in PLACES.items():
        found = np.asarray(SECOND[second](fn)(X))
        np.testing.assert_allclose(found, 98.0 * np.eye(2), rtol=1e-13, atol=1e-13, err_msg=place)


def test_products_of_a_hessian_follow_the_rule() -> None:
    """So do `hvp`, and the products with a vector of both nestings."""
    fn, v = PLACES["plain"], np.array([1.0, 2.0])
    assert afx.hvp(fn, (X,), (v,)).tolist() == [98.0, 196.0]
    assert afx.jit(lambda x: afx.hvp(fn, (x,), (v,)))(X).tolist() == [98.0, 196.0]
    assert afx.grad(lambda x: afx.sum(afx.grad(fn)(x) * v))(X).tolist() == [98.0, 196.0]
    assert afx.grad(lambda x: afx.jvp(fn, (x,), (v,))[1])(X).tolist() == [98.0, 196.0]


@pytest.mark.parametrize("compile", [lambda f: f, afx.jit], ids=["eager", "compiled"])
def test_third_and_fourth_derivatives_follow_the_rule(compile: Callable[[Fn], Fn]) -> None:
    """A function whose rule says f' = 2f has the derivatives 2f, 4f, 8f and 16f, in all 16 nestings of both modes."""
    fn: Fn = afx.custom_jvp(afx.sin, lambda x, t: (afx.sin(x[0]), 2.0 * fn(x[0]) * t[0]))
    slopes: list[Callable[[Fn], Fn]] = [afx.grad, lambda f: lambda x: afx.jvp(f, (x,), (np.float64(1.0),))[1]]
    for choice in range(16):
        run = fn
        for order in range(4):
            run = slopes[choice >> order & 1](run)
            want = 2.0 ** (order + 1) * np.sin(0.7)
            if order < 2 or choice in {0, 5, 15}:
                np.testing.assert_allclose(float(compile(run)(np.float64(0.7))), want, rtol=1e-13)


def test_the_function_runs_once_where_nothing_looks_on() -> None:
    """A first derivative runs the function, or the rule, once; values of outer transformations alone need both."""
    runs: list[str] = []

    def fn(x: Any) -> Any:
        runs.append("fn")
        return afx.sin(x)

    def rule(x: Any, t: Any) -> Any:
        runs.append("rule")
        return afx.sin(x[0]), afx.cos(x[0]) * t[0]

    held = afx.custom_jvp(fn, rule)
    afx.jvp(held, (1.0,), (1.0,))
    assert runs == ["rule"]
    runs.clear()
    afx.grad(held)(1.0)
    assert runs == ["fn", "rule"]


def test_the_rule_of_a_function_that_closes_over_a_traced_value() -> None:
    """Second derivatives follow the rule, too, where jit makes an operand of what is closed over."""

    def loss(x: Any, w: Any) -> Any:
        bent = afx.custom_jvp(lambda v: afx.abs(v) * w, lambda p, t: (afx.abs(p[0]) * w, 7.0 * t[0] * w))
        return squares(bent(x))

    for second in (afx.hessian(loss), afx.jacrev(afx.grad(loss)), afx.jacfwd(afx.jacfwd(loss))):
        found = np.asarray(afx.jit(second)(X, np.array([1.0, 2.0])))
        np.testing.assert_allclose(found, np.diag([98.0, 392.0]), rtol=1e-13)


def test_second_derivatives_of_custom_vjp_are_those_of_its_parts() -> None:
    """``forward`` is differentiated as written: calling the function itself makes the rule hold in every order."""
    pull = lambda _, ct: (7.0 * ct,)
    written = afx.custom_vjp(afx.abs, lambda x: (afx.abs(x), None), pull)
    itself: Any = afx.custom_vjp(afx.abs, lambda x: (itself(x), None), pull)
    for compile in (lambda f: f, afx.jit):
        for run in (afx.jacrev(afx.grad(lambda x: squares(written(x)))), afx.hessian(lambda x: squares(written(x)))):
            np.testing.assert_allclose(np.asarray(compile(run)(X)), np.diag([14.0, -14.0]), rtol=1e-13)
        second = compile(afx.jacrev(afx.grad(lambda x: squares(itself(x)))))
        np.testing.assert_allclose(np.asarray(second(X)), 98.0 * np.eye(2), rtol=1e-13)


# -- cotangents that only a rule explains -----------------------------------------------------------------------------
ALIVE = np.array([False, True, True])
POINT = np.array([0.0, 1.25, 4.0])
PULLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[Any]]] = {
    "reversal": (  # the strength gets a cotangent that its forward does not explain
        afx.custom_vjp(
            lambda x, s: x * 1.0, lambda x, s: (x * 1.0, (s, x)), lambda r, ct: (-r[0] * ct, afx.sum(ct * r[1]))
        ),
        (POINT, np.float64(2.0)),
        [[0.0, -5.0, -16.0], 2 * (1.25**2 + 16.0)],
    ),
    "straight through": (
        afx.custom_vjp(lambda x, w: afx.round(x), lambda x, w: (afx.round(x), x), lambda x, ct: (ct, ct * x)),
        (POINT, np.ones(3)),
        [[0.0, 2.0, 8.0], [0.0, 2.5, 32.0]],
    ),
    "centred": (  # what one element gets depends on the cotangents of all
        afx.custom_vjp(lambda x: x * 1.0, lambda x: (x * 1.0, None), lambda _, ct: (ct - afx.mean(ct),)),
        (POINT,),
        [[-3.5, -1.0, 4.5]],
    ),
    "nothing read": (
        afx.custom_vjp(
            lambda x: afx.ones(3, dtype=x.dtype), lambda x: (afx.ones(3, dtype=x.dtype), None), lambda _, ct: (3 * ct,)
        ),
        (POINT,),
        [[0.0, 6.0, 6.0]],
    ),
}
SELECTIONS: dict[str, Fn] = {"where": lambda z: afx.where(ALIVE, z, 0.0), "slice": lambda z: z[1:]}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("pull", PULLS)
def test_what_a_rule_gives_arrives(pull: str, selection: str) -> None:
    """Masks take nothing away that a backward rule gives, eager and compiled, though the function reads no such operand."""
    held, point, want = PULLS[pull]
    loss = lambda *xs: squares(SELECTIONS[selection](held(*xs)))
    slope = afx.grad(loss, tuple(range(len(point))))

    def batched(*xs: Any) -> Any:
        return [z[0] for z in afx.vmap(slope)(*[x[None] for x in xs])]

    runs = (slope, afx.jit(slope), afx.grad(afx.jit(loss), tuple(range(len(point)))), batched, afx.jit(batched))
    for run in (*runs, afx.grad(afx.checkpoint(loss), tuple(range(len(point))))):
        for found, wanted in zip(run(*point), want, strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-13, atol=1e-13)


def test_what_a_rule_gives_goes_on_behind_a_root() -> None:
    """An operand that only the rule mentions may have been computed; where the rule gives 0, an infinite slope adds none."""
    held = PULLS["straight through"][0]
    loss = lambda w: squares(afx.where(ALIVE, held(POINT, afx.sqrt(w)), 0.0))
    want = [0.0, 2.5 / 4, 32.0 / 6]
    for run in (afx.grad(loss), afx.jit(afx.grad(loss)), afx.grad(afx.jit(loss))):
        np.testing.assert_allclose(np.asarray(run(np.array([0.0, 4.0, 9.0]))), want, rtol=1e-13)


def test_a_forward_rule_of_several_arrays_gives_each_its_share() -> None:
    """Operands on and off the tape, one operand twice, several results, one of them without a slope."""
    f = afx.custom_jvp(
        lambda x, y: (x * y, afx.sin(x), afx.sign(x)),
        lambda p, t: (
            (p[0] * p[1], afx.sin(p[0]), afx.sign(p[0])),
            (t[0] * p[1] + p[0] * t[1], t[0] * afx.cos(p[0]), afx.zeros_like(p[0])),
        ),
    )
    x = np.array([0.5, 1.5])

    def loss(x: Any) -> Any:
        product, sine, sign = f(x, x)
        return afx.sum(product * sine * sign + f(x, afx.asarray(np.float64(3.0)))[0])

    want = 2 * x * np.sin(x) + x**2 * np.cos(x) + 3.0
    np.testing.assert_allclose(np.asarray(afx.grad(loss)(x)), want, rtol=1e-15)


def test_the_slopes_of_a_rule_do_not_warn_ahead_of_the_backward_pass() -> None:
    """A slope that is infinite where `where` discards the result gives 0, and NumPy has nothing to say about it."""
    log = afx.custom_jvp(
        lambda x: afx.log(afx.maximum(x, 1e-300)), lambda p, t: (afx.log(afx.maximum(p[0], 1e-300)), t[0] / p[0])
    )
    x = np.array([0.0, 2.0])
    assert np.asarray(afx.grad(lambda x: afx.sum(afx.where(x > 0, log(x), 0.0)))(x)).tolist() == [0.0, 0.5]
    assert np.asarray(afx.grad(lambda x: log(x)[1])(x)).tolist() == [0.0, 0.5]


def test_a_rule_that_closes_over_a_traced_value_does_not_differentiate_it_in_silence() -> None:
    """Its share of the derivative is not in the rule: where it is wanted, that raises."""

    def loss(c: Any) -> Any:
        f = afx.custom_jvp(lambda x: x * 2.0, lambda p, t: (p[0] * 2.0, t[0] * c))
        return f(c * 3.0)

    with pytest.raises(TracerError):
        afx.grad(loss)(np.float64(2.0))


def test_numbers_as_residuals_take_the_dtype_of_the_operands() -> None:
    """A Python number that the forward rule keeps loses no digit beside float64."""
    f = afx.custom_vjp(lambda x: x * 0.1, lambda x: (x * 0.1, 0.1), lambda k, ct: (k * ct,))
    assert float(afx.grad(f)(np.float64(1.0))) == 0.1


HOLDERS: dict[str, Callable[[Fn], Fn]] = {
    "checkpoint": afx.checkpoint,
    "cond": lambda fn: lambda x: afx.cond(x[0] > 0.0, fn, lambda y: -y, x),
    "cond in checkpoint": lambda fn: afx.checkpoint(lambda x: afx.cond(x[0] > 0.0, fn, lambda y: -y, x)),
    "checkpoint in switch": lambda fn: lambda x: afx.switch(afx.argmin(x), [afx.exp, afx.checkpoint(fn)], x),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_second_derivatives_of_custom_vjp_within_branches_and_checkpoints(holder: str) -> None:
    """They are those of the forward rule's parts and the backward rule's, as without what holds the function."""
    half = afx.custom_vjp(afx.sin, lambda x: (afx.sin(x), x), lambda x, ct: (ct * afx.cos(x) / 2,))
    x = np.array([0.3, -1.1, 2.0])
    slopes = afx.grad(lambda x: squares(HOLDERS[holder](half)(x)))  # sin x cos x
    for second in (afx.jacfwd(slopes), afx.jacrev(slopes)):
        np.testing.assert_allclose(np.asarray(second(x)), np.diag(np.cos(2 * x)), atol=1e-15)
        np.testing.assert_allclose(np.asarray(afx.jit(second)(x)), np.diag(np.cos(2 * x)), atol=1e-15)
        np.testing.assert_allclose(np.asarray(afx.vmap(second)(x[None])[0]), np.diag(np.cos(2 * x)), atol=1e-15)
