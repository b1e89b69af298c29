"""Calls of autograd: functions with autograd's arguments, for programs that `python -m afx.migrate autograd` rewrote.

Programs written for afx call what is behind them: `afx.optim`, `afx.vjp`, `afx.jvp`, `afx.hvp`, `afx.custom_vjp`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx import integrate, optim, pytree, special
from afx.core import Array, is_traced
from afx.numpy._namespace import has_array
from afx.ops.creation.creation import asarray, stop_gradient
from afx.ops.elementwise.arithmetic import add
from afx.ops.manipulation.shape import astype
from afx.ops.reductions import cumulative
from afx.testing import check_grads as check_derivatives
from afx.transforms.custom_derivatives import custom_vjp
from afx.transforms.derivatives import grad as derivatives
from afx.transforms.derivatives.jvp import jvp

__all__ = [
    "adam", "check_grads", "defvjp", "deriv", "elementwise_grad", "fixed_point", "flatten", "flatten_func", "getval",
    "grad", "grad_and_aux", "grad_named", "hessian_tensor_product", "holomorphic_grad", "make_hvp", "make_jvp",
    "make_vjp", "odeint", "primitive", "rmsprop", "sgd", "tensor_jacobian_product", "value_and_grad",
]  # fmt: skip

Function = Callable[..., Any]


def __getattr__(name: str) -> Any:
    """Return a function of `afx.special`, which gives ndarrays where no operand is an Array."""
    fn = cumulative.logsumexp if name == "logsumexp" else getattr(special, name, None)
    if fn is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    @functools.wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        results = fn(*args, **kwargs)
        return results if has_array(args) else _plain_tree(results)

    return plain


Callback = Callable[[Any, int, Any], object]


# --- Optimizers: loops with a callback
def adam(
    grad: Callable[[Any, int], Any],
    x0: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Return a tree of parameters after steps of Adam along ``grad(x, i)``; ``callback(x, i, g)`` is called before each.

    >>> adam(lambda x, i: 2.0 * x, np.ones(1), num_iters=3, step_size=0.1).round(3)
    array([0.702])
    """
    return _descend(optim.adam(step_size, b1=b1, b2=b2, eps=eps), grad, x0, callback, num_iters)


