"""What ranks compare is equal where they run the same program, and differs where they do not."""

import functools
import subprocess
import sys
from typing import Any

import attrs
import numpy as np

import afx
from afx import nn
from afx.distributed.messages import describe_program, shape_text, stable_repr
from tests.markdown import ROOT

MODEL = "nn.Sequential(nn.Linear.create(afx.random.key(0), 3, 4), nn.relu, nn.MLP.create(afx.random.key(1), [4, 2, 1]))"


def test_models_with_functions_read_the_same_in_every_process() -> None:
    """Activations in fields are named, not shown by their address."""
    model = eval(MODEL)
    code = (
        f"import afx; from afx import nn; from afx.distributed.messages import shape_text; print(shape_text({MODEL}))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shape_text(model) == result.stdout.strip()
    assert "0x" not in shape_text(model) + describe_program(lambda x: (model, nn.relu, x))


def test_other_activations_and_shapes_read_otherwise() -> None:
    """Another function in a field is another structure."""
    key = afx.random.key(0)
    texts = [
        shape_text(nn.MLP.create(key, sizes, activation=fn)) for sizes in ([2, 3], [2, 4]) for fn in (nn.relu, afx.tanh)
    ]
    assert len(set(texts)) == 4


@attrs.frozen
class Tagged:
    """A model with a set beside its array."""

    w: Any
    tags: frozenset[str] = afx.static(default=frozenset("abcdefgh"))


def test_sets_in_static_fields_read_the_same_in_every_process() -> None:
    """Their order differs from process to process; so it does within other values."""
    code = "from tests.distributed.test_digest import Tagged; from afx.distributed.messages import shape_text\n"
    code += "print(shape_text([Tagged(1.0), Tagged(2.0, (frozenset('xyz'), 3))]))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert "'a', 'b', 'c'" in texts.pop()


def test_what_differs_reads_otherwise() -> None:
    """Trees of other nesting, keys and static values, partial functions with other names."""
    trees: list[Any] = [
        (1.0, (2.0,)),
        ((1.0,), 2.0),
        [1.0, 2.0],
        {"a": 1.0, "b": 2.0},
        {"a": 1.0, "c": 2.0},
        (1.0, None, 2.0),
    ]
    trees += [Tagged(1.0), Tagged(1.0, frozenset("x")), (Tagged(1.0), 2.0), Tagged((1.0, 2.0))]
    assert len({shape_text(tree) for tree in trees}) == len(trees)
    calls: list[Any] = [functools.partial(dict, a=1), functools.partial(dict, b=1), functools.partial(dict, a=2)]
    assert len({describe_program(call) for call in calls}) == len(calls)
    assert stable_repr(np.random.default_rng(0)) == "Generator(PCG64)"
