"""What type checkers know of trees: parts of them keep their type."""

from typing import Any, assert_type

import attrs

import afx
from afx import Array, pytree


@attrs.frozen
class Norm:
    scale: Array
    mean: Array = afx.non_trainable()


def parts(norm: Norm) -> None:
    chosen, rest = pytree.partition(norm, lambda path, leaf: path == ".scale" and leaf.ndim == 1)
    assert_type(pytree.combine(chosen, rest), Norm)
    assert_type(pytree.update_at(norm, ".scale", norm.mean), Norm)
    assert_type(pytree.update_at(norm, lambda tree: tree.mean, lambda leaf: 2 * leaf), Norm)
    assert_type(pytree.map(lambda leaf: leaf, norm, is_leaf=lambda leaf: leaf is None), Norm)
    size: int = pytree.reduce(lambda total, leaf: total + int(leaf.size), norm, 0)
    assert_type(size, int)


def vectors(norm: Norm) -> None:
    vector, unravel = pytree.ravel(norm)
    assert_type(unravel, pytree.Unravel[Norm])
    assert_type(unravel(vector), Norm)


def made(scale: Array) -> Norm:
    return Norm(scale, scale)


def any_container(value: dict[str, Any]) -> None:
    assert_type(pytree.map(lambda leaf: leaf, value), dict[str, Any])
