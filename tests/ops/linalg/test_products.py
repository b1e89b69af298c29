"""Products of matrices agree with NumPy's."""

import math
import random
import re
from typing import Any

import numpy as np
import pytest

import afx
from tests.ops.samples import together

RNG = np.random.default_rng(10)
A, B, C, V, W = (RNG.normal(size=s) for s in ((3, 4), (4, 5), (2, 3, 4), (4,), (3,)))


@together(
    "pair",
    [
        (A, B),
        (C, B),
        (A, V),
        (W, A),
        (V, V),
        (C, V),
        (W, C),
        (C, C.swapaxes(1, 2)),
        (A, C.swapaxes(1, 2)),
        (A[:, :0], B[:0]),
    ],
    ids=lambda p: "@".join(str(x.shape) for x in p),
)
def test_matmul_is_numpys(pair: Any) -> None:
    """Vectors, matrices and batches multiply as NumPy's do, and so do their derivatives as central differences."""
    x, y = pair
    np.testing.assert_allclose(np.asarray(afx.matmul(x, y)), x @ y, atol=1e-12)
    np.testing.assert_allclose(np.asarray(afx.asarray(x) @ y), x @ y, atol=1e-12)
    np.testing.assert_allclose(np.asarray(x @ afx.asarray(y)), x @ y, atol=1e-12)
    tx, ty, ct = RNG.normal(size=x.shape), RNG.normal(size=y.shape), RNG.normal(size=(x @ y).shape)
    want = np.sum(ct * (tx @ y + x @ ty))
    gx, gy = afx.vjp(afx.matmul, x, y)[1](afx.asarray(ct))
    assert np.sum(np.asarray(gx) * tx) + np.sum(np.asarray(gy) * ty) == pytest.approx(want)
    assert np.sum(ct * np.asarray(afx.jvp(afx.matmul, (x, y), (tx, ty))[1])) == pytest.approx(want)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_vectors_and_matrices(axes: Any) -> None:
    """Batches of vectors and matrices in any combination are products one by one."""
    for x, y in ((V, V), (A, V), (W, A), (A, B)):
        many = [np.stack([z, 2 * z]) if a == 0 else z for z, a in zip((x, y), axes, strict=True)]
        found = np.asarray(afx.vmap(afx.matmul, axes)(*many))
        want = [(many[0][i] if axes[0] == 0 else x) @ (many[1][i] if axes[1] == 0 else y) for i in range(2)]
        np.testing.assert_allclose(found, np.stack(want), atol=1e-12)


@together(
    ("subscripts", "operands"),
    [
        ("ij,jk->ik", (A, B)),
        ("bij,jk", (C, B)),
        ("...ij,jk->...k", (C, B)),
        ("ii->i", (A[:, :3],)),
        ("ii", (A[:, :3],)),
        ("ij->", (A,)),
        ("ij->ji", (A,)),
        ("bij,jk,kl->bl", (C, B, B.T)),
        ("i,j", (W, V)),
        ("bij,bij->b", (C, C)),
        ("ij,ij", (A, A)),
        ("bij->jbi", (C,)),
        ("bij,bkj->bik", (C, C)),
        ("i,i,i->i", (V, V, V)),
        (" i j , j -> i ", (A, V)),
    ],
)
def test_einsum_is_numpys(subscripts: str, operands: Any) -> None:
    """Implicit results, ellipses, diagonals, traces, batches and several operands agree with NumPy's."""
    np.testing.assert_allclose(
        np.asarray(afx.einsum(subscripts, *operands)), np.einsum(subscripts, *operands), atol=1e-12
    )
    np.testing.assert_allclose(
        np.asarray(afx.einsum(subscripts, *operands, optimize=False)), np.einsum(subscripts, *operands), atol=1e-12
    )


@pytest.mark.parametrize("subscripts", ["b...->b", "b...->", "...k->k", "b...k,...k->b"])
def test_einsum_sums_over_an_ellipsis_that_the_result_has_not(subscripts: str) -> None:
    """As NumPy's with ``optimize=True`` does, and its ``optimize=False`` refuses."""
    operands = [C, C[0]][: subscripts.count(",") + 1]
    wanted = np.einsum(subscripts, *operands, optimize=True)
    np.testing.assert_allclose(np.asarray(afx.einsum(subscripts, *operands)), wanted, atol=1e-12)


EINSUM_LENGTHS = {"a": 2, "b": 3, "c": 4, "d": 1}


