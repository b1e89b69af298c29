"""Products on threads: the values of BLAS, which is left as it was."""

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.threads import set_products
from afx.errors import MissingExtraError
from afx.runtime.thread_pool import get_threads, set_threads


def test_products_on_the_plans_own_threads_leave_blas_as_it_was() -> None:
    """The values are those of BLAS, and its number of threads is set back; without threadpoolctl it is refused."""
    if importlib.util.find_spec("threadpoolctl") is None:
        with pytest.raises(MissingExtraError):
            set_products("plan")
        return
    threadpoolctl: Any = importlib.import_module("threadpoolctl")
    x = np.random.default_rng(0).normal(size=(300, 200)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=(200, 100)).astype(np.float32)
    before, threads = threadpoolctl.threadpool_info(), get_threads()
    try:
        set_threads(2)
        set_products("plan")
        fn = afx.jit(lambda x, y: afx.sin(x) @ y)
        assert "product_(" in fn.lower(x, y).plan.source
        np.testing.assert_allclose(np.asarray(fn(x, y)), np.sin(x) @ y, rtol=1e-4, atol=1e-4)
    finally:
        set_products("auto")
        set_threads(threads)
    assert threadpoolctl.threadpool_info() == before


def test_a_plan_with_large_products_tries_both_ways() -> None:
    """Whether BLAS is held to one thread or not, call after call the values are the same and BLAS stays as it was."""
    x = np.random.default_rng(0).normal(size=(200, 300))
    fn = afx.jit(lambda x: afx.sin(x @ x.T))
    controls: Any = importlib.import_module("threadpoolctl") if importlib.util.find_spec("threadpoolctl") else None
    before = controls and controls.threadpool_info()
    for _ in range(8):
        np.testing.assert_allclose(np.asarray(fn(x)), np.sin(x @ x.T), rtol=1e-9, atol=1e-9)
    assert before == (controls and controls.threadpool_info())
