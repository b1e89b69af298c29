"""What users call their arguments, keys and functions never changes what an exported text says or does."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from afx.errors import ExportError

X = np.array([1.0, 2.0, 3.0], np.float32)
KEYS = [
    "' + str(ran.append(1)) + '", '" + str(ran.append(1)) + "', '"""; ran.append(1); """', 'a"b', '"""\nq', "a\\", "\\N{x}",
    "\\xq", "a\n# b", "\x00\r", "\u2028", "*/ t", 3, None, ("a", 1), (), 1.5,
]  # fmt: skip


class Color(enum.StrEnum):
    RED = "red"


def run(text: str, *args: Any) -> Any:
    """Return what the function of a file returns, and verify that the file does nothing else."""
    space: dict[str, Any] = {"ran": []}
    exec(compile(text, "<exported>", "exec"), space)
    found = space[text.rpartition("\ndef ")[2].partition("(")[0]](*args)
    assert not space["ran"]
    return found


@pytest.mark.parametrize("key", KEYS, ids=[ascii(key) for key in KEYS])
def test_keys_are_data_in_a_file_of_numpy(key: Any) -> None:
    """A key of an argument and of a result is what it is, whatever it says."""
    text = export.to_numpy(lambda p: {key: p[key] * 2, 7: p[key]}, {key: X}, name="fun")
    found = run(text, {key: X})
    assert set(found) == {key, 7}
    assert found[key].tolist() == [2.0, 4.0, 6.0]


def test_keys_are_members_of_enumerations_or_refused() -> None:
    """A member of an enumeration of texts is its text; what has no form as text is refused by name."""
    found = run(export.to_numpy(lambda p: {Color.RED: p[Color.RED] * 2}, {Color.RED: X}, name="fun"), {Color.RED: X})
    assert found[Color.RED].tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(ExportError, match="a key that has no form"):
        export.to_numpy(lambda p: p[frozenset("a")], {frozenset("a"): X})


def test_a_comment_of_c_ends_where_it_should() -> None:
    """No key ends the comment of a header, begins another one or joins lines."""
    for key in ("*/ int evil; /*", "**//", "a\\\n*/", "??/", "\n#error"):
        header = export.compile(lambda p, key=key: p[key] * 2, {key: X}, name="fun").header
        comment, _, code = header.partition("*/")
        assert code.startswith("\n#ifndef")
        assert comment.count("/*") == 1
        assert not set(key) & {"\n"} or "\n#error" not in header
        assert "??/" not in header
        assert "\\\n" not in header


def test_a_comment_of_stablehlo_is_one_line() -> None:
    """No key begins a line, or ends a module."""
    plain = export.to_stablehlo(lambda p: p["a"] * 2, {"a": X}, name="fun")
    text = export.to_stablehlo(lambda p: p["\n}\r"] * 2, {"\n}\r": X}, name="fun")
    assert len(text.splitlines()) == len(plain.splitlines())


def of_rest(x1: Any, *rest: Any) -> Any:
    """Take an argument whose name others might be given."""
    return x1 - rest[0] * 2


def of_options(x: Any, *rest: Any, **options: Any) -> Any:
    """Take options beside."""
    return x - rest[0] * len(rest) * options.get("scale", 1)


@pytest.mark.parametrize("fn", [of_rest, of_options])
def test_arguments_have_names_of_their_own(fn: Callable[..., Any]) -> None:
    """No name of a variadic argument is that of another argument."""
    args = (X, 3 * X, 2 * X)
    found = run(export.to_numpy(fn, *args, name="fun"), *args)
    assert found.tolist() == fn(*args).tolist()


@pytest.mark.parametrize("name", ["Aval", "aval_of", "promote", "unpack", "run_blocks", "DEFAULT"])
def test_arguments_may_have_names_of_the_files_own_functions(name: str) -> None:
    """What a file defines for itself never meets an argument of that name."""
    held = np.arange(40, dtype=np.float32).reshape(4, 10)
    space: dict[str, Any] = {"afx": afx, "held": held}
    exec(
        f"def fn({name}): return afx.nn.softmax({name}), afx.nn.conv({name}[None, :, None], held[:2, 0, None, None]), held.T",
        space,
    )
    for got, want in zip(run(export.to_numpy(space["fn"], X), X), space["fn"](afx.asarray(X)), strict=True):
        assert np.array_equal(got, np.asarray(want))


def test_held_numbers_that_are_not_finite_are_written() -> None:
    """Complex numbers with inf and nan in either part come out as they are."""
    held = np.array([complex(1, np.inf), complex(np.nan, -0.0), complex(-0.0, -np.inf)], np.complex64)
    found = run(export.to_numpy(lambda: held), *())
    assert found.tobytes() == held.tobytes()


def test_names_within_texts_are_no_names() -> None:
    """A key keeps a word that is a variable's name."""
    text = export.to_numpy(lambda x: {"a t": afx.sin(x), "x t t": x}, X, name="fun")
    assert set(run(text, X)) == {"a t", "x t t"}
    ast.parse(text)


@pytest.mark.parametrize("number", [3, 3.5])
def test_python_numbers_take_the_dtype_of_what_they_meet(number: float) -> None:
    """A Python number among the arguments is as weak as it is without an export."""
    half = X.astype(np.float16)
    for x in (X, half, X.astype(np.float64)):
        found = run(export.to_numpy(lambda x, s: x * s, x, number, name="fun"), x, number)
        assert found.dtype == x.dtype
        assert found.tolist() == (x * number).tolist()
    compiled = export.compile(lambda x, s: x * s, X, number, name="fun")
    assert np.asarray(compiled(X, number)).dtype == np.float32