def _subscripts(rng: random.Random) -> tuple[str, list[Any]]:
    """Return subscripts and shapes drawn from everything the notation allows: repeats, ellipses, sums, broadcasting."""
    terms: list[str] = []
    shapes: list[Any] = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        names = [rng.choice("abcd") for _ in range(rng.randint(0, 3))]
        shape = [EINSUM_LENGTHS[n] for n in names]
        if rng.random() < 0.5:
            at, more = rng.randint(0, len(names)), rng.randint(0, 2)
            shape[at:at] = [rng.choice([1, n]) for n in (5, 6)[2 - more :]]
            names[at:at] = ["..."]
        terms.append("".join(names))
        shapes.append(shape)
    left = ",".join(terms)
    used = sorted(set(left) & set("abcd"))
    kept = rng.sample(used, rng.randint(0, len(used))) + (["..."] if "." in left else [])
    rng.shuffle(kept)
    return left + rng.choice(["", "->" + "".join(kept)]), shapes


def test_einsum_where_numpys_order_is_all_at_once() -> None:
    """Of many operands whose pairs cost NumPy more than one sum over all letters, no product is much larger than they are."""
    cases = ("b,abe,egf,cd,fbc,cab,ad,de->ec", "edb,c,f,fda,fdb,fab,ae,c->", "cef,abe,ac,db,fda,c,ed,f->cb")
    for subscripts in cases:
        xs = [RNG.normal(size=(9,) * len(term)) for term in subscripts.partition("->")[0].split(",")]
        graph = afx.jit(lambda *xs, s=subscripts: afx.einsum(s, *xs)).lower(*xs).graph
        assert max(math.prod(v.aval.shape) for eq in graph.equations for v in eq.outputs) <= 9**4
        np.testing.assert_allclose(
            afx.einsum(subscripts, *xs), np.einsum(subscripts, *xs, optimize=True), rtol=1e-9, atol=1e-8
        )


@together("seed", range(120))
def test_einsum_is_numpys_on_random_subscripts(seed: int) -> None:
    """Values, and the derivative as the sum over the operands of einsum with that operand's tangent."""
    subscripts, shapes = _subscripts(random.Random(seed))
    xs = [RNG.normal(size=s) for s in shapes]
    ts = [RNG.normal(size=s) for s in shapes]
    want = np.einsum(subscripts, *xs)
    found, slope = afx.jvp(lambda *v: afx.einsum(subscripts, *v), tuple(xs), tuple(ts))
    np.testing.assert_allclose(np.asarray(found), want, atol=1e-12)
    parts = [np.einsum(subscripts, *xs[:k], t, *xs[k + 1 :]) for k, t in enumerate(ts)]
    np.testing.assert_allclose(np.asarray(slope), sum(parts), atol=1e-12)
    ct = RNG.normal(size=want.shape)
    back = afx.vjp(lambda *v: afx.einsum(subscripts, *v), *xs)[1](afx.asarray(ct))
    assert sum(np.sum(np.asarray(g) * t) for g, t in zip(back, ts, strict=True)) == pytest.approx(
        np.sum(ct * np.asarray(slope))
    )


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, np.float32, np.complex64])
def test_einsum_keeps_the_dtype(dtype: Any) -> None:
    """Sums of small integers too, as NumPy's einsum and unlike its sum."""
    x = np.ones((2, 3)).astype(dtype)
    for subscripts, operands in (("ij->i", (x,)), ("ij,ij->", (x, x)), ("ij->", (x,)), ("ij,kj", (x, x))):
        assert afx.einsum(subscripts, *operands).dtype == np.einsum(subscripts, *operands).dtype == dtype


MIXED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "int8": ("i,j->j", (np.full(3, 100, np.int8), np.array([1.0, 2.0]))),
    "int32": ("i,j->j", (np.full(3, 2**30, np.int32), np.array([1.0, 2.0]))),
    "bool": ("i,j->j", (np.ones(19, bool), np.array([127, 1]))),
    "float16": ("i,j->j", (np.full(5, 60000, np.float16), np.array([1.0]))),
    "float32": ("i,j->j", (np.array([1e8, 1, -1e8], np.float32), np.array([1.0]))),
    "three operands": ("i,i,j->j", (np.full(3, 100, np.int8), np.full(3, 100, np.int8), np.array([1.0]))),
    "chain": ("ij,jk,kl->il", (*[np.full((2, 2), 100, np.int8)] * 2, np.array([[1.0], [2.0]]))),
}


