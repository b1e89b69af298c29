"""Making arrays: dtypes, copies, devices."""

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, errors
from tests.ops.samples import together

MAKERS: dict[str, Callable[..., Array]] = {
    "arange": lambda **kw: afx.arange(3, **kw),
    "asarray": lambda **kw: afx.asarray([1.0], **kw),
    "astype": lambda **kw: afx.astype(afx.ones(1), afx.float64, **kw),
    "empty": lambda **kw: afx.empty(2, **kw),
    "empty_like": lambda **kw: afx.empty_like(afx.ones(1), **kw),
    "eye": lambda **kw: afx.eye(2, **kw),
    "from_dlpack": lambda **kw: afx.from_dlpack(np.ones(1), **kw),
    "full": lambda **kw: afx.full(2, 1.0, **kw),
    "full_like": lambda **kw: afx.full_like(afx.ones(1), 2.0, **kw),
    "linspace": lambda **kw: afx.linspace(0, 1, 3, **kw),
    "ones": lambda **kw: afx.ones(2, **kw),
    "ones_like": lambda **kw: afx.ones_like(afx.ones(1), **kw),
    "zeros": lambda **kw: afx.zeros(2, **kw),
    "zeros_like": lambda **kw: afx.zeros_like(afx.ones(1), **kw),
}


@together("name", MAKERS)
def test_the_device_is_the_cpu(name: str) -> None:
    """Each function that makes an array takes the one device there is, and names every other."""
    make = MAKERS[name]
    x = make(device="cpu")
    assert x.device == x.to_device("cpu").device == "cpu"
    assert make(device=None).dtype == x.dtype
    with pytest.raises(errors.ArgumentError, match="there is no such device: got 'gpu'; arrays are on 'cpu'"):
        make(device="gpu")


def test_arrays_are_not_copied() -> None:
    """An Array and a view of one are taken as they are, even where copying is refused."""
    x = afx.ones(3)
    assert afx.asarray(x, copy=False) is x
    assert afx.from_dlpack(x, copy=False) is x
    view = np.asarray(x)
    assert np.shares_memory(np.asarray(afx.asarray(view, copy=False)), view)


@pytest.mark.parametrize("obj", [np.ones(2), np.float64(1.0), 1.0, [1.0], memoryview(b"ab")])
def test_refusing_a_copy_raises(obj: Any) -> None:
    """Memory that others can write into is never shared: without a copy there is no Array of it."""
    with pytest.raises(errors.CopyError, match=r"asarray: cannot be had without a copy: got .* and copy=False"):
        afx.asarray(obj, copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        afx.array(obj, copy=False)


def test_refusing_a_copy_raises_where_the_dtype_changes() -> None:
    """Another dtype is another array."""
    with pytest.raises(errors.CopyError, match=r"got float32\[1\] and copy=False"):
        afx.asarray(afx.ones(1), afx.float64, copy=False)
    with pytest.raises(errors.CopyError, match=r"got float64\[1\] and copy=False"):
        afx.asarray(np.asarray(afx.ones(1, "float64")), afx.float32, copy=False)


def test_buffers_keep_their_dtype() -> None:
    """Arrays of Python's own and memoryviews are data, whose dtype is kept."""
    assert afx.asarray(array.array("d", [1.0, 2.0])).dtype == afx.float64
    assert afx.asarray(memoryview(array.array("f", [1.0]))).dtype == afx.float32
    assert afx.asarray(bytearray(b"ab")).tolist() == [97, 98]


def test_dlpack_from_others_is_copied() -> None:
    """A later change of the source is not seen; refusing the copy raises a `BufferError`."""
    source = np.arange(3.0)
    x = afx.from_dlpack(source)
    source[0] = 9.0
    assert x.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError, match="from_dlpack: memory of other libraries is copied: got ndarray"):
        afx.from_dlpack(source, copy=False)


@pytest.mark.parametrize(
    "options", [{}, {"copy": False}, {"copy": True}, {"max_version": (1, 0)}, {"dl_device": (1, 0)}]
)
def test_dlpack_for_others_is_a_copy(options: dict[str, Any]) -> None:
    """Who takes an Array's DLPack capsule may write into it, and the Array does not change."""
    x = afx.asarray(np.arange(3.0))

    class Consumed:
        def __dlpack__(self, **ignored: Any) -> Any:
            return x.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    taken = np.from_dlpack(Consumed())
    assert taken.tolist() == x.tolist()
    assert not np.shares_memory(taken, np.asarray(x))


