"""Wrong input to every transformation and loop: afx's own error, at once, with what was got and what to do."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.every import together

X = np.ones(3)
HOLD: dict[str, Any] = {
    "grad": afx.grad,
    "value_and_grad": afx.value_and_grad,
    "vjp": lambda f: afx.vjp(f, X),
    "jvp": lambda f: afx.jvp(f, (X,), (X,)),
    "linearize": lambda f: afx.linearize(f, X),
    "jacfwd": afx.jacfwd,
    "jacrev": afx.jacrev,
    "hessian": afx.hessian,
    "hvp": lambda f: afx.hvp(f, (X,), (X,)),
    "vmap": afx.vmap,
    "jit": afx.jit,
    "trace": afx.trace,
    "eval_shape": lambda f: afx.eval_shape(f, X),
    "checkpoint": afx.checkpoint,
    "custom_vjp": lambda f: afx.custom_vjp(f, afx.sin, afx.sin),
    "custom_vjp, forward": lambda f: afx.custom_vjp(afx.sin, f, afx.sin),
    "custom_vjp, backward": lambda f: afx.custom_vjp(afx.sin, afx.sin, f),
    "custom_jvp": lambda f: afx.custom_jvp(f, afx.sin),
    "custom_jvp, rule": lambda f: afx.custom_jvp(afx.sin, f),
    "scan": lambda f: afx.scan(f, 0.0, X),
    "cond": lambda f: afx.cond(True, f, afx.sin, X),
    "cond, false": lambda f: afx.cond(True, afx.sin, f, X),
    "switch": lambda f: afx.switch(0, [afx.sin, f], X),
    "while_loop, condition": lambda f: afx.while_loop(f, afx.sin, 1.0),
    "while_loop": lambda f: afx.while_loop(lambda c: c < 0, f, 1.0),
    "fori_loop": lambda f: afx.fori_loop(0, 0, f, 1.0),
    "associative_scan": lambda f: afx.associative_scan(f, X),
}
NAMES = {"value_and_grad": "grad"}


@together("name", HOLD)
@together("value", [3, None, X, afx.ones(2)], ids=["int", "None", "ndarray", "Array"])
def test_what_is_no_function_is_refused_at_once(name: str, value: Any) -> None:
    """A value in the place of a function, even of one that would not run, raises before anything does."""
    who = name.split(",", maxsplit=1)[0]
    if name == "jit" and value is None:
        return  # jit without a function makes a decorator
    with pytest.raises(errors.ArgumentError, match=rf"^{NAMES.get(who, who)}: needs a function: got .*; "):
        HOLD[name](value)


@together("name", ["grad", "value_and_grad", "vjp", "jvp", "jacfwd", "jacrev", "hessian"])
@together("value", ["a", None, (), {}], ids=repr)
def test_nothing_to_differentiate(name: str, value: Any) -> None:
    """Arguments without arrays raise and show their structure."""
    calls: dict[str, Any] = {"vjp": lambda f: afx.vjp(f, value), "jvp": lambda f: afx.jvp(f, (value,), (value,))}
    call = calls.get(name, lambda f: getattr(afx, name)(f)(value))
    with pytest.raises(errors.ArgumentError, match=r"nothing to differentiate: got arguments without arrays"):
        call(lambda _: afx.ones(()))


@together(
    ("run", "kind", "message"),
    [
        (
            lambda: afx.jvp(afx.sin, X, X),
            errors.OperandError,
            "jvp: primals are a tuple with one entry for each argument: got float64[3]; write jvp(fn, (x,), (t,))",
        ),
        (
            lambda: afx.jvp(afx.sin, (X,), afx.ones(3)),
            errors.OperandError,
            "jvp: tangents are a tuple with one entry for each argument: got float32[3]; write jvp(fn, (x,), (t,))",
        ),
        (
            lambda: afx.jvp(afx.sin, 1.0, 1.0),  # the mistake
            errors.OperandError,
            "jvp: primals are a tuple with one entry for each argument: got float (1.0); write jvp(fn, (x,), (t,))",
        ),
        (
            lambda: afx.hvp(afx.sum, X, X),
            errors.OperandError,
            "jvp: primals are a tuple with one entry for each argument: got float64[3]; write jvp(fn, (x,), (t,))",
        ),
        (
            lambda: afx.jvp(afx.sin, (X,), (np.ones(2),)),
            errors.ShapeError,
            "jvp: the shape of tangents[0] differs: got float64[2] for float64[3]; give those of the primal",
        ),
        (
            lambda: afx.linearize(afx.sin, X)[1](np.ones(2)),
            errors.ShapeError,
            "linearize: the shape of tangents[0] differs: got float64[2] for float64[3]; give those of the primal",
        ),
        (
            lambda: afx.linearize(afx.sin, X)[1](X, X),
            errors.TreeError,
            "linearize: the structure of tangents differs: got (…, …) for (…,); give them the structure of the primals",
        ),
        (
            lambda: afx.jacrev(lambda _: None)(X),
            errors.ArgumentError,
            "jacrev: <lambda> returns no arrays: got None; return what to differentiate",
        ),
        (
            lambda: afx.jacfwd(lambda _: None)(X),
            errors.ArgumentError,
            "jacfwd: <lambda> returns no arrays: got None; return what to differentiate",
        ),
        (
            lambda: afx.elementwise_grad(lambda _: None)(X),
            errors.ArgumentError,
            "elementwise_grad: <lambda> returns no arrays: got None; return what to differentiate",
        ),
        (
            lambda: afx.sparse_jacobian(lambda _: None)(X),
            errors.ArgumentError,
            "sparse_jacobian: the function returns no arrays: got none; return some",
        ),
        (
            lambda: afx.jacrev(afx.sin)(3),
            errors.DtypeError,
            (
                "jacrev: only floating and complex arrays have derivatives: got argument 0 = int64[]~; convert it to a "
                "float, mark the field with afx.static(), or choose other arguments"
            ),
        ),
        (
            lambda: afx.grad(afx.sum, has_aux=True)(afx.ones(2)),
            errors.OperandError,
            "grad with has_aux=True: sum must return (scalar, aux): got float32[]; return a pair",
        ),
        (
            lambda: afx.vmap(afx.sin, "a")(X),
            errors.TreeError,
            "vmap with in_axes: the prefix does not fit: got nothing for [0], where it has a str; give it the tree's",
        ),
        (
            lambda: afx.vmap(afx.sin, out_axes=(0, 0))(X),
            errors.TreeError,
            "vmap with out_axes: the prefix does not fit: got nothing for the top, where it has a tuple; give it the",
        ),
        (
            lambda: afx.jit(afx.sin, static_argnums="x"),  # the mistake
            errors.ArgumentError,
            "jit: static_argnums are positions: got 'x'; give integers, or use static_argnames=",
        ),
        (
            lambda: afx.grad(lambda x: afx.sum(afx.custom_vjp(afx.sin, lambda v: v, lambda r, ct: (ct,))(x)))(X),
            errors.OperandError,
            "custom_vjp of sin: forward must return (result, residuals): got float64[3]; return a pair",
        ),
        (
            lambda: afx.grad(lambda x: afx.sum(afx.custom_jvp(afx.sin, lambda p, t: t[0])(x)))(X),
            errors.OperandError,
            "custom_jvp of sin: the rule must return (result, tangent): got float64[3]; return a pair",
        ),
        (
            lambda: afx.jvp(afx.custom_jvp(afx.sin, lambda p, t: (p[0], afx.sum(t[0]))), (X,), (X,)),
            errors.ShapeError,
            "custom_jvp of sin: the shape of the tangent differs: got float64[] for float64[3]; return that of the result",
        ),
        (
            lambda: afx.scan(lambda c, x: c, 0.0, X),
            errors.OperandError,
            "scan: <lambda> must return (carry, y): got float32[]; return a pair",
        ),
        (
            lambda: afx.scan(lambda c, x: (c, x), 0.0, length=-3),
            errors.ArgumentError,
            "scan: length is a number of steps: got -3; give 0 or more",
        ),
        (
            lambda: afx.scan(lambda c, x: (c, x), 0.0, length="3"),  # the mistake
            errors.ArgumentError,
            "scan: length is an integer: got '3'; convert it",
        ),
        (
            lambda: afx.scan(lambda c, x: (c, x), 0.0, X, checkpoint=2.0),  # the mistake
            errors.ArgumentError,
            "scan: checkpoint is an integer: got 2.0; convert it",
        ),
        (
            lambda: afx.switch(0, afx.sin, X),  # the mistake
            errors.ArgumentError,
            "switch: branches are a list of functions: got function",
        ),
        (
            lambda: afx.fori_loop(0, 3.5, lambda i, c: c, 1.0),
            errors.DtypeError,
            "fori_loop: bounds are integers: got float (3.5); use astype",
        ),
        (
            lambda: afx.fori_loop(0, X, lambda i, c: c, 1.0),
            errors.DtypeError,
            "fori_loop: bounds are integers: got float64[3]; use astype",
        ),
        (
            lambda: afx.associative_scan(lambda a, b: (a, b), X),
            errors.TreeError,
            "associative_scan: the structure of the result differs: got (…, …) for a leaf; return the same",
        ),
        (
            lambda: afx.associative_scan(lambda a, b: afx.sum(a), X),
            errors.ShapeError,
            "associative_scan: the shape of the result differs: got float64[] for float64[1]; return the same shape and dtype",
        ),
        (
            lambda: afx.evaluate(3, X),  # the mistake
            errors.GraphError,
            "evaluate: runs a Graph: got int; make one with afx.trace(fn)(*args)",
        ),
        (
            lambda: afx.check(None),  # the mistake
            errors.GraphError,
            "check: verifies a Graph: got NoneType; make one with afx.trace(fn)(*args)",
        ),
    ],
)
def test_messages(run: Any, kind: type[Exception], message: str) -> None:
    """Each message begins as written here."""
    with pytest.raises(kind) as caught:
        run()
    text = str(caught.value).replace("<lambda>.<locals>.", "")
    assert text.startswith(message), text
