"""onnx's own tests of its operators, as the installed package makes them, through `from_onnx`.

``python -m tests.export.onnx.node_suite`` runs all of them, prints why models are refused, and fails below the counts that are
claimed; names of the suite's files (``resize gru``) choose some.
"""

from __future__ import annotations

import collections
import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import afx
from afx import export
from afx.errors import ExportError

SUITE = "onnx.backend.test.case.node"
FEWEST = 1_577  # of 1,884 in onnx 1.23


def list_files() -> list[str]:
    """Return the names of the suite's files, in order."""
    path = importlib.import_module(SUITE).__path__
    names = [module.name.removeprefix(f"{SUITE}.") for module in pkgutil.walk_packages(path, f"{SUITE}.")]
    return sorted(names)


def load_cases(files: Iterable[str]) -> list[Any]:
    """Return the cases of files: a model and its inputs and results; loading a file makes them."""
    suite: Any = importlib.import_module(SUITE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers that the cases are made of
        for name in files:
            importlib.import_module(f"{SUITE}.{name}")
    return list(suite._NodeTestCases)


def judge(case: Any) -> tuple[str, str]:
    """Return what becomes of a case ("passed", "refused", "wrong", "crashed") and why."""
    try:
        model = export.from_onnx(case.model)
        for inputs, results in case.data_sets:
            got = afx.pytree.leaves(model(*map(read_array, inputs)))
            for x, want in zip(got, map(read_array, results), strict=True):
                compare(np.asarray(x), want, case)
    except ExportError as error:
        return "refused", str(error)
    except AssertionError as error:
        return "wrong", str(error)
    except Exception as error:
        return "crashed", repr(error)
    return "passed", ""


def read_array(x: Any) -> Any:
    """Return an array, of which the suite gives some as tensors of a file."""
    onnx: Any = importlib.import_module("onnx")
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def compare(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], case: Any) -> None:
    """Raise where results differ by more than the case allows and, of half precision, its last digit at the largest."""
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    digit = float(np.finfo(np.float16).eps * np.max(abs(want), initial=0)) if want.dtype == np.float16 else 0.0
    np.testing.assert_allclose(got, want, rtol=case.rtol, atol=max(case.atol, digit))


def run_cases(cases: Sequence[Any]) -> dict[str, dict[str, str]]:
    """Return the reasons by case, for each of what became of them."""
    fates: dict[str, dict[str, str]] = {fate: {} for fate in ("passed", "refused", "wrong", "crashed")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of what NumPy computes at edges
        for case in cases:
            fate, why = judge(case)
            fates[fate][case.name] = why
    return fates


def main(files: Sequence[str]) -> None:
    """Run all, or what chosen files make, and print the counts and the reasons."""
    fates = run_cases(load_cases(files or list_files()))
    reasons = collections.Counter(re.sub(r"^from_onnx: |; .*", "", why) for why in fates["refused"].values())
    lines = [f"{count:5} {why}" for why, count in reasons.most_common()]
    lines += [f"{fate}: {name}: {why}" for fate in ("wrong", "crashed") for name, why in fates[fate].items()]
    lines.append(", ".join(f"{len(names):,} {fate}" for fate, names in fates.items()))
    sys.stdout.write("\n".join(lines) + "\n")
    if fates["wrong"] or fates["crashed"] or (not files and len(fates["passed"]) < FEWEST):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
