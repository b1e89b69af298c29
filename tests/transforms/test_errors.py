"""The mistakes people make, and what the messages say."""

import math
import pickle
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors
from tests.every import together


@attrs.frozen
class Line:
    slope: Array
    steps: Any = None


@attrs.define
class Loose:
    slope: Array


@attrs.frozen
class Listed:
    slope: Array
    names: Any = afx.static(default=None)


X = np.array([1.0, 2.0])


@together(
    ("run", "kind", "words"),
    [
        (lambda: afx.grad(lambda x: x * x)(X), errors.ShapeError, ["float64[2]", "afx.sum", "jacrev"]),
        (lambda: afx.grad(lambda x: (x, x))(X), errors.OperandError, ["tuple", "has_aux=True"]),
        (lambda: afx.grad(lambda x: x.sum() > 0)(X), errors.DtypeError, ["bool"]),
        (
            lambda: afx.grad(lambda p: afx.sum(p["steps"]))({"steps": np.arange(3)}),
            errors.DtypeError,
            ["argument 0['steps']", "int64[3]"],
        ),
        (lambda: afx.grad(afx.sum)(np.arange(3)), errors.DtypeError, ["argument 0", "int64[3]", "afx.static()"]),
        (lambda: afx.grad(afx.sum, 3)(X), errors.ArgumentError, ["argnums=3", "1 positional"]),
        (lambda: afx.grad(afx.sum, argnames="y")(X), errors.ArgumentError, ["'y'"]),
        (lambda: afx.grad(afx.multiply, (0, -2))(X, X), errors.ArgumentError, ["twice", "(0, -2)"]),
        (lambda: afx.grad(afx.sum, 1.5)(X), errors.ArgumentError, ["argnums=1.5", "argnames"]),
        (lambda: afx.grad(afx.sum, "x")(X), errors.ArgumentError, ["argnums='x'", "argnames"]),
        (lambda: afx.grad(afx.sum, ())(X), errors.ArgumentError, ["nothing to differentiate"]),
        (lambda: afx.grad(afx.sum, has_aux=True)(X), errors.OperandError, ["(scalar, aux)", "sum"]),
        (lambda: afx.grad(lambda x: (afx.sum(x), 1, 2), has_aux=True)(X), errors.OperandError, ["(scalar, aux)"]),
        (lambda: afx.grad(lambda x: None)(X), errors.OperandError, ["NoneType"]),
        (lambda: afx.grad(lambda x: x)(1j), errors.DtypeError, ["complex64[]", "afx.vjp"]),
        (lambda: afx.grad(afx.sum)(3), errors.DtypeError, ["argument 0", "int64[]"]),
        (lambda: afx.grad(lambda x: np.busday_count(x, x))(X), errors.OperandError, ["np.busday_count", "derivative"]),
        (lambda: afx.grad(lambda x: math.sin(x))(1.0), errors.ConcreteValueError, ["float", "stop_gradient"]),
        (lambda: afx.grad(lambda x: pickle.dumps(x))(1.0), errors.ConcreteValueError, ["pickle"]),
        (lambda: afx.jit(lambda x: x[x > 0])(X), errors.ConcreteValueError, ["mask", "test_errors.py"]),
        (lambda: afx.jit(lambda n: list(range(n)))(3), errors.ConcreteValueError, ["static", "test_errors.py"]),
        (lambda: afx.jit(lambda x: object())(X), errors.TreeError, ["object", "afx.static()"]),
        (lambda: afx.vmap(afx.sin)(1.0), errors.ShapeError, ["in_axes=None"]),
        (lambda: afx.vmap(afx.add)(X, np.ones(3)), errors.ShapeError, ["length 2", "length 3"]),
        (lambda: afx.vmap(afx.sin, 3)(X), errors.ShapeError, ["axis 3", "-1 to 0"]),
        (lambda: afx.vmap(afx.sin, (0, 0))(X), errors.ArgumentError, ["2 arguments"]),
        (lambda: afx.vmap(afx.sin, None)(X), errors.ArgumentError, ["axis_size"]),
        (lambda: afx.vmap(afx.sin, out_axes=None)(X), errors.ArgumentError, ["out_axes=None"]),
        (lambda: afx.vjp(lambda x: (x, x), X)[1](X), errors.TreeError, ["structure", "(…, …)"]),
        (lambda: afx.vjp(afx.sin, X)[1](np.ones(2, "f")), errors.DtypeError, ["float32[2]", "astype"]),
        (lambda: afx.jvp(afx.sin, (X,), [X, X]), errors.TreeError, ["structure"]),
        (lambda: afx.jvp(afx.sin, (X,), (np.ones(2, "f"),)), errors.DtypeError, ["float32[2]", "float64[2]"]),
        (lambda: afx.jvp(afx.sin, (np.arange(3),), (X,)), errors.DtypeError, ["int64[3]"]),
        (lambda: afx.hessian(afx.sin)(X), errors.ShapeError, ["scalar", "float64[2]"]),
        (lambda: afx.jacfwd(afx.sin)(np.arange(2)), errors.DtypeError, ["jacfwd", "int64[2]"]),
        (
            lambda: afx.grad(lambda x: afx.custom_jvp(lambda y: y * x, lambda p, t: (p[0] * x, t[0] * x))(x))(1.0),
            errors.TracerError,
            ["closes over", "as an argument"],
        ),
        (
            lambda: afx.grad(lambda x: afx.trace(lambda y: y * x)(1.0))(1.0),
            errors.TracerError,
            ["closes over", "trace the whole function"],
        ),
        (lambda: np.add(np.ones(2), 1, out=afx.ones(2)), errors.ImmutableError, ["np.add", "immutable"]),
        (lambda: np.add.at(afx.ones(2), [0], 1.0), errors.ImmutableError, ["x.at[index].add"]),
        (lambda: afx.ones(2).__delitem__(0), errors.ImmutableError, ["deleted"]),
        (lambda: bool(afx.ones(2)), errors.OperandError, ["truth value", "any()"]),
        (lambda: afx.ones(3)[1.5], errors.OperandError, ["float (1.5)"]),
        (lambda: afx.ones(3)[0, 0], errors.IndexRangeError, ["too many"]),
        (lambda: afx.ones(6).reshape(4, 2), errors.ShapeError, ["array of size 6", "(4, 2)"]),
        (lambda: afx.concat([]), errors.ArgumentError, ["at least one"]),
        (lambda: afx.asarray(np.longdouble(1)), errors.DtypeError, ["float128"]),
        (lambda: afx.grad(lambda p: afx.sum(p.slope))(Loose(X)), errors.TreeError, ["Loose", "frozen"]),
        (lambda: afx.grad(lambda p: afx.sum(p.slope))(Listed(X, ["a"])), errors.TreeError, ["names", "list"]),
        (lambda: afx.grad(lambda x: x * float(x))(2.0), errors.ConcreteValueError, ["float", "stop_gradient"]),
        (
            lambda: afx.grad(lambda x: afx.sum(np.asarray(x)))(X),
            errors.ConcreteValueError,
            ["np.asarray", "stop_gradient"],
        ),
        (lambda: afx.grad(lambda x: x.item())(2.0), errors.ConcreteValueError, ["item"]),
        (
            lambda: afx.jit(lambda x: x if x > 0 else -x)(1.0),
            errors.ConcreteValueError,
            ["bool", "where", "test_errors.py"],
        ),
        (lambda: afx.jit(lambda x: float(x))(1.0), errors.ConcreteValueError, ["float", "test_errors.py"]),
        (lambda: afx.vmap(lambda x: x if x > 0 else -x)(X), errors.ConcreteValueError, ["bool", "where"]),
        (lambda: afx.jit(lambda x, n: x, static_argnums=1)(X, [1]), errors.TreeError, ["static", "list"]),
        (lambda: afx.ones(2) + afx.ones(3), errors.ShapeError, ["add", "float32[2]", "float32[3]"]),
        (lambda: afx.ones((8, 3)) @ afx.ones((4, 2)), errors.ShapeError, ["matmul: inner axes differ", "float32[8,3]"]),
        (lambda: afx.exp("one"), errors.OperandError, ["exp", "str"]),
        (lambda: afx.exp([1.0, 2.0]), errors.OperandError, ["exp", "list", "afx.asarray"]),
        (lambda: afx.sum(X, axis=2), errors.ShapeError, ["sum", "axis 2"]),
        (lambda: afx.bitwise_and(X, X), errors.DtypeError, ["bitwise_and", "float64"]),
        (lambda: afx.asarray(X)[5], errors.IndexRangeError, ["5"]),
        (lambda: afx.vjp(afx.sin, X)[1](np.ones(3)), errors.ShapeError, ["cotangent", "float64[3]"]),
        (lambda: afx.jvp(afx.sin, (X,), (np.ones(3),)), errors.ShapeError, ["tangent", "float64[3]"]),
        (lambda: afx.set_default_dtype("int32"), errors.DtypeError, ["int32", "float32"]),
        (lambda: Array(), errors.OperandError, ["afx.asarray"]),
        (lambda: afx.asarray([[1.0], [1.0, 2.0]]), errors.OperandError, ["asarray", "equal lengths"]),
        (lambda: afx.asarray(["a"]), errors.DtypeError, ["asarray"]),
        (lambda: afx.add(np.ma.masked_array(X, [True, False]), 1.0), errors.OperandError, ["mask", "filled"]),
    ],
)
def test_messages_say_what_to_do(run: Any, kind: type[Exception], words: list[str]) -> None:
    """Each mistake raises afx's own error, which shows what it got and names the remedy."""
    with pytest.raises(kind) as caught:
        run()
    text = str(caught.value)
    assert isinstance(caught.value, errors.AfxError)
    assert all(word in text for word in words), text


