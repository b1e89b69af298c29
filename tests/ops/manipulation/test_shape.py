"""Shape operations give NumPy's elements, move derivatives to where the elements came from, and batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.ops.samples import together

RNG = np.random.default_rng(1)
X = RNG.normal(size=(2, 3, 4))
V = RNG.normal(size=5)

# The same call on both libraries, of one array.
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "reshape": (lambda lib, x: lib.reshape(x, (4, -1)), X),
    "reshape to one": (lambda lib, x: lib.reshape(x, -1), X),
    "ravel": (lambda lib, x: lib.ravel(x), X),
    "broadcast_to": (lambda lib, x: lib.broadcast_to(x, (3, 2, 3, 4)), X),
    "broadcast_to axes of 1": (lambda lib, x: lib.broadcast_to(x[:, :1], (2, 3, 4)), X),
    "expand_dims": (lambda lib, x: lib.expand_dims(x, (0, -1)), X),
    "squeeze": (lambda lib, x: lib.squeeze(x[:, :1], 1), X),
    "squeeze all": (lambda lib, x: lib.squeeze(x[:1, :1]), X),
    "permute_dims": (lambda lib, x: lib.permute_dims(x, (2, 0, 1)), X),
    "transpose": (lambda lib, x: lib.transpose(x), X),
    "transpose negative": (lambda lib, x: lib.transpose(x, (-1, 0, 1)), X),
    "matrix_transpose": (lambda lib, x: lib.matrix_transpose(x), X),
    "swapaxes": (lambda lib, x: lib.swapaxes(x, 0, -1), X),
    "moveaxis": (lambda lib, x: lib.moveaxis(x, 0, -1), X),
    "moveaxis several": (lambda lib, x: lib.moveaxis(x, (0, 1), (-1, 0)), X),
    "atleast_1d": (lambda lib, x: lib.atleast_1d(x[0, 0, 0]), X),
    "atleast_2d": (lambda lib, x: lib.atleast_2d(x), V),
    "atleast_3d": (lambda lib, x: lib.atleast_3d(x), V),
    "atleast_3d of a matrix": (lambda lib, x: lib.atleast_3d(x[0]), X),
    "concat": (lambda lib, x: lib.concat([x, 2 * x[:, :1]], axis=1), X),
    "concat flat": (lambda lib, x: lib.concat([x, x[0]], axis=None), X),
    "concat with an empty": (lambda lib, x: lib.concat([x[:0], x]), X),
    "concatenate": (lambda lib, x: lib.concatenate((x, x), axis=-1), X),
    "stack": (lambda lib, x: lib.stack([x, 3 * x], axis=-1), X),
    "stack numbers": (lambda lib, x: lib.stack([x[0], x[1], x[0]]), V),
    "hstack": (lambda lib, x: lib.hstack([x, x]), X),
    "hstack of vectors": (lambda lib, x: lib.hstack([x, x[:2]]), V),
    "vstack": (lambda lib, x: lib.vstack([x, x]), V),
    "dstack": (lambda lib, x: lib.dstack([x, x]), V),
    "column_stack": (lambda lib, x: lib.column_stack([x, x]), V),
    "unstack": (lambda lib, x: lib.unstack(x, axis=1)[2], X),
    "split": (lambda lib, x: lib.split(x, 2, axis=2)[1], X),
    "split at places": (lambda lib, x: lib.split(x, [1, 3], axis=2)[1], X),
    "split at places beyond": (lambda lib, x: lib.split(x, [3, 1, 9])[2], V),
    "array_split": (lambda lib, x: lib.array_split(x, 3)[0], V),
    "hsplit": (lambda lib, x: lib.hsplit(x, 3)[1], X),
    "vsplit": (lambda lib, x: lib.vsplit(x, 2)[1], X),
    "dsplit": (lambda lib, x: lib.dsplit(x, 2)[1], X),
    "tile": (lambda lib, x: lib.tile(x, (2, 1, 3)), X),
    "tile more axes": (lambda lib, x: lib.tile(x, (2, 2)), V),
    "tile fewer axes": (lambda lib, x: lib.tile(x, 2), X),
    "repeat": (lambda lib, x: lib.repeat(x, 2, axis=1), X),
    "repeat flat": (lambda lib, x: lib.repeat(x, 2), X),
    "repeat each": (lambda lib, x: lib.repeat(x, [1, 0, 3], axis=1), X),
    "flip": (lambda lib, x: lib.flip(x), X),
    "flip axes": (lambda lib, x: lib.flip(x, (0, 2)), X),
    "fliplr": (lambda lib, x: lib.fliplr(x), X),
    "flipud": (lambda lib, x: lib.flipud(x), X),
    "diagonal": (lambda lib, x: lib.linalg.diagonal(x, offset=1) if lib is np else lib.diagonal(x, 1), X),
    "diagonal below": (lambda lib, x: lib.diagonal(x, -1, 0, 2), X),
    "diagonal outside": (lambda lib, x: lib.diagonal(x, 7, 0, 1), X),
    "diag": (lambda lib, x: lib.diag(x, -2), V),
    "diag of a number": (lambda lib, x: lib.diag(x[:1]), V),
    "diag of a matrix": (lambda lib, x: lib.diag(x[0], 1), X),
    "roll": (lambda lib, x: lib.roll(x, 5), X),
    "roll axis": (lambda lib, x: lib.roll(x, -1, axis=1), X),
    "roll axes": (lambda lib, x: lib.roll(x, (1, 2), axis=(0, 2)), X),
    "roll axes by one": (lambda lib, x: lib.roll(x, 1, axis=(0, 0, 2)), X),
    **{f"rot90 {k}": (lambda lib, x, k=k: lib.rot90(x, k, (0, 2)), X) for k in range(-1, 4)},
    "pad": (lambda lib, x: lib.pad(x, 1), X),
    "pad widths": (lambda lib, x: lib.pad(x, ((0, 1), (2, 0), (0, 0))), X),
    "pad with a constant": (lambda lib, x: lib.pad(x, (1, 2), constant_values=3.0), X),
    "pad with a pair": (lambda lib, x: lib.pad(x, 2, constant_values=(3.0, 4.0)), X),
    "pad with pairs": (lambda lib, x: lib.pad(x[0], 2, constant_values=((1.0, 2.0), (3.0, 4.0))), X),
    **{f"pad {m}": (lambda lib, x, m=m: lib.pad(x, 3, mode=m), X) for m in ("edge", "reflect", "symmetric", "wrap")},
    **{f"pad {m} far": (lambda lib, x, m=m: lib.pad(x, (7, 11), mode=m), V) for m in ("reflect", "symmetric", "wrap")},
}
if not hasattr(np, "unstack"):  # before NumPy 2.1
    del CASES["unstack"]


@together("name", CASES)
def test_values_are_numpys(name: str) -> None:
    """Plain and compiled, the elements, their shape and dtype are NumPy's."""
    call, x = CASES[name]
    want = call(np, x)
    for got in (call(afx, afx.asarray(x)), afx.jit(lambda x: call(afx, x))(x)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(got), want)


