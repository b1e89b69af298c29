"""Integration: differential equations and definite integrals, adaptive, compiled, batched and differentiable.

===========  ==================================================================================================
`odeint`     initial value problems: explicit, stiff and symplectic methods, events, dense output, masses
`sdeint`     stochastic differential equations, Itô's and Stratonovich's: Euler-Maruyama, Heun, Milstein, Rößler
`quad`       definite integrals by adaptive Gauss-Kronrod rules, infinite ranges too
===========  ==================================================================================================
"""

from afx.control.solving import Status as Status
from afx.errors import refuse_names
from afx.integrate.odeint import *
from afx.integrate.quad import *
from afx.integrate.sdeint import *
from afx.integrate.step import *

refuse_names(__name__)