def sgd(
    grad: Callable[[Any, int], Any],
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Return a tree of parameters after steps with momentum, whose velocity is an average of gradients, as `adam` does.

    >>> sgd(lambda x, i: 2.0 * x, np.ones(1), num_iters=2, mass=0.5)
    array([0.76])
    """
    return _descend(optim.sgd(step_size * (1.0 - mass), momentum=mass), grad, x, callback, num_iters)


def rmsprop(
    grad: Callable[[Any, int], Any],
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Return a tree of parameters after steps divided by root mean squares, whose averages start at 1, as `adam` does.

    >>> rmsprop(lambda x, i: 2.0 * x, np.ones(1), num_iters=1, gamma=0.75)
    array([0.84881421])
    """
    average = pytree.map(np.ones_like, x)

    def scaled(g: Any) -> Any:
        nonlocal average
        average = pytree.map(lambda a, v: a * gamma + v**2 * (1.0 - gamma), average, g)
        return pytree.map(lambda a, v: v / (a**0.5 + eps), average, g)

    return _descend(optim.sgd(step_size), grad, x, callback, num_iters, scaled)


def _descend(
    optimizer: Any,
    grad: Callable[[Any, int], Any],
    x: Any,
    callback: Callback | None,
    num_iters: int,
    scaled: Callable[[Any], Any] | None = None,
) -> Any:
    """Return parameters after steps of an optimizer, as ndarrays where nothing is traced."""
    x = pytree.map(_to_float, x)
    state = optimizer.init(x)
    for i in range(num_iters):
        g = _plain_tree(grad(x, i))
        if callback is not None:
            callback(x, i, g)
        x, state = optimizer.step(x, g if scaled is None else scaled(g), state)
        x = _plain_tree(x)
    return x


def _to_float(x: Any) -> Any:
    return x if is_traced(x) else np.asarray(x, None if np.asarray(x).dtype.kind in "fc" else float)


def _in_double(x: Any) -> Any:
    return np.asarray(x, complex if isinstance(x, complex) else float) if isinstance(x, (int, float, complex)) else x


def _plain(x: Any) -> Any:
    """Return an Array that nothing traces as an ndarray, which may be written."""
    return x if is_traced(x) or not isinstance(x, Array) else np.array(x)


def _plain_tree(tree: Any) -> Any:
    return pytree.map(_plain, tree)


# --- Derivatives
def _of_argument(
    fun: Function, argnum: int | Sequence[int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[Any], Any], Any]:
    """Return a function of the chosen argument, or of the tuple of those chosen, and its value."""
    places = [argnum] if isinstance(argnum, int) else list(argnum)

    def of_chosen(x: Any) -> Any:
        given = list(args)
        for place, value in zip(places, [x] if isinstance(argnum, int) else x, strict=True):
            given[place] = value
        return fun(*given, **kwargs)

    chosen = tuple([pytree.map(_in_double, args[place]) for place in places])
    return of_chosen, chosen[0] if isinstance(argnum, int) else chosen


def grad(fun: Function, argnum: int | Sequence[int] = 0) -> Function:
    """Return the gradient of a function whose result is one number of any shape, as ndarrays where nothing is traced.

    >>> grad(lambda x: x**2)(np.array([3.0]))
    array([6.])
    """
    return lambda *args, **kwargs: value_and_grad(fun, argnum)(*args, **kwargs)[1]


def value_and_grad(fun: Function, argnum: int | Sequence[int] = 0) -> Function:
    """Return a function for the value, which is one number of any shape, and the gradient, as `grad` does.

    >>> value_and_grad(lambda x: x**2)(np.array([3.0]))
    (array([9.]), array([6.]))
    """

    def derivative(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        of_chosen, x = _of_argument(fun, argnum, args, kwargs)

        def number(x: Any) -> tuple[Any, Any]:
            value = of_chosen(x)
            return (np.reshape(value, ()) if np.size(value) == 1 else value), value

        g, value = _plain_tree(derivatives.grad(number, has_aux=True)(x))
        return value, g

    return derivative


def grad_named(fun: Function, argname: str) -> Function:
    """Return the gradient by the argument of a name."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def grad_and_aux(fun: Function, argnum: int | Sequence[int] = 0) -> Function:
    """Return a function for the gradient of the first of two results, and the second.

    >>> grad_and_aux(lambda x: (x**2, "of x"))(3.0)
    (array(6.), 'of x')
    """

    def derivative(*args: Any, **kwargs: Any) -> Any:
        of_chosen, x = _of_argument(fun, argnum, args, kwargs)
        return _plain_tree(derivatives.grad(of_chosen, has_aux=True)(x))

    return derivative


def make_vjp(fun: Function, argnum: int | Sequence[int] = 0) -> Function:
    """Return a function for the pullback at a point, and the value.

    >>> import afx
    >>> pullback, value = make_vjp(np.sin)(afx.asarray(0.0))
    >>> pullback(2.0)
    array(2., dtype=float32)
    """

    def linearized(*args: Any, **kwargs: Any) -> tuple[Function, Any]:
        of_chosen, x = _of_argument(fun, argnum, args, kwargs)
        value, pullback = derivatives.vjp(of_chosen, x)

        def plain_pullback(g: Any) -> Any:
            return _plain_tree(pullback(_like(g, value))[0])

        return plain_pullback, _plain_tree(value)

    return linearized


def make_jvp(fun: Function, argnum: int | Sequence[int] = 0) -> Function:
    """Return a function of a point for one of a direction, for the value and its tangent.

    >>> import afx
    >>> make_jvp(np.sin)(afx.asarray(0.0))(2.0)
    (array(0., dtype=float32), array(2., dtype=float32))
    """

    def linearized(*args: Any, **kwargs: Any) -> Function:
        of_chosen, x = _of_argument(fun, argnum, args, kwargs)

        def pushforward(v: Any) -> Any:
            return _plain_tree(jvp(of_chosen, (x,), (_like(v, x),)))

        return pushforward

    return linearized


def _like(v: Any, x: Any) -> Any:
    """Return cotangents or tangents in the dtypes of what they belong to."""
    return pytree.map(lambda a, b: astype(asarray(a), asarray(b).dtype), v, x)


def make_hvp(fun: Function, argnum: int | Sequence[int] = 0) -> Function:
    """Return a function for the product of the Hessian at a point with a direction, and the gradient there."""
    return make_vjp(grad(fun, argnum), argnum)


def elementwise_grad(fun: Function, argnum: int = 0) -> Function:
    """Return the sums of the Jacobian's columns: the derivative of each element of a function that takes them one by one.

    >>> elementwise_grad(np.tanh)(0.0)
    array(1.)
    """

    def derivative(*args: Any, **kwargs: Any) -> Any:
        pullback, value = make_vjp(fun, argnum)(*args, **kwargs)
        return pullback(np.ones_like(value))

    return derivative


def holomorphic_grad(fun: Function, argnum: int = 0) -> Function:
    """Return the derivative of a function of complex numbers that has one in each direction alike.

    >>> holomorphic_grad(lambda z: z**2)(1j)
    array(0.+2.j)
    """

    def derivative(*args: Any, **kwargs: Any) -> Any:
        of_chosen, x = _of_argument(fun, argnum, args, kwargs)
        return _plain_tree(derivatives.grad(of_chosen, holomorphic=True)(x))

    return derivative


def deriv(fun: Function, argnum: int = 0) -> Function:
    """Return the derivative in forward mode along ones.

    >>> deriv(lambda x: x**2)(3.0)
    array(6.)
    """
    return lambda *args, **kwargs: make_jvp(fun, argnum)(*args, **kwargs)(pytree.map(np.ones_like, args[argnum]))[1]


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """Return a function of the arguments and a direction, for the product of the Hessian with it.

    >>> import afx
    >>> hessian_tensor_product(lambda x: afx.sum(x**3))(np.ones(2), np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    return tensor_jacobian_product(grad(fun, argnum), argnum)  # in reverse mode twice: primitives have no other


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """Return a function of the arguments and a cotangent, for its product with the Jacobian."""
    return lambda *args, **kwargs: make_vjp(fun, argnum)(*args[:-1], **kwargs)[0](args[-1])


def check_grads(
    f: Function, argnum: int | Sequence[int] = 0, modes: Sequence[Any] | None = None, order: int = 2
) -> Function:
    """Return a function that compares the derivatives of a function at its arguments with differences.

    Raises:
        AssertionError: they differ.

    >>> import afx
    >>> check_grads(afx.sin, modes=["rev"])(0.5)
    """

    def check(*args: Any, **kwargs: Any) -> None:
        of_chosen, x = _of_argument(f, argnum, args, kwargs)
        check_derivatives(of_chosen, (x,), order, modes or ("fwd", "rev"), rtol=1e-6, atol=1e-6)

    return check


def getval(x: Any) -> Any:
    """Return what a traced array holds, without its derivative.

    >>> import afx
    >>> afx.grad(lambda x: x * getval(x))(3.0)
    Array(3., dtype=float32)
    """
    return stop_gradient(x) if isinstance(x, Array) else x


def flatten(value: Any) -> tuple[Any, Function]:
    """Return a tree as a vector, and a function that makes trees of vectors, as ndarrays where nothing is traced.

    >>> vector, unflatten = flatten({"a": 1.0, "b": np.zeros(2)})
    >>> unflatten(vector + 1.0)
    {'a': array(2.), 'b': array([1., 1.])}
    """
    vector, unravel = pytree.ravel(pytree.map(_to_float, value))

    def unflatten(x: Any) -> Any:
        return _plain_tree(unravel(asarray(x)))

    return _plain(vector), unflatten


def flatten_func(func: Function, example: Any) -> tuple[Function, Function, Any]:
    """Return a function of trees as one of vectors, what makes trees of them, and a tree like the example as a vector."""
    vector, unflatten = flatten(example)

    def of_vectors(x: Any, *args: Any) -> Any:
        return flatten(func(unflatten(x), *args))[0]

    return of_vectors, unflatten, vector


# --- Functions with derivatives of their own
def primitive(fn: Function) -> Function:
    """Return a function whose derivatives are those that `defvjp` gives it.

    >>> cube = primitive(lambda x: x**3)
    >>> defvjp(cube, lambda ans, x: lambda g: g * 3.0 * x**2)
    >>> grad(cube)(np.float64(2.0))
    array(12.)
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        def of_places(*args: Any) -> Any:
            return fn(*map(_plain_tree, args), **kwargs)

        def forward(*args: Any) -> tuple[Any, Any]:
            ans = ruled(*args)
            return ans, (ans, args)

        def backward(residuals: Any, g: Any) -> tuple[Any, ...]:
            ans, args = residuals
            return tuple([rules[n](ans, *args, **kwargs)(g) if n in rules else None for n in range(len(args))])

        ruled = custom_vjp(of_places, forward, backward)
        return ruled(*args)

    rules: dict[int, Function] = {}  # by argument
    run.rules = rules  # type: ignore[attr-defined]  # a function has attributes, which live as long as it
    run.__name__ = getattr(fn, "__name__", "primitive")
    run.__doc__ = fn.__doc__
    return run


def defvjp(fun: Function, *vjpmakers: Function | None, argnums: Sequence[int] | None = None) -> None:
    """Give a `primitive` its rules, one an argument: ``(ans, *args)`` to a function of the cotangent; None is zero."""
    places = range(len(vjpmakers)) if argnums is None else argnums
    rules: dict[int, Function] = getattr(fun, "rules")  # noqa: B009  # that `primitive` gave it
    rules.clear()
    rules.update({n: maker for n, maker in zip(places, vjpmakers, strict=False) if maker is not None})


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]], a: Any, x0: Any, distance: Callable[[Any, Any], Any], tol: float
) -> Any:
    """Return x with ``f(a)(x) = x``, iterated until it moves by no more than a distance; differentiable by ``a``.

    The derivative is that of the implicit function theorem, whose equation is iterated in the same way.

    >>> grad(lambda a: fixed_point(lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, lambda x, y: abs(x - y), 1e-6))(np.float64(4.0))
    array(0.25)
    """

    def solve(a: Any) -> Any:
        step = f(a)
        x, last = step(x0), x0
        while distance(x, last) > tol:
            x, last = step(x), x
        return x

    def rule(ans: Any, a: Any) -> Function:
        _, by_both = derivatives.vjp(lambda a, x: f(a)(x), a, ans)

        def pullback(g: Any) -> Any:
            def adjoint(operands: Any) -> Function:
                a, ans, g = operands
                _, by_x = derivatives.vjp(f(a), ans)

                def step(ct: Any) -> Any:
                    return pytree.map(add, by_x(ct)[0], g)

                return step

            zero = pytree.map(np.zeros_like, ans)
            return by_both(fixed_point(adjoint, (a, ans, g), zero, distance, tol))[0]

        return pullback

    solution = primitive(solve)
    defvjp(solution, rule)
    return solution(a)


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: tuple[Any, ...] = (), rtol: Any = None, atol: Any = None
) -> Any:
    """Return the solution of ``dy/dt = func(y, t, *args)`` at times, to SciPy's tolerances; see `afx.integrate.odeint`.

    >>> odeint(lambda y, t: -y, np.ones(1), np.array([0.0, 1.0])).round(6)
    Array([[1.      ],
           [0.367879]], dtype=float64)
    """
    close = 1.49e-8
    result = integrate.odeint(
        lambda t, y, *args: func(y, t, *args), y0, t, *args, rtol=rtol or close, atol=atol or close
    )
    return result.ys