@together("name", CASES)
def test_derivatives_agree_with_differences(name: str) -> None:
    """These operations are affine, so that one difference gives the derivative exactly; both modes agree with it."""
    call, x = CASES[name]
    direction, weights = RNG.normal(size=x.shape), RNG.normal(size=call(np, x).shape)
    want = (call(np, x + direction) - call(np, x)) * weights
    _, tangent = afx.jvp(lambda x: call(afx, x), (x,), (direction,))
    np.testing.assert_allclose(np.asarray(tangent) * weights, want, atol=1e-12)
    gradient = afx.grad(lambda x: (call(afx, x) * weights).sum())(x)
    assert float((gradient * direction).sum()) == pytest.approx(want.sum(), abs=1e-10)


@together("name", CASES)
def test_vmap_is_a_loop(name: str) -> None:
    """A batch is handled as a loop over it would."""
    call, x = CASES[name]
    batch = np.stack([x, 2 * x, x + 1])
    got = afx.vmap(lambda x: call(afx, x))(batch)
    np.testing.assert_array_equal(np.asarray(got), np.stack([call(np, b) for b in batch]))


def test_broadcast_arrays() -> None:
    """The arrays come back in their common shape."""
    x, y = afx.broadcast_arrays(X[:, :1], X[0])
    np.testing.assert_array_equal(np.asarray(x), np.broadcast_to(X[:, :1], X.shape))
    assert y.shape == X.shape


