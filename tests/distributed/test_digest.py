"""What ranks compare is equal where they run the same program, and differs where they do not."""

import subprocess
import sys

import afx
from afx import nn
from afx.distributed.digest import describe_program, shape_text
from tests.markdown import ROOT

MODEL = "nn.Sequential(nn.Linear.create(afx.random.key(0), 3, 4), nn.relu, nn.MLP.create(afx.random.key(1), [4, 2, 1]))"


def test_models_with_functions_read_the_same_in_every_process() -> None:
    """Activations in fields are named, not shown by their address."""
    model = eval(MODEL)
    code = f"import afx; from afx import nn; from afx.distributed.digest import shape_text; print(shape_text({MODEL}))"
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
