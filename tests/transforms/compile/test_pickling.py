"""Compiled and transformed functions in other processes: by name where a module is found, by value where a script is not."""

import subprocess
import sys
from pathlib import Path

import pytest

for name in ("cloudpickle", "joblib"):
    pytest.importorskip(name, reason=f"{name} is no dependency")

SCRIPT = '''
import copy, multiprocessing, pickle, subprocess, sys
import cloudpickle, joblib
import numpy as np
import afx

SCALE = 3.0


@afx.jit
def energy(x):
    return SCALE * afx.sum(x * x)


@afx.grad
def force(x):
    return SCALE * afx.sum(x * x)


@afx.checkpoint
def saved(x):
    return SCALE * afx.sum(x)


@afx.jit
def first(x):
    return x if x.ndim == 0 else first(x[0])


class Model:
    @staticmethod
    @afx.jit
    def run(x):
        return x + 1


PROGRAM = """
import pickle, sys
import numpy as np
functions = pickle.load(sys.stdin.buffer)
print(*[fn(np.full(2, 2.0)).tolist() for fn in functions])
"""


if __name__ == "__main__":
    functions, x = [energy, force, saved, first, Model.run], np.full(2, 2.0)
    want = [fn(x).tolist() for fn in functions]
    calls = [joblib.delayed(fn)(x) for fn in functions]
    assert [z.tolist() for z in joblib.Parallel(n_jobs=2)(calls)] == want
    data = cloudpickle.dumps(functions)
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=data, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().strip() == " ".join(map(str, want))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(energy, [x])[0].tolist() == want[0]
    for fn in functions:
        assert pickle.loads(pickle.dumps(fn)) is fn
        assert pickle.loads(pickle._dumps(fn)) is fn
        assert copy.deepcopy(fn) is fn
    print("done")
'''


def test_functions_of_a_script_reach_workers(tmp_path: Path) -> None:
    """Workers of joblib and fresh processes have them by value; the processes of `multiprocessing`, and copies, by name."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    assert done.stdout.splitlines() == ["done"]
