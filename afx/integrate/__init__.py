"""Integration: differential equations and definite integrals, adaptive, compiled, batched and differentiable.

===========  ==================================================================================================
`odeint`     initial value problems: Dormand-Prince 5(4), and a Rosenbrock method for stiff systems; events
`quad`       definite integrals by adaptive Gauss-Kronrod rules, infinite ranges too
===========  ==================================================================================================
"""

from afx.control.solving.report import Status
from afx.integrate.odeint import odeint
from afx.integrate.quad import quad
from afx.integrate.results import OdeResult, QuadResult

__all__ = [
    "OdeResult",
    "QuadResult",
    "Status",
    "odeint",
    "quad",
]


def __dir__() -> list[str]:
    return __all__
