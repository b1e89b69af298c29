"""Core: abstract values, primitives, graphs, arrays and traces; it imports no op.

Rooms above take from here what most of them need, and the rest from its file.
"""

from numpy.typing import DTypeLike as DTypeLike

from afx.core.array.array import (
    Array as Array,
    ArrayLike as ArrayLike,
    Ndarray as Ndarray,
    snapshot as snapshot,
    to_numpy_value as to_numpy_value,
    wrap as wrap,
)
from afx.core.aval import (
    SCALARS as SCALARS,
    Aval as Aval,
    Shape as Shape,
    aval_of as aval_of,
    broadcast_avals as broadcast_avals,
    broadcast_shapes as broadcast_shapes,
    checked_shape as checked_shape,
    common_dtype as common_dtype,
    integer as integer,
    normalize_axes as normalize_axes,
    normalize_axis as normalize_axis,
    shape_of as shape_of,
)
from afx.core.dtypes import (
    DType as DType,
    bool_ as bool_,
    check_dtype as check_dtype,
    complex128 as complex128,
    default_dtype as default_dtype,
    epsilon as epsilon,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    floating_dtype as floating_dtype,
    get_default_dtype as get_default_dtype,
    int64 as int64,
    is_inexact as is_inexact,
    promote as promote,
    real_dtype as real_dtype,
    uint32 as uint32,
    uint64 as uint64,
)
from afx.core.html import Shown as Shown, function_html as function_html
from afx.core.numpy_names import (
    check_device as check_device,
    check_memory_order as check_memory_order,
    refuse_out as refuse_out,
)
from afx.core.primitive import (
    Bools as Bools,
    Derivative as Derivative,
    JointPullback as JointPullback,
    Lowering as Lowering,
    Masking as Masking,
    Params as Params,
    Primitive as Primitive,
    Pullback as Pullback,
    Pushforward as Pushforward,
    Tangents as Tangents,
    Value as Value,
    Values as Values,
    argument_of as argument_of,
    define as define,
    is_weak as is_weak,
    lookup as lookup,
    primitive_for_role as primitive_for_role,
    record as record,
    register as register,
    with_ufunc as with_ufunc,
)
from afx.core.registry import Form as Form, Function as Function, register_function as register_function
from afx.core.tracing.tracer import (
    SourceLocation as SourceLocation,
    Tracer as Tracer,
    any_traced as any_traced,
    bind as bind,
    bind1 as bind1,
    bind2 as bind2,
    bind_single as bind_single,
    is_known as is_known,
    is_traced as is_traced,
    places_of as places_of,
    to_array as to_array,
    to_lower_level as to_lower_level,
)
