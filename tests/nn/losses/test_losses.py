"""Losses: formulas, extreme logits, edges, mistakes."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import special

import afx
from afx import nn

INF = np.inf
EXTREME = np.array([-1e300, -1e4, -40.0, -1e-9, 0.0, 1e-9, 40.0, 1e4, 1e300])


def slope(fn: Any, x: Any) -> np.ndarray:
    """Return the derivative of the sum; by ones as cotangents, since sums of large values overflow."""
    y, pull = afx.vjp(fn, x)
    return np.asarray(pull(afx.ones(y.shape, afx.float64))[0])


class TestRegression:
    """Losses of differences."""

    def test_absolute_error(self) -> None:
        """|d|, with the derivative 0 at 0; integers take the predictions' dtype."""
        x = np.array([-2.0, 0.0, 3.0])
        assert nn.mae(x, 0.0).tolist() == [2.0, 0.0, 3.0]
        assert slope(lambda x: nn.mae(x, np.zeros(3)), x).tolist() == [-1.0, 0.0, 1.0]
        assert nn.mae(x.astype(np.float32), np.zeros(3, int)).dtype == np.float32
        with pytest.raises(afx.errors.ShapeError, match="mae: predictions and targets differ"):
            nn.mae(np.ones((3, 1)), np.ones(3))

    def test_log_cosh(self) -> None:
        """½d² near 0 with all digits, |d| - log 2 far off without overflow; its derivative is tanh."""
        size = np.abs(EXTREME)
        want = np.where(size < 1, np.minimum(size, 1) ** 2 / 2, size - np.log(2))
        np.testing.assert_allclose(np.asarray(nn.log_cosh(EXTREME, 0.0)), want, rtol=1e-14)
        np.testing.assert_allclose(slope(lambda x: nn.log_cosh(x, 0.0), EXTREME), np.tanh(EXTREME), rtol=1e-12)
        x = np.linspace(-3, 3, 41)
        np.testing.assert_allclose(np.asarray(nn.log_cosh(x, 0.0)), np.log(np.cosh(x)), rtol=1e-12, atol=1e-16)
        curvature = afx.hessian(lambda x: afx.sum(nn.log_cosh(x, 0.0)))(np.array([0.0, 2.0]))
        np.testing.assert_allclose(np.diag(np.asarray(curvature)), 1 / np.cosh([0.0, 2.0]) ** 2, rtol=1e-12)


class TestCrossEntropy:
    """Smoothing and masks of the softmax cross entropy."""

    @pytest.mark.parametrize("soft", [False, True])
    def test_smoothing_is_another_target(self, soft: bool, rng: np.random.Generator) -> None:
        """A share of each target goes to all classes evenly."""
        logits, classes = rng.normal(size=(6, 4)), rng.integers(0, 4, 6)
        target = rng.dirichlet(np.ones(4), 6) if soft else np.eye(4)[classes]
        want = nn.softmax_cross_entropy(logits, 0.9 * target + 0.1 / 4)
        found = nn.softmax_cross_entropy(logits, target if soft else classes, smoothing=0.1)
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-13)

    def test_masked_examples_add_nothing(self, rng: np.random.Generator) -> None:
        """Whatever their target is, and without a derivative; others are as they were."""
        logits, classes = rng.normal(size=(3, 4)), np.array([1, -1, 99])
        mask = np.array([True, False, False])
        loss = nn.softmax_cross_entropy(logits, classes, mask=mask)
        assert loss.tolist() == [float(nn.softmax_cross_entropy(logits[0], 1)), 0.0, 0.0]
        gradient = afx.grad(lambda x: afx.sum(nn.softmax_cross_entropy(x, classes, mask=mask)))(logits)
        assert not np.asarray(gradient)[1:].any()
        compiled = afx.jit(lambda x, t: nn.softmax_cross_entropy(x, t, mask=mask))(logits, classes)
        np.testing.assert_allclose(np.asarray(compiled), np.asarray(loss), rtol=1e-14)

    def test_mistakes(self) -> None:
        """Masks of numbers or of another shape, smoothing beyond 1."""
        logits, classes = np.zeros((3, 2)), np.zeros(3, int)
        with pytest.raises(afx.errors.DtypeError, match="a mask is True where"):
            nn.softmax_cross_entropy(logits, classes, mask=np.ones(3))
        with pytest.raises(afx.errors.ShapeError, match="the mask has a value for each example"):
            nn.softmax_cross_entropy(logits, classes, mask=np.ones((3, 2), bool))
        with pytest.raises(afx.errors.ArgumentError, match="smoothing"):
            nn.softmax_cross_entropy(logits, classes, smoothing=1.1)