def test_writing_raises_with_the_way_to_do_it() -> None:
    """Item assignment shows the functional update with the index that was used."""
    x: Any = afx.zeros(3)
    with pytest.raises(errors.ImmutableError, match=r"x = x\.at\[1:3\]\.set"):
        x[1:3] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 1.0


def test_a_fault_of_the_backward_pass_names_the_forward_line() -> None:
    """The note of an exception raised while walking back shows where the operation was written."""

    def fn(x: Array) -> Array:
        y = afx.sqrt(x)  # the line
        return afx.sum(y)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as caught:
        afx.grad(fn)(np.zeros(2))
    assert any("sqrt" in note and "test_errors.py" in note for note in caught.value.__notes__)


def test_debug_nans_finds_the_first_nan() -> None:
    """Inside ``debug_nans`` the first nan raises and names its line, forward or backward."""
    with afx.debug_nans(), np.errstate(all="ignore"):
        with pytest.raises(errors.NanError, match=r"log.*test_errors\.py"):
            afx.grad(lambda x: afx.sum(afx.log(x)))(np.array([-1.0]))
        with pytest.raises(errors.NanError) as caught:
            afx.grad(lambda x: afx.sum(afx.sqrt(x) * x * 0.0))(np.array([0.0]))
        assert any("test_errors.py" in note for note in caught.value.__notes__)
        assert afx.grad(lambda x: afx.sum(afx.sqrt(x)))(np.array([4.0])).tolist() == [0.25]