@pytest.mark.parametrize("name", MIXED)
def test_einsum_of_mixed_dtypes_sums_in_the_result(name: str) -> None:
    """Axes of one operand are summed in the dtype of the result, which holds them; compiled and batched too."""
    subscripts, xs = MIXED[name]
    want = np.einsum(subscripts, *[x.astype(float) for x in xs])

    def product(*operands: Any) -> Any:
        return afx.einsum(subscripts, *operands)

    for found in (product(*xs), afx.jit(product)(*xs), afx.vmap(product)(*[x[None] for x in xs])[0]):
        np.testing.assert_array_equal(found, want)
        assert found.dtype == np.einsum(subscripts, *xs).dtype


@pytest.mark.parametrize("lead", [(3,), (2, 3)])
def test_products_over_no_elements_have_gradients(lead: tuple[int, ...]) -> None:
    """A sum over an axis of length 0 depends on nothing: the gradients are empty, or zeros."""
    a = np.ones((*lead, 0))
    for v in (np.ones(0), np.ones((0, 2))):
        by_a, by_v = afx.grad(lambda a, v: afx.sum(a @ v), (0, 1))(a, v)
        assert (by_a.shape, by_v.shape) == (a.shape, v.shape)


@together(
    ("subscripts", "shapes"),
    [
        ("ii", [(2, 1)]),
        ("i,i", [(2,), (3,)]),
        ("i..", [(2,)]),
        ("...i...", [(2,)]),
        ("ij", [(2,)]),
        ("i->ii", [(2,)]),
        ("i->j", [(2,)]),
        ("1", [(2,)]),
        ("i->i->i", [(2,)]),
        ("", []),
    ],
)
def test_malformed_subscripts_raise(subscripts: str, shapes: Any) -> None:
    """What NumPy refuses is refused, by an error that shows the subscripts."""
    operands = [np.ones(s) for s in shapes]
    with pytest.raises(ValueError, match=r".*"):
        np.einsum(subscripts, *operands)
    with pytest.raises(afx.errors.AfxError, match=f"einsum: .*{re.escape(repr(subscripts))}"):
        afx.einsum(subscripts, *operands)


@together(
    ("name", "operands"),
    [
        ("dot", (C, B)),
        ("dot", (A, V)),
        ("dot", (2.0, A)),
        ("inner", (A, C)),
        ("outer", (A, B)),
        ("kron", (A, B)),
        ("kron", (V, A)),
        ("vdot", (A, A)),
        ("tensordot", (C, B, 1)),
        ("tensordot", (C, C, ([0, 2], [0, 2]))),
        ("vecdot", (A, A[:1])),
        ("cross", (A[:, :3], A[:, 1:])),
    ],
)
def test_products_are_numpys(name: str, operands: Any) -> None:
    """Each named product agrees with NumPy's of that name."""
    np.testing.assert_allclose(np.asarray(getattr(afx, name)(*operands)), getattr(np, name)(*operands), atol=1e-12)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: afx.matmul(A, A), "inner axes differ: got float64.3,4. @ float64.3,4."),
        (lambda: afx.matmul(A, 2.0), "no axis"),
        (lambda: afx.matmul(np.ones((2, 1, 1)), np.ones((3, 1, 1))), "leading axes"),
        (lambda: afx.einsum("ij,jk->iz", A, B), "no operand"),
        (lambda: afx.einsum("ij,jk", A), "as many operands"),
        (lambda: afx.einsum("ij,jk", A, A), "lengths"),
        (lambda: afx.tensordot(A, B, ([0], [0])), "differ in length"),
        (lambda: afx.cross(A, A), "3 components"),
    ],
)
def test_mistakes_are_explained(run: Any, words: str) -> None:
    """Each mistake raises with its reason."""
    with pytest.raises(afx.errors.AfxError, match=words):
        run()


def test_vecdot_counts_axes_of_each_operand() -> None:
    """An axis counts within each operand, as in NumPy, also where the operands have different numbers of axes."""
    a, v = RNG.normal(size=(3, 3)), RNG.normal(size=3)
    np.testing.assert_allclose(afx.vecdot(a, v, axis=0), np.linalg.vecdot(a, v, axis=0))
    np.testing.assert_allclose(np.linalg.vecdot(afx.asarray(v), a, axis=0), np.linalg.vecdot(v, a, axis=0))


def test_axes_in_an_array() -> None:
    """Axes of a tensor product are given in sequences of any kind."""
    a, b = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(4, 3, 2))
    axes = np.array([[1, 0], [0, 1]])
    np.testing.assert_allclose(afx.tensordot(a, b, axes=axes), np.tensordot(a, b, axes=axes))
