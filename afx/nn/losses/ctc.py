"""Connectionist temporal classification: labels without their times."""

from __future__ import annotations

import math

import numpy as np

from afx.control.scan import scan
from afx.core import Array, ArrayLike, Aval, Shape, aval_of, integer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.losses.classification import known
from afx.ops import arange, asarray, concat, full, logaddexp, maximum, moveaxis, stack, take_along_axis, where
from afx.ops.manipulation.shape import broadcast_to, expand_dims, reshape
from afx.ops.nn.activations import log_softmax

__all__ = ["ctc"]


def ctc(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    logit_lengths: ArrayLike | None = None,
    label_lengths: ArrayLike | None = None,
    blank: int = 0,
) -> Array:
    """Return minus the logarithm of the probability of labels, whatever their times (Graves et al. 2006, section 4.1).

    All alignments are summed: each step gives a label or a blank, repeated labels count once unless a blank parts them.
    Labels that do not fit into the steps have the loss inf and the derivative 0.

    Args:
        logits: float[..., time, classes].
        labels: int[..., length], classes other than the blank.
        logit_lengths: int[...], how many steps count; all without them.
        label_lengths: int[...], how many labels count; all without them. What stands behind is not looked at.
        blank: the class that stands for no label.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes do not belong together.
        DtypeError: labels or lengths are no integers.
        ArgumentError: a label is the blank or no class, or a length out of its range, where they are known.

    >>> ctc(afx.zeros((2, 3)), afx.asarray([1]))  # of 9 paths 3 read "1": 1-, -1, 11
    Array(1.0986123, dtype=float32)
    """
    a, b = aval_of(logits, "ctc"), aval_of(labels, "ctc")
    lead = _checked_lead(a, b, blank)
    steps = _lengths("logit_lengths", logit_lengths, a.shape[-2], lead)
    counts = _lengths("label_lengths", label_lengths, b.shape[-1], lead)
    counted = arange(b.shape[-1]) < expand_dims(counts, -1)
    _check_labels(labels, counted, a.shape[-1], blank)
    states = _between_blanks(where(counted, labels, blank), blank)
    size = states.shape[-1]
    repeats = concat([full((*lead, 2), True), states[..., 2:] == states[..., :-2]], axis=-1)[..., :size]
    skips = (states != blank) & ~repeats
    where_at = broadcast_to(expand_dims(states, -2), (*lead, a.shape[-2], size))
    scores = take_along_axis(log_softmax(logits), where_at, axis=-1)
    start = where(arange(size) == 0, 0.0, broadcast_to(asarray(-math.inf, scores.dtype), (*lead, size)))

    def step(carry: Array, xs: tuple[Array, Array]) -> tuple[Array, None]:
        """Go on from the logarithms of the probabilities of all beginnings that end in each state."""
        time, score = xs
        reached = logaddexp(logaddexp(carry, _shift_states(carry, 1)), where(skips, _shift_states(carry, 2), -math.inf))
        return where(expand_dims(time < steps, -1), reached + score, carry), None

    last, _ = scan(step, start, (arange(a.shape[-2]), moveaxis(scores, -2, 0)))
    ends = expand_dims(2 * counts, -1)
    label = take_along_axis(last, maximum(ends - 1, 0), axis=-1)
    loss = -logaddexp(take_along_axis(last, ends, axis=-1), where(ends > 0, label, -math.inf))[..., 0]
    return where(loss == math.inf, math.inf, loss)


def _checked_lead(logits: Aval, labels: Aval, blank: int) -> Shape:
    if logits.ndim < 2 or labels.ndim < 1 or logits.shape[:-2] != labels.shape[:-1]:
        raise ShapeError(
            f"ctc: logits are [..., time, classes] and labels [..., length]: got {logits} and {labels}; reshape them"
        )
    if labels.dtype.kind not in "iu":
        raise DtypeError(f"ctc: labels are integers: got {labels}; use astype(int)")
    if not 0 <= integer(blank, "ctc", "blank") < logits.shape[-1]:
        raise ArgumentError(f"ctc: the blank is a class: got {blank} for {logits.shape[-1]} classes; choose one")
    return logits.shape[:-2]


def _lengths(name: str, given: ArrayLike | None, longest: int, lead: Shape) -> Array:
    lengths = full(lead, longest, np.int64) if given is None else asarray(given)
    if lengths.dtype.kind not in "iu":
        raise DtypeError(f"ctc: {name} are integers: got {lengths.aval}; use astype(int)")
    if lengths.shape != lead:
        raise ShapeError(f"ctc: {name} has a number for each example: got {lengths.aval} for {lead}; reshape it")
    value = known(lengths)
    if value is not None and not np.all((value >= 0) & (value <= longest)):
        raise ArgumentError(f"ctc: {name} are from 0 to {longest}: got others; cut them")
    return lengths


def _check_labels(labels: ArrayLike, counted: Array, classes: int, blank: int) -> None:
    value, counts = known(labels), known(counted)
    if value is None or counts is None:
        return
    wrong = counts & ((value < 0) | (value >= classes) | (value == blank))
    if wrong.any():
        raise ArgumentError(
            f"ctc: labels are classes other than the blank {blank}: got {value[wrong].flat[0]} for {classes} classes; "
            "give label_lengths= for padded labels, or another blank="
        )


def _between_blanks(labels: Array, blank: int) -> Array:
    """Return blank, label, blank, label, …, blank."""
    fill = full(labels.shape, blank, labels.dtype)
    pairs = reshape(stack([fill, labels], axis=-1), (*labels.shape[:-1], 2 * labels.shape[-1]))
    return concat([pairs, full((*labels.shape[:-1], 1), blank, labels.dtype)], axis=-1)


def _shift_states(x: Array, by: int) -> Array:
    """Return what stands so many states before, -inf in front of the first."""
    padding = full((*x.shape[:-1], by), -math.inf, x.dtype)
    return concat([padding, x], axis=-1)[..., : x.shape[-1]]