def test_parts_come_in_order() -> None:
    """`split`, `array_split`, `unstack` and iteration give all parts."""
    for got, want in (
        (afx.array_split(V, 3), np.array_split(V, 3)),
        (afx.split(V, [1, 4]), np.split(V, [1, 4])),
        (afx.split(V, [4, 1]), np.split(V, [4, 1])),
        (afx.unstack(X), list(X)),
        (list(afx.asarray(X)), list(X)),
    ):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(g), w)


def test_rows_add_up_in_the_gradient() -> None:
    """Walking along an array records one operation, and unused rows have the derivative 0."""
    got = afx.grad(lambda x: sum(k * row.sum() for k, row in enumerate(x)))(X)
    np.testing.assert_array_equal(np.asarray(got), np.broadcast_to(np.arange(2.0)[:, None, None], X.shape))
    graph = afx.trace(lambda x: sum(row.sum() for row in x))(X)
    assert graph.counts()["unstack"] == 1


def test_masks_pass_through_joins_and_parts() -> None:
    """What `where` cuts off stays cut off behind a concat, stack, split, flip, roll or pad."""
    x = np.array([0.0, 4.0])
    joined: list[Callable[[Any], Any]] = [
        lambda r: afx.concat([r[:1], r[1:]]),
        lambda r: afx.stack(afx.unstack(r)),
        lambda r: afx.concat(afx.split(r, 2)),
        lambda r: afx.flip(afx.flip(r)),
        lambda r: afx.roll(afx.roll(r, 1), 1),
        lambda r: afx.pad(r, 1)[1:-1],
        lambda r: r[[1, 0]][[1, 0]],
        afx.zeros(2, dtype="float64").at[:].set,
    ]
    for join in joined:
        gradient = afx.grad(lambda x, join=join: afx.where(x > 0, join(afx.sqrt(x)), 0).sum())(x)
        np.testing.assert_array_equal(np.asarray(gradient), [0.0, 0.25])


@pytest.mark.parametrize(("shift", "axis"), [(-5, None), (2, (0, 2)), ((1, 7), (0, 2)), ((1, 2), 1), ((3, 1), (1, 1))])
def test_rolls_by_traced_shifts(shift: Any, axis: Any) -> None:
    """A shift may be known only when it runs: traced, an element of a batch, or of a sequence beside a known one."""
    expected = np.roll(X, shift, axis)
    np.testing.assert_array_equal(np.asarray(afx.jit(lambda s: afx.roll(X, s, axis))(np.asarray(shift))), expected)
    batch = afx.vmap(lambda s: afx.roll(X, s, axis))(np.asarray([shift, shift]))
    np.testing.assert_array_equal(np.asarray(batch), [expected, expected])
    slope = afx.jit(afx.grad(lambda x, s: (afx.roll(x, s, axis) * X).sum()))(X, np.asarray(shift))
    np.testing.assert_array_equal(np.asarray(slope), np.roll(X, -np.asarray(shift), axis))


def test_rolls_by_a_known_shift_beside_a_traced_one() -> None:
    """Each axis has its own shift."""
    rolled = afx.jit(lambda s: afx.roll(X, (s, 1), (0, 2)))(3)
    np.testing.assert_array_equal(np.asarray(rolled), np.roll(X, (3, 1), (0, 2)))
    with pytest.raises(errors.DtypeError, match="holds integers"):
        afx.jit(lambda s: afx.roll(X, s, 0))(1.5)