class TestFocal:
    """The focal loss."""

    @pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
    @pytest.mark.parametrize("target", [0.0, 1.0, 0.3])
    def test_formula(self, gamma: float, target: float) -> None:
        """(1 - p)^gamma times the cross entropy, p of the right answer; weights by class."""
        y = np.linspace(-6, 6, 25)
        p = special.expit(y)
        p_right = target * p + (1 - target) * (1 - p)
        entropy = -target * np.log(p) - (1 - target) * np.log1p(-p)
        want = (1 - p_right) ** gamma * entropy
        targets = np.full(25, target)
        np.testing.assert_allclose(np.asarray(nn.focal(y, targets, gamma)), want, rtol=1e-12)
        weight = 0.25 * target + 0.75 * (1 - target)
        np.testing.assert_allclose(np.asarray(nn.focal(y, targets, gamma, alpha=0.25)), weight * want, rtol=1e-12)

    @pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
    def test_extreme_logits(self, gamma: float) -> None:
        """Finite values and derivatives; a certain wrong answer costs its logit."""
        for target in (0.0, 1.0, 0.5):
            fn = lambda y, t=target: nn.focal(y, np.full(9, t), gamma)
            assert np.isfinite(np.asarray(fn(EXTREME))).all()
            assert np.isfinite(slope(fn, EXTREME)).all()
        assert float(nn.focal(np.array(-1e4), 1.0, gamma)) == 1e4
        with pytest.raises(afx.errors.ArgumentError, match="gamma"):
            nn.focal(EXTREME, 1.0, -1.0)


class TestHinge:
    """The hinge loss."""

    def test_values_and_slopes(self) -> None:
        """0 behind the margin, a line in front of it."""
        y = np.array([-1.0, 0.0, 1.0, 2.0])
        assert nn.hinge(y, np.ones(4, int)).tolist() == [2.0, 1.0, 0.0, 0.0]
        assert nn.hinge(y, -1).tolist() == [0.0, 1.0, 2.0, 3.0]
        assert slope(lambda y: nn.hinge(y, np.ones(4)), y).tolist() == [-1.0, -1.0, 0.0, 0.0]

    def test_labels_of_zero_are_refused(self) -> None:
        """They would silently cost the margin for ever."""
        with pytest.raises(afx.errors.ArgumentError, match=r"become 2 \* labels - 1"):
            nn.hinge(np.zeros(2), np.array([0, 1]))
        with pytest.raises(afx.errors.ArgumentError, match="margin"):
            nn.hinge(np.zeros(2), 1, margin=0)


class TestDivergence:
    """The Kullback-Leibler divergence."""

    def test_formula_and_edges(self, rng: np.random.Generator) -> None:
        """SciPy's sum of relative entropies; classes without probability add nothing; 0 at equality."""
        logits, target = rng.normal(size=(5, 4)), rng.dirichlet(np.ones(4), 5)
        target[0] = [0.0, 1.0, 0.0, 0.0]
        want = special.rel_entr(target, special.softmax(logits, -1)).sum(-1)
        np.testing.assert_allclose(np.asarray(nn.kl_divergence(logits, target)), want, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(nn.kl_divergence(np.log(target[1:]), target[1:])), 0, atol=1e-15)
        far = np.array([0.0, -INF])
        assert float(nn.kl_divergence(far, np.array([1.0, 0.0]))) == 0.0
        assert float(nn.kl_divergence(far, np.array([0.5, 0.5]))) == INF
        gradient = afx.grad(lambda y, t: nn.kl_divergence(y, t), argnums=(0, 1))(far, np.array([1.0, 0.0]))
        assert all(np.isfinite(np.asarray(g)).all() for g in gradient)
        with pytest.raises(afx.errors.ShapeError, match="kl_divergence"):
            nn.kl_divergence(logits, target[0])


