"""Solvers by jaxopt's names find what closed forms say, with implicit derivatives."""

import types
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import ArgumentError
from afx.migrate import for_jaxopt, for_optax, migrate_source

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 3)), RNG.normal(size=30)


def ridge(w: Any, l2: Any, data: Any) -> Any:
    """Return the mean square with a penalty."""
    x, y = data
    return ((x @ w - y) ** 2).mean() + 0.5 * l2 * (w * w).sum()


def closed(l2: float) -> Any:
    """Return where it is least."""
    return np.linalg.solve(2 * X.T @ X / 30 + l2 * np.eye(3), 2 * X.T @ Y / 30)


@pytest.mark.parametrize("name", ["LBFGS", "BFGS", "GradientDescent", "NonlinearCG", "ScipyMinimize"])
def test_minima(name: str) -> None:
    """Values to 1e-9, and the derivative by the penalty, a keyword, to 1e-5 of differences."""

    def least(l2: Any) -> Any:
        solver = getattr(for_jaxopt, name)(fun=ridge, tol=1e-11)
        return solver.run(np.zeros(3), l2=l2, data=(X, Y)).params

    with afx.default_dtype(afx.float64):  # of the penalty, a Python number
        np.testing.assert_allclose(least(0.3), closed(0.3), rtol=1e-9)
    slope = (closed(0.3 + 1e-6) - closed(0.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(afx.jacrev(least)(np.float64(0.3)), slope, rtol=1e-5)


def test_other_solvers() -> None:
    """Bounds, least squares, roots by brackets and from a start, fixed points, and auxiliary results."""
    bounded = for_jaxopt.ProjectedGradient(ridge, for_jaxopt.projection_non_negative, tol=1e-11)
    w = bounded.run(np.ones(3), l2=0.3, data=(X, Y)).params
    slope = afx.grad(ridge)(w, 0.3, (X, Y))
    assert (w >= 0).all()
    np.testing.assert_allclose(np.minimum(w, slope), 0.0, atol=1e-9)
    box = for_jaxopt.ProjectedGradient(ridge, for_jaxopt.projection_box, tol=1e-11)
    np.testing.assert_allclose(box.run(np.zeros(3), (-9.0, 9.0), 0.3, (X, Y)).params, closed(0.3), rtol=1e-8)
    fit = for_jaxopt.LevenbergMarquardt(residual_fun=lambda w: X @ w - Y, tol=1e-12).run(np.zeros(3))
    np.testing.assert_allclose(fit.params, np.linalg.lstsq(X, Y)[0], rtol=1e-9)
    assert bool(fit.state.success)
    cube = for_jaxopt.Bisection(optimality_fun=lambda x, a: x**3 - a, lower=0.0, upper=9.0)
    assert float(cube.run(None, 8.0).params) == float(cube.run(a=8.0).params) == pytest.approx(2.0, rel=1e-6)
    root = for_jaxopt.FixedPointIteration(fixed_point_fun=lambda x, a: 0.5 * (x + a / x), tol=1e-12)
    found = afx.value_and_grad(lambda a: root.run(np.float64(1.0), a).params)(np.float64(4.0))
    np.testing.assert_allclose(found, (2.0, 0.25), rtol=1e-9)
    pair = for_jaxopt.BFGS(lambda w: (ridge(w, 0.3, (X, Y)), "more"), has_aux=True, tol=1e-11).run(np.zeros(3))
    np.testing.assert_allclose(pair.params, closed(0.3), rtol=1e-8)


def test_proximal_steps() -> None:
    """The lasso's conditions hold, any projection leads into its set, states tell the error, derivatives are implicit."""
    solver = for_jaxopt.ProximalGradient(
        fun=for_jaxopt.least_squares, prox=for_jaxopt.prox_lasso, maxiter=3000, tol=1e-10
    )
    w, state = solver.run(np.zeros(3), hyperparams_prox=0.02, data=(X, Y))
    slope = X.T @ (X @ np.asarray(w) - Y) / 30
    assert 0 < np.count_nonzero(w) < 3
    np.testing.assert_allclose(np.where(np.asarray(w) != 0, np.sign(w) * slope, -0.02), -0.02, atol=1e-9)
    assert (abs(slope) <= 0.02 + 1e-9).all()
    assert (float(state.error) < 1e-10, bool(state.success)) == (True, True)
    onto = for_jaxopt.ProjectedGradient(ridge, for_jaxopt.projection_simplex, maxiter=3000, tol=1e-11)
    found = onto.run(np.ones(3) / 3, l2=0.3, data=(X, Y)).params
    slope = np.asarray(afx.grad(ridge)(found, 0.3, (X, Y)))
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(np.where(np.asarray(found) > 1e-9, slope - slope.min(), 0.0), 0.0, atol=1e-8)
    free = for_jaxopt.ProjectedGradient(ridge, lambda x, _: x, tol=1e-11)
    np.testing.assert_allclose(free.run(np.zeros(3), None, 0.3, (X, Y)).params, closed(0.3), rtol=1e-8)

    def least(strength: Any) -> Any:
        return solver.run(np.zeros(3), strength, (X, Y)).params.sum()

    rise = (float(least(np.float64(0.02 + 1e-5))) - float(least(np.float64(0.02 - 1e-5)))) / 2e-5
    np.testing.assert_allclose(afx.grad(least)(np.float64(0.02)), rise, rtol=1e-4)


def test_formulas() -> None:
    """Proximal operators, losses and objectives are jaxopt's."""
    jaxopt: Any = pytest.importorskip("jaxopt", reason="the reference is jaxopt's")
    v, w, labels = RNG.normal(size=5), RNG.normal(size=(3, 4)), RNG.integers(0, 4, size=30)
    half = (labels > 1).astype(int)
    calls: dict[str, tuple[Any, ...]] = {
        **{
            f"prox.prox_{n}": (v, 0.3, 0.5)
            for n in ("none", "lasso", "non_negative_lasso", "ridge", "non_negative_ridge", "group_lasso")
        },
        "prox.prox_elastic_net": (v, (0.3, 0.7), 0.5),
        "loss.huber_loss": (0.5, 2.0, 1.2),
        "loss.binary_hinge_loss": (1, 0.3),
        "loss.binary_perceptron_loss": (0, 0.3),
        "loss.binary_logistic_loss": (1, 0.3),
        "loss.multiclass_logistic_loss": (2, v),
        "objective.least_squares": (w[:, 0], (X, Y)),
        "objective.ridge_regression": (w[:, 0], 0.3, (X, Y)),
        "objective.binary_logreg": (w[:, 0], (X, half)),
        "objective.multiclass_logreg": (w, (X, labels)),
        "objective.l2_multiclass_logreg": (w, 0.3, (X, labels)),
    }
    for name, args in calls.items():
        home, _, last = name.partition(".")
        wanted = getattr(getattr(jaxopt, home), last)(*args)
        np.testing.assert_allclose(getattr(for_jaxopt, last)(*args), wanted, rtol=2e-6, err_msg=name)  # in float32
    text, remarks = migrate_source(
        "from jaxopt import objective, prox\nf = objective.least_squares, prox.prox_lasso\n", "jax"
    )
    assert ("for_jaxopt as prox" in text, remarks) == (True, [])


def test_solvers_of_ones_own() -> None:
    """`custom_root` and `custom_fixed_point` give them implicit derivatives."""
    solve = for_jaxopt.custom_root(lambda x, a: x**2 - a)(lambda _, a: np.sqrt(a))
    again = for_jaxopt.custom_fixed_point(lambda x, a: 0.5 * (x + a / x))(lambda _, a: np.sqrt(a))
    for fn in (solve, again):
        found = afx.value_and_grad(lambda a, fn=fn: fn(np.float64(1.0), a))(np.float64(9.0))
        np.testing.assert_allclose(found, (3.0, 1 / 6), rtol=1e-12)


def test_programs_say_so() -> None:
    """Lines of solvers are remarked on, and names stay."""
    rewritten, remarks = migrate_source("import jaxopt\ns = jaxopt.LBFGS(fun=f)\n", "jax")
    assert rewritten == "import afx.migrate.for_jaxopt as jaxopt\ns = jaxopt.LBFGS(fun=f)\n"
    assert [(r.line, r.advice.partition(":")[0]) for r in remarks] == [(2, "steps are afx's own")]


def test_steps_of_other_solvers_are_refused() -> None:
    """One step of least squares needs what is afx's own."""
    text = r"GaussNewton\.init_state: steps are afx's own; call run, or jaxopt\.OptaxSolver"
    with pytest.raises(AttributeError, match=text):
        for_jaxopt.GaussNewton(ridge).init_state(np.zeros(3))


@pytest.mark.parametrize("name", ["BFGS", "LBFGS", "NonlinearCG"])
def test_steps_with_a_line_search_lead_to_the_minimum(name: str) -> None:
    """States count, and know the value and the length of the gradient at the parameters that they come with."""

    def fn(w: Any, l2: Any, data: Any) -> Any:
        return ridge(w, l2, data), "more"

    solver, params = getattr(for_jaxopt, name)(fn, has_aux=True), np.zeros(3)
    state = solver.init_state(params, 0.3, data=(X, Y))
    assert float(state.value) == pytest.approx(float(ridge(params, 0.3, (X, Y))))
    for _ in range(25):
        params, state = solver.update(params, state, 0.3, data=(X, Y))
    np.testing.assert_allclose(params, closed(0.3), rtol=1e-9)
    assert (int(state.iter_num), state.aux) == (25, "more")
    assert float(state.value) == pytest.approx(float(ridge(params, 0.3, (X, Y))), rel=1e-14)
    slope = 2 * np.linalg.norm(X.T @ Y) / 30
    assert float(solver.l2_optimality_error(np.zeros(3), 0.3, (X, Y))) == pytest.approx(slope)
    sgd = for_jaxopt.OptaxSolver(fn, for_optax.sgd(0.1), has_aux=True)
    assert float(sgd.l2_optimality_error(np.zeros(3), 0.3, (X, Y))) == pytest.approx(slope)
    lasso = for_jaxopt.ProximalGradient(ridge, for_jaxopt.prox_lasso)
    assert float(lasso.l2_optimality_error(np.zeros(3), 1e9, 0.3, (X, Y))) == 0.0


def test_projections() -> None:
    """The nearest points of a simplex and of balls: Duchi and others' and a scaled vector."""
    np.testing.assert_allclose(for_jaxopt.projection_simplex(np.array([0.5, 1.2, -0.3])), [0.15, 0.85, 0.0], atol=1e-15)
    np.testing.assert_allclose(for_jaxopt.projection_simplex(np.array([3.0, 1.0]), 4.0), [3.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(for_jaxopt.projection_l1_ball(np.array([3.0, -1.0]), 2.0), [2.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(for_jaxopt.projection_l2_ball(np.array([3.0, 4.0]), 1.0), [0.6, 0.8], rtol=1e-15)


def walk(jaxopt: Any, np_: Any, slope: Any) -> list[Any]:
    """Return where steps of given lengths lead, and a derivative through the last of them."""

    def fun(p: Any, l2: Any, data: Any) -> Any:
        return ridge(p["w"], l2, data)

    start = {"w": np_.zeros(3)}
    solvers = [
        jaxopt.GradientDescent(fun, stepsize=step, acceleration=gathers, maxiter=7)
        for step in (0.05, lambda n: 0.1 / (1 + n))
        for gathers in (True, False)
    ]
    steps = [solver.run(start, 0.3, data=(X, Y)) for solver in solvers]
    prox = jaxopt.ProximalGradient(fun, prox=jaxopt.prox.prox_lasso, stepsize=0.05, maxiter=7)
    steps.append(prox.run(start, 0.2, 0.3, (X, Y)))
    for solver, args in (*[(solver, (0.3, (X, Y))) for solver in solvers], (prox, (0.2, 0.3, (X, Y)))):
        params, state = start, solver.init_state(start, *args)
        for _ in range(3):
            params, state = solver.update(params, state, *args)
        steps.append((params, state))
    last = jaxopt.GradientDescent(fun, stepsize=0.1, tol=1e-13, maxiter=900)
    derivative = slope(lambda l2: last.run(start, l2, (X, Y)).params["w"].sum())(0.3)
    return [x for p, s in steps for x in (p["w"], s.iter_num, s.error)] + [derivative]


def test_steps_of_given_lengths_are_jaxopts() -> None:
    """Gradient descent and proximal steps, with and without FISTA's momentum."""
    jaxopt, jax = (
        pytest.importorskip("jaxopt", reason="the reference is jaxopt's"),
        pytest.importorskip("jax", reason="the reference is JAX's"),
    )
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        for_jaxopt_ = types.SimpleNamespace(
            prox=for_jaxopt, GradientDescent=for_jaxopt.GradientDescent, ProximalGradient=for_jaxopt.ProximalGradient
        )
        found, want = walk(for_jaxopt_, afx, afx.grad), walk(jaxopt, jax.numpy, jax.grad)
    for z, w in zip(found, want, strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-10)


def solve_by_steps(jaxopt: Any, optax: Any, np_: Any) -> list[Any]:
    """Return what steps of Optax's find, by a whole run, over batches, and one by one."""

    def fun(p: Any, data: Any) -> Any:
        return ((data[0] @ p["w"] + p["b"] - data[1]) ** 2).mean(), p["b"]

    start = {"w": np_.zeros(3), "b": np_.zeros(())}
    adam = jaxopt.OptaxSolver(opt=optax.adam(0.1), fun=fun, maxiter=60, tol=0.02, has_aux=True)
    sgd = jaxopt.OptaxSolver(fun, optax.sgd(0.1, momentum=0.9), maxiter=12, tol=1e9, has_aux=True)
    batches = iter([(X[k : k + 8], Y[k : k + 8]) for k in range(0, 24, 8)] * 3)
    state = sgd.init_state(start, data=(X, Y))
    steps = [adam.run(start, data=(X, Y)), sgd.run_iterator(start, batches), sgd.update(start, state, (X, Y))]
    return [x for p, s in steps for x in (p["w"], p["b"], s.iter_num, s.value, s.error, s.aux)]


def test_steps_of_optax() -> None:
    """Parameters, values, norms of slopes and counts are jaxopt's to 1e-12; trees have its functions."""
    jaxopt, optax = (
        pytest.importorskip("jaxopt", reason="the reference is jaxopt's"),
        pytest.importorskip("optax", reason="the reference is Optax's"),
    )
    jax = pytest.importorskip("jax", reason="the reference is JAX's")
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        want = solve_by_steps(jaxopt, optax, jax.numpy)
        found = solve_by_steps(for_jaxopt, for_optax, afx)
    for z, w in zip(found, want, strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=1e-12)
    names: dict[str, Any] = {}
    exec(migrate_source("from jaxopt.tree_util import tree_add, tree_l2_norm", "jax")[0], names)
    assert names["tree_l2_norm"](names["tree_add"]([afx.ones(2)], [2 * afx.ones(2)])) == pytest.approx(18**0.5)


def follow(diffrax: Any, np_: Any, slope: Any) -> list[Any]:
    """Return states at times, at all steps and in between, and slopes by both adjoints."""

    def field(t: Any, y: Any, args: Any) -> Any:
        return {"x": y["v"], "v": -args["k"] * y["x"] + np_.sin(t)}

    def solve(k: Any, adjoint: Any, **options: Any) -> Any:
        start, own = (
            {"x": np_.asarray(1.0), "v": np_.asarray(0.5)},
            diffrax.PIDController(rtol=1e-9, atol=1e-9, pcoeff=0.1),
        )
        options = {"solver": diffrax.Tsit5(), "stepsize_controller": own, "adjoint": adjoint} | options
        return diffrax.diffeqsolve(diffrax.ODETerm(field), t0=0.0, t1=2.0, dt0=0.01, y0=start, args={"k": k}, **options)

    plain = diffrax.RecursiveCheckpointAdjoint()
    times = solve(2.0, plain, saveat=diffrax.SaveAt(ts=np_.asarray([0.5, 1.0, 1.5]), t0=True, t1=True, dense=True))
    last = solve(2.0, plain)
    euler = {"solver": diffrax.Euler(), "stepsize_controller": diffrax.ConstantStepSize()}
    steps = solve(2.0, plain, saveat=diffrax.SaveAt(steps=True), **euler, max_steps=200)
    slopes = [slope(lambda k, a=a: solve(k, a).ys["x"][0])(2.0) for a in (plain, diffrax.BacksolveAdjoint())]
    ends = [times.result == diffrax.RESULTS.successful, *[steps.stats[f"num{n}_steps"] for n in ("", "_rejected")]]
    return [times.ts, times.ys["x"], times.evaluate(0.7)["v"], last.ys["x"], steps.ys["v"], *slopes, *ends]


def test_equations_are_diffraxs() -> None:
    """States at the times and steps that are kept agree to the tolerance; fixed steps are the same."""
    diffrax, jax = (
        pytest.importorskip("diffrax", reason="the reference is diffrax's"),
        pytest.importorskip("jax", reason="the reference is JAX's"),
    )
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        found, want = follow(for_jaxopt, afx, afx.grad), follow(diffrax, jax.numpy, jax.grad)
    for z, w in zip(found, want, strict=True):
        np.testing.assert_allclose(z, np.asarray(w), rtol=2e-8)
    source = "import diffrax as dfx\nsol = dfx.diffeqsolve(dfx.ODETerm(f), dfx.Heun(), 0.0, 1.0, 0.1, y)\n"
    text, remarks = migrate_source(source, "jax")
    assert text == source.replace("import diffrax", "import afx.migrate.for_jaxopt")
    assert {r.name for r in remarks} == {"dfx.diffeqsolve", "dfx.Heun"}
    with pytest.raises(ArgumentError, match="fixed steps of ImplicitEuler; give PIDController"):
        for_jaxopt.diffeqsolve(lambda t, y, _: -y, for_jaxopt.ImplicitEuler(), 0.0, 1.0, 0.1, 1.0)


IMPLICIT = """
import diffrax
import jax
import jax.numpy as jnp

solver = diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol=1e-10, atol=1e-10))
term = diffrax.ODETerm(lambda t, y, args: -20.0 * (y - jnp.cos(t)))
end = diffrax.diffeqsolve(term, solver, 0.0, 1.0, 0.02, jnp.array([0.0, 1.0])).ys
"""


def test_fixed_steps_of_implicit_methods_are_near_diffraxs() -> None:
    """Those of Radau IIA stand for them, and a remark says so."""
    jax: Any = pytest.importorskip("jax", reason="the reference is JAX's")
    pytest.importorskip("diffrax", reason="the reference is diffrax's")
    source, remarks = migrate_source(IMPLICIT, "jax")
    assert [r.line for r in remarks if "Radau IIA" in r.advice] == [6]
    names: list[dict[str, Any]] = [{}, {}]
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        for text, own in zip((IMPLICIT, source), names, strict=True):
            exec(text, own)
    np.testing.assert_allclose(names[1]["end"], np.asarray(names[0]["end"]), rtol=1e-5)


@pytest.mark.parametrize("name", ["Bosh3", "Dopri5", "Euler", "Heun", "Midpoint", "Ralston", "Tsit5"])
def test_fixed_steps_are_diffraxs(name: str) -> None:
    """Of methods that afx has by the same name, in all digits."""
    diffrax, jax = (
        pytest.importorskip("diffrax", reason="the reference is diffrax's"),
        pytest.importorskip("jax", reason="the reference is JAX's"),
    )

    def end(library: Any, np_: Any) -> Any:
        def field(t: Any, y: Any, k: Any) -> Any:
            return np_.sin(t) - k * y**2

        is_between = name in ("Bosh3", "Dopri5", "Tsit5")  # whose interpolants are diffrax's, too
        solver, times = getattr(library, name)(), np_.asarray([0.33 if is_between else 0.3, 1.0])
        term, saved = library.ODETerm(field), [library.SaveAt(ts=times), library.SaveAt(t0=True, steps=True)]
        there = library.diffeqsolve(term, solver, 0.0, 1.0, 0.1, 0.5, 2.0, saveat=saved[0])
        back = library.diffeqsolve(
            term,
            solver,
            1.0,
            0.0,
            -0.125,
            0.5,
            2.0,
            saveat=saved[1],
            max_steps=8,
            progress_meter=library.NoProgressMeter(),
        )
        return np_.concatenate([there.ys, back.ts, back.ys])

    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        np.testing.assert_allclose(end(for_jaxopt, afx), np.asarray(end(diffrax, jax.numpy)), rtol=1e-13)


EVENTS = """import diffrax
import optimistix as optx
import jax
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)

def fall(t, y, drag):
    return jnp.stack([y[1], -9.81 - drag * y[1]])

finder = optx.Newton(1e-10, 1e-10, optx.rms_norm)
fns = [lambda t, y, args, **kwargs: y[0] - 5.0, lambda t, y, args, **kwargs: y[1] + 3.0]

def solve(drag, event, end=jnp.inf, **options):
    size = diffrax.PIDController(rtol=1e-10, atol=1e-10)
    start = jnp.array([10.0, 1.0])
    return diffrax.diffeqsolve(
        diffrax.ODETerm(fall), diffrax.Tsit5(), 0.0, end, 0.1, start, drag, stepsize_controller=size, event=event, **options
    )

first = solve(0.1, diffrax.Event(fns, finder))
down = solve(0.1, diffrax.Event(fns[0], finder, direction=False))
up = solve(0.1, diffrax.Event(fns, finder, direction=[True, None]))
slope = jax.grad(lambda drag: solve(drag, diffrax.Event(fns[0], finder)).ts[0])(0.1)
times = jnp.array([0.2, 0.9, 1.5])
kept = solve(0.1, diffrax.Event(fns[0], finder), 2.0, saveat=diffrax.SaveAt(ts=times, t1=True))
never = solve(0.1, diffrax.Event(fns[0], finder), 0.5)
of = solve(0.1, None, 1.0, saveat=diffrax.SaveAt(ts=times[:2], fn=lambda t, y, args: t + args * y[0]))
found = [[r.ts, r.ys] for r in (first, down, up, kept, never, of)] + [slope]
ends = [r.result == diffrax.RESULTS.event_occurred for r in (first, kept, never)]
name = type(diffrax.Tsit5()).__name__
"""


def test_events_are_diffraxs() -> None:
    """Integrations end where functions cross 0, up, down or both ways; functions of states are kept."""
    jax: Any = pytest.importorskip("jax", reason="the reference is JAX's")
    pytest.importorskip("diffrax", reason="the reference is diffrax's")
    ours, theirs = dict[str, Any](), dict[str, Any]()
    x64 = jax.config.jax_enable_x64
    with jax.enable_x64(True), afx.default_dtype(afx.float64):
        exec(EVENTS, theirs)
        exec(migrate_source(EVENTS, "jax")[0], ours)
    jax.config.update("jax_enable_x64", x64)  # the program set it
    for z, want in zip(afx.pytree.leaves(ours["found"]), jax.tree.leaves(theirs["found"]), strict=True):
        np.testing.assert_allclose(z, np.asarray(want), rtol=1e-8, atol=1e-8)
    assert [bool(end) for end in ours["ends"]] == [bool(end) for end in theirs["ends"]] == [True, True, False]
    assert ours["name"] == "Tsit5"
    for finder, is_number in ((None, True), (for_jaxopt.Newton(), False)):
        event = for_jaxopt.Event(lambda t, y, _, w=is_number: y if w else y < 0, finder)
        with pytest.raises(ArgumentError, match="Event: steps are afx's own: give a root_finder"):
            for_jaxopt.diffeqsolve(lambda t, y, _: -1.0, for_jaxopt.Tsit5(), 0.0, 2.0, 0.1, 1.0, event=event)


SPARSE = """
import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.experimental.sparse import BCOO

dense = jnp.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
m = BCOO.fromdense(dense)
twice = BCOO((jnp.array([1.0, 2.0, 4.0]), jnp.array([[2, 0], [0, 1], [2, 0]])), shape=(3, 2))
seen = [m.data, m.indices, m.T.indices, twice.todense(), (m / 2.0 + m).todense(), (-m).T.todense(), sparse.eye(2).todense()]
seen += [jax.jit(lambda a, v: a @ v)(m, jnp.arange(3.0)), sparse.sparsify(lambda v, a: v @ a)(jnp.ones(2), m)]
seen += [jax.grad(lambda w: ((BCOO((w, m.indices), shape=m.shape) @ dense.T) ** 2).sum())(m.data), m.sum()]
sizes = m.nse, m.shape, m.dtype.name, m.transpose().shape
"""


def test_sparse_matrices_are_jaxs() -> None:
    """Entries, products, sums, multiples and derivatives by them."""
    pytest.importorskip("jax", reason="the reference is JAX's")
    source, remarks = migrate_source(SPARSE, "jax")
    names: list[dict[str, Any]] = [{}, {}]
    for text, own in zip((SPARSE, source), names, strict=True):
        exec(text, own)
    assert not remarks
    assert names[0]["sizes"] == names[1]["sizes"]
    for want, found in zip(names[0]["seen"], names[1]["seen"], strict=True):
        np.testing.assert_allclose(found, np.asarray(want), rtol=1e-6)