def test_dlpack_of_a_traced_array_raises() -> None:
    """A capsule would detach the derivative."""
    with pytest.raises(errors.ConcreteValueError, match="__dlpack__"):
        afx.grad(lambda x: x.__dlpack__() and x)(1.0)


def test_axes_may_be_numpys_integers() -> None:
    """An integer of NumPy's does wherever an axis is asked for."""
    x = afx.ones((2, 3))
    assert afx.sum(x, np.int64(1)).shape == (2,)
    assert afx.linspace(afx.zeros(2), 1.0, 3, axis=np.int64(1)).shape == (2, 3)


def test_nothing_to_turn_is_left_as_it_is() -> None:
    """Turning along no axes changes nothing."""
    assert afx.fft.fftshift(afx.asarray(1.0)).shape == ()
    np.testing.assert_array_equal(afx.roll(afx.arange(3), [], []), [0, 1, 2])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
def test_traced_ends_give_the_bits_of_plain_ones(dtype: str) -> None:
    """`linspace` of values that `jit` does not know computes as NumPy does, so that edges of histograms are the same."""
    rng = np.random.default_rng(0)
    for num, endpoint in ((1, True), (3, False), (7, True), (50, True)):
        one, other = (rng.normal(size=2) * 10).astype(dtype)
        many = (rng.normal(size=3) * 10).astype(dtype)
        for first, last in ((one, other), (many, one), (one, 2.5), (1, other), (0.1, 0.7), (one, np.int32(4))):
            want = afx.linspace(first, last, num, endpoint)
            got = afx.jit(lambda a, b, n=num, e=endpoint: afx.linspace(a, b, n, e))(first, last)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("nest", [lambda x, t: [x, t], lambda x, t: [[x, 1], (t, x)], lambda x, t: [[x, x], [t, 2.0]]])
def test_numbers_beside_traced_arrays_keep_their_digits(nest: Callable[[Any, Any], Any]) -> None:
    """Python's floats, traced or not, in sequences with float64 are float64, and with float32 alone float32."""
    wanted = np.array(nest(0.1, np.float64(0.3)))
    for run in (
        afx.jit(lambda t: afx.asarray(nest(0.1, t))),
        lambda t: afx.jit(lambda x: afx.asarray(nest(x, t)))(0.1),
        lambda t: afx.jvp(lambda t: afx.array(nest(0.1, t)), (t,), (t,))[0],
    ):
        np.testing.assert_array_equal(run(np.float64(0.3)), wanted, strict=True)
    assert afx.jit(lambda t: afx.asarray([0.1, t]))(np.float32(0.3)).dtype == np.float32


def test_powers_of_a_whole_dtype_lose_no_whole_number() -> None:
    """A fraction that is rounding alone is not cut off: 9.999… is 10, and 7.999… is 8."""
    for stop, num, base in ((1000, 4, 10), (10**9, 10, 10), (256, 9, 2), (3**12, 13, 3)):
        assert afx.geomspace(1, stop, num, dtype=np.int64).tolist() == [base**k for k in range(num)]
    np.testing.assert_allclose(
        afx.geomspace(-1, 1, 3, dtype=complex), np.geomspace(-1, 1, 3, dtype=complex), rtol=1e-15
    )
    assert afx.geomspace(1, 2000, 5, dtype=int).tolist() == np.geomspace(1, 2000, 5, dtype=int).tolist()


@together("axis", [0, -1])
def test_bases_broadcast_with_exponents(axis: int) -> None:
    """Several bases have each their own numbers, as in NumPy."""
    for start, stop, base in (
        (2.0, 3.0, np.array([2.0, 3.0])),
        (2.0, 3.0, np.array([2.0])),
        (np.zeros(2), np.ones(2), np.array([[2.0, 3.0], [4.0, 5.0]])),
    ):
        wanted = np.logspace(start, stop, 4, base=base, axis=axis)
        np.testing.assert_allclose(np.asarray(afx.logspace(start, stop, 4, base=base, axis=axis)), wanted, strict=True)