class TestVectors:
    """Angles and distances."""

    @pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
    def test_cosines_do_not_depend_on_lengths(self, scale: float, rng: np.random.Generator) -> None:
        """Neither overflow nor underflow; the distance of parallel vectors is 0, of opposite ones 2."""
        x, y = rng.normal(size=(2, 6, 5))
        want = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
        np.testing.assert_allclose(np.asarray(nn.cosine_similarity(scale * x, y)), want, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(nn.cosine_distance(x, scale * y)), 1 - want, rtol=1e-12)
        assert np.abs(np.asarray(nn.cosine_distance(scale * x, x))).max() < 1e-30
        np.testing.assert_allclose(np.asarray(nn.cosine_distance(x.T, -x.T, axis=0)), 2.0)

    def test_small_angles_keep_their_digits(self) -> None:
        """An angle of 1e-7 has the distance 5e-15."""
        found = float(nn.cosine_distance(np.array([1.0, 0.0]), np.array([1.0, 1e-7])))
        assert found == pytest.approx(5e-15, rel=1e-8)

    def test_zero_vectors(self) -> None:
        """No angle: similarity 0, distance 1, no derivative."""
        zero, x = np.zeros(3), np.ones(3)
        assert float(nn.cosine_similarity(zero, x)) == 0.0
        assert float(nn.cosine_distance(zero, x)) == 1.0
        assert not slope(lambda v: nn.cosine_distance(v, x), zero).any()

    def test_triplet(self, rng: np.random.Generator) -> None:
        """Distances by NumPy; at equal points the derivative is 0."""
        a, p, n = rng.normal(size=(3, 8, 4))
        apart = [np.linalg.norm(a - other, axis=-1) for other in (p, n)]
        want = np.maximum(apart[0] - apart[1] + 0.5, 0)
        np.testing.assert_allclose(np.asarray(nn.triplet(a, p, n, 0.5)), want, atol=1e-14)
        assert np.isfinite(slope(lambda v: nn.triplet(v, v, v), np.ones((2, 3)))).all()
        with pytest.raises(afx.errors.ShapeError, match="triplet"):
            nn.triplet(a, p[0], n)

    def test_contrastive(self) -> None:
        """Pairs attract, others repel within the margin."""
        x, y = np.zeros((3, 2)), np.array([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]])
        found = nn.contrastive(x, y, np.array([True, False, False]), margin=2.0)
        np.testing.assert_allclose(np.asarray(found), [0.5, 1.125, 0.0])
        assert np.isfinite(slope(lambda v: nn.contrastive(v, v * 1.0, np.zeros(2)), np.ones((2, 3)))).all()

    def test_info_nce(self, rng: np.random.Generator) -> None:
        """The cross entropy of cosines over the temperature."""
        x, y = rng.normal(size=(2, 5, 3))
        cosines = np.array([[float(nn.cosine_similarity(a, b)) for b in y] for a in x]) / 0.2
        want = special.logsumexp(cosines, axis=1) - np.diag(cosines)
        np.testing.assert_allclose(np.asarray(nn.info_nce(x, y, 0.2)), want, rtol=1e-12)


def paths(probabilities: np.ndarray, labels: tuple[int, ...], blank: int) -> float:
    """Return the probability of labels, by going through all paths."""
    total = 0.0
    steps, classes = probabilities.shape
    for path in itertools.product(range(classes), repeat=steps):
        merged = [c for c, _ in itertools.groupby(path)]
        if tuple(c for c in merged if c != blank) == labels:
            total += float(np.prod(probabilities[np.arange(steps), path]))
    return total


