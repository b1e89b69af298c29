"""Integration: differential equations and definite integrals, adaptive, compiled, batched and differentiable.

===========  ==================================================================================================
`odeint`     initial value problems: Dormand-Prince 5(4), and a Rosenbrock method for stiff systems; events
===========  ==================================================================================================
"""

from afx.integrate.odeint import odeint
from afx.integrate.results import OdeResult

__all__ = [
    "OdeResult",
    "odeint",
]
