"""Error function of floats: an odd polynomial in doubles (Remez' exchange), 1 where floats know no other value."""

from __future__ import annotations

from afx.compiler.native_backend.functions.exponential import clamp, keep_nan
from afx.compiler.native_backend.functions.lanes import Lanes

__all__ = ["erf"]

END = 3.9300000667572021  # a float
# erf(x) / x in x², relative error 2^-32 up to the end
ERF_SINGLE = (
    1.1283791668836587, -0.3761263800425219, 0.11283785157616537, -0.0268659795031817, 0.005223676188793932,
    -0.0008545383343756146, 0.00012035964999173888, -1.4834916872628895e-05, 1.6147611354680388e-06,
    -1.5536418180151626e-07, 1.310741506797525e-08, -9.537811926108638e-10, 5.848186325024316e-11,
    -2.9354634137408295e-12, 1.1643837150178435e-13, -3.4860802814264585e-15, 7.36271816554185e-17,
    -9.737334043010334e-19, 6.0469587367927585e-21,
)  # fmt: skip


def erf(x: Lanes) -> Lanes:
    """Return ``erf(x)`` of floats."""
    wide = clamp(x, -END, END).widen()
    return keep_nan(x, (wide * (wide * wide).polynomial(ERF_SINGLE)).narrow("float"))