class TestCtc:
    """Connectionist temporal classification against all paths, one by one."""

    LABELS = ((1, 2), (1, 1), (2,), ())

    @pytest.mark.parametrize("blank", [0, 2])
    def test_every_path_is_summed(self, blank: int, rng: np.random.Generator) -> None:
        """Labels with repetitions, of several lengths, in fewer steps; in a batch, compiled and under vmap."""
        logits = rng.normal(size=(4, 5, 4))
        wanted = [tuple(3 if c == blank else c for c in row) for row in self.LABELS]
        steps, counts = np.array([5, 4, 3, 2]), np.array([len(row) for row in wanted])
        labels = np.array([(*row, *[blank] * (2 - len(row))) for row in wanted])
        shares = special.softmax(logits, -1)
        want = [-np.log(paths(s[:t], row, blank)) for s, t, row in zip(shares, steps, wanted, strict=True)]

        def loss(logits: Any, labels: Any, steps: Any, counts: Any) -> Any:
            return nn.ctc(logits, labels, logit_lengths=steps, label_lengths=counts, blank=blank)

        for way in (loss, afx.jit(loss), afx.vmap(loss)):
            np.testing.assert_allclose(np.asarray(way(logits, labels, steps, counts)), want, rtol=1e-12)

    def test_the_gradient_is_that_of_finite_differences(self, rng: np.random.Generator) -> None:
        """Along a random direction; steps behind the length have none."""
        logits, direction = rng.normal(size=(2, 2, 6, 3))
        labels, steps = np.array([[1, 2, 1], [2, 2, 1]]), np.array([6, 5])
        loss = lambda x: afx.sum(nn.ctc(x, labels, logit_lengths=steps))
        found = np.asarray(afx.grad(loss)(logits))
        h = 1e-5
        want = (float(loss(logits + h * direction)) - float(loss(logits - h * direction))) / (2 * h)
        assert float((found * direction).sum()) == pytest.approx(want, rel=1e-7)
        assert not found[1, 5:].any()

    def test_extreme_logits(self) -> None:
        """Certain and right is 0, certain and wrong is the logit; no warning, finite derivatives."""
        logits = np.full((3, 3), -1e4)
        logits[[0, 1, 2], [1, 0, 2]] = 1e4
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert float(nn.ctc(logits, np.array([1, 2]))) == 0.0
            assert float(nn.ctc(logits, np.array([2, 1]))) == pytest.approx(4e4)
            assert np.isfinite(np.asarray(afx.grad(lambda x: nn.ctc(x, np.array([2, 1])))(logits))).all()

    def test_labels_that_do_not_fit(self) -> None:
        """Two equal labels need three steps: the loss is inf, with the derivative 0."""
        logits = np.zeros((2, 3))
        assert float(nn.ctc(logits, np.array([1, 1]))) == INF
        assert not np.asarray(afx.grad(lambda x: nn.ctc(x, np.array([1, 1])))(logits)).any()
        assert float(nn.ctc(np.zeros((0, 3)), np.zeros(0, int))) == 0.0
        assert float(nn.ctc(np.zeros((0, 3)), np.array([1]))) == INF

    def test_mistakes(self) -> None:
        """Blank labels, labels of numbers, lengths out of range, other shapes."""
        logits = np.zeros((4, 3))
        with pytest.raises(afx.errors.ArgumentError, match="labels are classes other than the blank 0: got 0"):
            nn.ctc(logits, np.array([1, 0]))
        with pytest.raises(afx.errors.ArgumentError, match="got 3 for 3 classes"):
            nn.ctc(logits, np.array([3]))
        with pytest.raises(afx.errors.DtypeError, match="labels are integers"):
            nn.ctc(logits, np.array([1.0]))
        with pytest.raises(afx.errors.ArgumentError, match="logit_lengths are from 0 to 4"):
            nn.ctc(logits, np.array([1]), logit_lengths=5)
        with pytest.raises(afx.errors.ShapeError, match="ctc"):
            nn.ctc(logits, np.array([[1]]))
        with pytest.raises(afx.errors.ArgumentError, match="the blank is a class"):
            nn.ctc(logits, np.array([1]), blank=3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_losses_keep_the_dtype(dtype: Any, rng: np.random.Generator) -> None:
    """Whatever the targets' dtype is."""
    x, y = (rng.normal(size=(4, 3)).astype(dtype) for _ in range(2))
    ones, classes = np.ones((4, 3), int), np.zeros(4, int)
    losses = [nn.mae(x, ones), nn.log_cosh(x, ones), nn.focal(x, ones), nn.hinge(x, ones), nn.cosine_distance(x, y)]
    losses += [
        nn.triplet(x, y, y),
        nn.contrastive(x, y, classes),
        nn.info_nce(x, y),
        nn.kl_divergence(x, np.eye(4, 3, dtype=int)),
    ]
    losses += [nn.softmax_cross_entropy(x, classes, smoothing=0.1), nn.ctc(x, np.array([1, 2]))]
    assert {loss.dtype for loss in losses} == {np.dtype(dtype)}


def test_gradients_of_shares_carry_no_masks() -> None:
    """The zeros of a cross entropy of distributions are zeros by formula: layers before it compute no masks."""
    w, x = np.ones((4, 3)), np.ones((5, 4))
    targets = np.eye(3)[[0, 1, 2, 0, 1]]
    graph = afx.trace(afx.grad(lambda w: afx.mean(nn.softmax_cross_entropy(x @ w, targets))))(w)
    names = [eq.primitive.name for eq in graph.equations]
    assert "any" not in names
    assert "bitwise_and" not in names
    logits = np.array([[0.0, -np.inf, 1.0]])
    value, slope = afx.value_and_grad(lambda y: afx.sum(nn.softmax_cross_entropy(y, np.array([[0.5, 0.0, 0.5]]))))(
        logits
    )
    assert np.isfinite(value)
    assert np.allclose(slope, [[1 / (1 + np.e) - 0.5, 0.0, np.e / (1 + np.e) - 0.5]])
