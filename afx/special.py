"""Special functions: SciPy's names, with derivatives by all their real arguments.

Most values are computed by SciPy, the extra ``scipy``, which is imported when one is first computed; logarithms, shares
and entropies need NumPy alone. ``scipy.special.erf(x)`` of an `Array` is `erf` of this module; what SciPy has as a Python
function, not as a ufunc (``softmax``, ``logsumexp``, ``polygamma``), refuses traced arrays: call this module's. Integers and
Python's numbers alone compute in float64, as in SciPy; beside an array of a floating dtype they take that.
"""

from afx.errors import refuse_names
from afx.ops.nn.activations import log_softmax_over_all as log_softmax, softmax_over_all as softmax
from afx.ops.special.bessel import (
    exp1,
    expi,
    expn,
    fresnel,
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jv,
    kv,
    kve,
    sici,
    y0,
    y1,
    yn,
    yv,
    zeta,
)
from afx.ops.special.distributions import stdtr, stdtrit
from afx.ops.special.errors import (
    dawsn,
    entr,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    expit,
    kl_div,
    log_expit,
    log_ndtr,
    logit,
    logsumexp,
    ndtr,
    ndtri,
    ndtri_exp,
    rel_entr,
    xlog1py,
    xlogy,
)
from afx.ops.special.gamma import (
    beta,
    betaln,
    digamma,
    factorial,
    gamma,
    gammaln,
    gammasgn,
    multigammaln,
    polygamma,
    psi,
    rgamma,
)
from afx.ops.special.hypergeometric import (
    bernoulli,
    bessel_jn,
    boxcox,
    boxcox1p,
    comb,
    exprel,
    hyp1f1,
    hyp2f1,
    inv_boxcox,
    inv_boxcox1p,
    loggamma,
    owens_t,
    poch,
    spence,
    sph_harm_y,
    wofz,
)
from afx.ops.special.incomplete import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from afx.ops.special.log_incomplete import log_betainc, log_betaincc, log_gammainc, log_gammaincc

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaincc", "betainccinv", "betaincinv", "betaln", "boxcox",
    "boxcox1p", "comb", "dawsn", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi",
    "expit", "expn", "exprel", "factorial", "fresnel", "gamma", "gammainc", "gammaincc", "gammainccinv",
    "gammaincinv", "gammaln", "gammasgn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "inv_boxcox", "inv_boxcox1p",
    "iv", "ive", "j0", "j1", "jv", "kl_div", "kv", "kve", "log_betainc", "log_betaincc", "log_expit", "log_gammainc",
    "log_gammaincc", "log_ndtr", "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri",
    "ndtri_exp", "owens_t", "poch", "polygamma", "psi", "rel_entr", "rgamma", "sici", "softmax", "spence",
    "sph_harm_y", "stdtr", "stdtrit", "wofz", "xlog1py", "xlogy", "y0", "y1", "yn", "yv", "zeta",
]  # fmt: skip

refuse_names(__name__)