def test_dtypes_are_promoted() -> None:
    """Joined arrays take a common dtype; Python numbers take that of the arrays."""
    assert afx.concat([afx.ones(1), np.ones(1)]).dtype == np.float64
    assert afx.concat([afx.ones(1), afx.asarray([1])]).dtype == np.float64
    assert afx.stack([1.0, afx.ones(())]).dtype == np.float32
    assert afx.stack([1.0, 2]).dtype == np.float32
    assert afx.pad(afx.ones(1), 1, constant_values=2.0).dtype == np.float32
    assert afx.reshape(1.0, (1,)).dtype == np.float32


def test_the_constant_of_pad_has_a_derivative() -> None:
    """`pad` differentiates by its constant too."""
    got = afx.grad(lambda c: afx.pad(X[0], 1, constant_values=c).sum())(np.float64(2.0))
    assert float(got) == 5 * 6 - 12


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "reshape": (
        lambda: afx.reshape(X, (5, 5)),
        errors.ShapeError,
        r"reshape: cannot reshape array of size 24 into shape .*: got float64\[2,3,4\]",
    ),
    "two unknowns": (lambda: afx.reshape(X, (-1, -1)), errors.ShapeError, "reshape"),
    "broadcast_to": (lambda: afx.broadcast_to(X, (4,)), errors.ShapeError, "broadcast_to: the shape does not fit"),
    "squeeze axis": (
        lambda: afx.squeeze(X, 1.5),
        errors.ArgumentError,
        "squeeze: axis is an int or a sequence of ints: got 1.5",
    ),
    "expand_dims": (lambda: afx.expand_dims(X, "a"), errors.ArgumentError, "expand_dims: axis is an int"),
    "sum": (lambda: afx.sum(X, 1.5), errors.ArgumentError, "sum: an axis is an integer: got 1.5"),
    "sum axes": (lambda: afx.sum(X, (0, 1.0)), errors.ArgumentError, "sum: an axis is an integer: got 1.0"),
    "stack axis": (lambda: afx.stack([X], axis="x"), errors.ArgumentError, "stack: an axis is an integer: got 'x'"),
    "squeeze": (lambda: afx.squeeze(X, 0), errors.ShapeError, "squeeze: cannot select an axis to squeeze out"),
    "permute": (lambda: afx.permute_dims(X, (0, 0, 1)), errors.ShapeError, "permute_dims: axes don't match array"),
    "moveaxis": (lambda: afx.moveaxis(X, (0, 1), 0), errors.ShapeError, "moveaxis: each axis moves to one position"),
    "swapaxes": (lambda: afx.swapaxes(X, 0, 3), errors.ShapeError, "swapaxes: axis 3 is out of bounds"),
    "matrix_transpose": (lambda: afx.matrix_transpose(V), errors.ShapeError, "two axes or more"),
    "broadcast_arrays": (lambda: afx.broadcast_arrays(X, V), errors.ShapeError, "broadcast_arrays: operands could not"),
    "concat": (
        lambda: afx.concat([X, V]),
        errors.ShapeError,
        "concat: array dimensions except for the concatenation axis must match exactly: got .*; reshape",
    ),
    "concat 0-d": (
        lambda: afx.concat([1.0, 2.0]),
        errors.ShapeError,
        "concat: zero-dimensional arrays .* use afx.stack",
    ),
    "concat axis": (lambda: afx.concat([V, V], axis=1), errors.ShapeError, "concat: axis 1 is out of bounds"),
    "concat nothing": (lambda: afx.concat([]), errors.ArgumentError, "concat: need at least one array"),
    "concat one": (lambda: afx.concat(1.0), errors.OperandError, r"concat: takes a sequence of arrays: .*\[x, y\]"),
    "concat words": (lambda: afx.concat(["a", "b"]), errors.OperandError, "concat: operands are arrays and numbers"),
    "stack": (lambda: afx.stack([X, V]), errors.ShapeError, "stack: all input arrays must have the same shape"),
    "split": (
        lambda: afx.split(V, 2),
        errors.ShapeError,
        "split does not result in an equal division: got 2 parts of .* use array_split",
    ),
    "split none": (lambda: afx.split(V, 0), errors.ArgumentError, "the number of parts is positive"),
    "vsplit": (lambda: afx.vsplit(V, 1), errors.ShapeError, "vsplit: takes two axes"),
    "unstack": (
        lambda: afx.unstack(1.0),
        errors.ShapeError,
        "unstack: axis 0 is out of bounds for .* 0-d array has no axes",
    ),
    "tile": (lambda: afx.tile(V, -1), errors.ArgumentError, "tile: repetitions are not negative"),
    "repeat": (lambda: afx.repeat(V, -1), errors.ArgumentError, "repeat: repeats are numbers from 0 on"),
    "repeat each": (lambda: afx.repeat(V, [1, 2]), errors.ShapeError, "repeat: 2 repeats for 5 elements"),
    "flip": (lambda: afx.flip(V, 1), errors.ShapeError, "flip: axis 1 is out of bounds"),
    "rot90": (lambda: afx.rot90(X, 1, (0, 0)), errors.ShapeError, "rot90: a plane has two axes"),
    "roll": (lambda: afx.roll(X, (1, 2), axis=(0, 1, 2)), errors.ArgumentError, "roll: shifts and axes differ"),
    "roll by a half": (lambda: afx.roll(X, 2.5), errors.ArgumentError, "roll: shift is an int or a sequence of ints"),
    "pad negative": (lambda: afx.pad(V, -1), errors.ArgumentError, "pad: widths are not negative: .* slice"),
    "pad widths": (
        lambda: afx.pad(V, ((1, 2), (3, 4))),
        errors.ArgumentError,
        "pad: widths are one pair for each axis",
    ),
    "pad mode": (
        lambda: afx.pad(V, 1, mode="mirror"),
        errors.ArgumentError,
        "pad: no such mode: got 'mirror'",
    ),  # the mistake is the subject
    "pad empty": (lambda: afx.pad(V[:0], 1, mode="edge"), errors.ArgumentError, "pad: an empty axis"),
    "pad dtype": (
        lambda: afx.pad(np.ones(2, int), 1, constant_values=0.5),
        errors.DtypeError,
        "pad: the constant does",
    ),
    "diag": (lambda: afx.diag(X), errors.ShapeError, "diag: takes a vector or a matrix"),
    "diagonal": (lambda: afx.diagonal(V), errors.ShapeError, "diagonal: takes two axes or more"),
    "diagonal twice": (lambda: afx.diagonal(X, 0, 1, -2), errors.ShapeError, "two different axes"),
    "device": (lambda: afx.to_device(V, "gpu"), errors.ArgumentError, "to_device: there is no such device: got 'gpu'"),
}


