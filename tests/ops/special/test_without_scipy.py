"""Special functions in a process without SciPy: by formulas, eager and in portable code."""

import pytest

from tests.compiler.native_backend.native_run import run_python

FUNCTIONS = [
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "gamma",
    "gammaln",
    "log_ndtr",
    "ndtr",
    "ndtri",
    "ndtri_exp",
    "rgamma",
]
FUNCTIONS += ["digamma"]  # whose derivative needs SciPy
PROGRAM = """
    import sys

    class Without:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "scipy":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Without())
    import numpy as np
    import afx
    from afx import special

    x = np.linspace(0.05, 0.95, 13)
    for name in NAMES:
        fn, given = getattr(special, name), -x if name == "ndtri_exp" else x
        eager = np.asarray(fn(given))
        np.testing.assert_allclose(eager, REFERENCE[name], rtol=3e-13)
        assert fn(given.astype(np.float32)).dtype == np.float32 and fn(1).dtype == np.float64
        for compiled in (afx.jit(fn), afx.jit(fn, backend="portable")):
            np.testing.assert_allclose(compiled(given), eager, rtol=3e-14)
        if name != "digamma":
            afx.grad(lambda v: fn(v).sum())(given)
    np.testing.assert_allclose(afx.jit(afx.nn.gelu, backend="portable")(x), afx.nn.gelu(x), rtol=1e-14)
    try:
        special.jv(2, 1.0)
    except afx.errors.MissingExtraError as error:
        print(error)
"""


def test_formulas_stand_for_scipy() -> None:
    """What has a formula needs no SciPy, eager and portable; what has none names the extra."""
    special = pytest.importorskip("scipy.special", reason="the reference is SciPy's")
    numpy = pytest.importorskip("numpy")
    x = numpy.linspace(0.05, 0.95, 13)
    reference = {n: getattr(special, n)(-x if n == "ndtri_exp" else x).tolist() for n in FUNCTIONS}
    program = PROGRAM.replace("NAMES", repr(FUNCTIONS)).replace("REFERENCE", repr(reference))
    assert "afx[scipy]" in run_python(program)