@together("name", ERRORS)
def test_mistakes_are_explained(name: str) -> None:
    """Each mistake raises afx's own error, which says what was given and what to do."""
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call()


def test_broadcast_masks_pass_through_parts() -> None:
    """A condition of fewer axes than the choice cuts off all that it stands for, behind a slice too."""
    x = np.array([[0.0, 1.0], [4.0, 0.0]])
    choose = afx.grad(lambda x: afx.where(np.array([[False], [True]]), afx.sqrt(x)[:, :1], 0).sum())
    np.testing.assert_array_equal(np.asarray(choose(x)), [[0.0, 0.0], [0.25, 0.0]])


STATIC: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda x, n: afx.reshape(x, (n, -1)),
    "broadcast_to": lambda x, n: afx.broadcast_to(x, (n, 2, 3, 4)),
    "tile": afx.tile,
    "repeat": afx.repeat,
    "pad": afx.pad,
}


@pytest.mark.parametrize("name", STATIC)
def test_shapes_cannot_depend_on_traced_numbers(name: str) -> None:
    """A traced length or count raises with the function's name; floats are refused too."""
    with pytest.raises(errors.ConcreteValueError, match=f"^{name}: .* must be known"):
        afx.jit(STATIC[name])(X, 2)
    with pytest.raises(errors.ArgumentError, match=f"^{name}: .* is an int or a sequence of ints"):
        STATIC[name](X, 2.5)
