"""Name table: the module of each function, so that it loads on first use (generated: run python -m tests.generate_names)."""

PUBLIC: dict[str, str] = {  # names by module, one space between them
    "afx.control.associative_scan": "associative_scan",
    "afx.control.cond": "cond switch",
    "afx.control.map": "map",
    "afx.control.scan": "scan",
    "afx.control.while_loop": "fori_loop while_loop",
    "afx.core.array.array": "Array ArrayLike",
    "afx.core.array_api": "__array_namespace_info__ can_cast finfo iinfo isdtype result_type",
    "afx.core.aval": "Aval",
    "afx.core.constants": "bool e inf nan newaxis pi",
    "afx.core.dtypes": (
        "DType bool_ complex128 complex64 default_dtype float16 float32 float64 get_default_dtype int16 int32 int64"
        " int8 set_default_dtype uint16 uint32 uint64 uint8"
    ),
    "afx.core.equation": "Equation Literal Var",
    "afx.core.graph": "Graph check",
    "afx.core.interpreter": "evaluate",
    "afx.core.primitive": "Primitive primitives",
    "afx.core.tracing.debug_nans": "debug_nans",
    "afx.core.tracing.tracer": "is_traced",
    "afx.ops.creation.creation": (
        "array asarray copy empty empty_like from_dlpack full full_like ones ones_like to_device zeros zeros_like"
    ),
    "afx.ops.creation.matrices": "eye identity tri tril triu",
    "afx.ops.creation.ranges": "arange geomspace linspace logspace meshgrid",
    "afx.ops.creation.stop_gradient": "stop_gradient",
    "afx.ops.elementwise.arithmetic": (
        "abs absolute add cbrt divide divmod floor_divide hypot mod multiply negative positive pow power reciprocal"
        " remainder sign sqrt square subtract true_divide"
    ),
    "afx.ops.elementwise.closeness": "allclose array_equal array_equiv isclose isneginf isposinf",
    "afx.ops.elementwise.comparison": (
        "bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor equal"
        " greater greater_equal invert isfinite isinf isnan left_shift less less_equal logical_and logical_not"
        " logical_or logical_xor not_equal right_shift signbit"
    ),
    "afx.ops.elementwise.complex": "angle conj conjugate imag iscomplex iscomplexobj isreal isrealobj real",
    "afx.ops.elementwise.exponential": (
        "exp exp2 expm1 log log10 log1p log2 log_sigmoid logaddexp logaddexp2 sigmoid softplus"
    ),
    "afx.ops.elementwise.floating_point": (
        "bitwise_count fabs float_power frexp gcd heaviside lcm ldexp modf real_if_close spacing"
    ),
    "afx.ops.elementwise.rounding": "around ceil copysign fix floor fmod nextafter rint round trunc",
    "afx.ops.elementwise.trigonometry": (
        "acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos cosh deg2rad"
        " degrees rad2deg radians sin sinc sinh tan tanh"
    ),
    "afx.ops.elementwise.where": "clip maximum minimum where",
    "afx.ops.indexing.getitem": "take take_along_axis",
    "afx.ops.indexing.index_tricks": (
        "c_ diag_indices diag_indices_from indices ix_ r_ ravel_multi_index tril_indices tril_indices_from"
        " triu_indices triu_indices_from unravel_index"
    ),
    "afx.ops.indexing.segments": "segment_max segment_mean segment_min segment_prod segment_sum",
    "afx.ops.indexing.select": "choose compress extract piecewise select",
    "afx.ops.linalg.einsum": "einsum",
    "afx.ops.linalg.products": "cross dot inner kron matmul matvec outer tensordot vdot vecdot vecmat",
    "afx.ops.manipulation.axes": "atleast_1d atleast_2d atleast_3d matrix_transpose moveaxis swapaxes",
    "afx.ops.manipulation.diagonals": "diag diagonal",
    "afx.ops.manipulation.edit": "append block delete diagflat insert resize rollaxis trim_zeros",
    "afx.ops.manipulation.join": (
        "broadcast_arrays column_stack concat concatenate dstack hstack repeat stack tile vstack"
    ),
    "afx.ops.manipulation.pad": "flip fliplr flipud pad roll rot90",
    "afx.ops.manipulation.shape": "astype broadcast_to expand_dims permute_dims ravel reshape squeeze transpose",
    "afx.ops.manipulation.split": "array_split dsplit hsplit split unstack vsplit",
    "afx.ops.nn.convolution": "correlate",
    "afx.ops.nn.convolve": "convolve",
    "afx.ops.nn.windows": "sliding_window_view",
    "afx.ops.numerics.apply": "apply_along_axis apply_over_axes",
    "afx.ops.numerics.histograms": "bincount digitize histogram histogram2d histogram_bin_edges histogramdd",
    "afx.ops.numerics.interpolation": "ediff1d gradient interp trapezoid unwrap",
    "afx.ops.numerics.polyfit": "poly polyfit roots",
    "afx.ops.numerics.polynomials": "polyadd polyder polydiv polyint polymul polysub polyval vander",
    "afx.ops.numerics.statistics": "corrcoef cov",
    "afx.ops.reductions.boolean": "all any",
    "afx.ops.reductions.cumulative": "cumlogsumexp cummax cummin cumprod cumsum cumulative_prod cumulative_sum diff",
    "afx.ops.reductions.logsumexp": "logsumexp",
    "afx.ops.reductions.moments": "average std var vector_norm",
    "afx.ops.reductions.nan": "nan_to_num nancumprod nancumsum nanmean nanprod nanstd nansum nanvar",
    "afx.ops.reductions.nan_extremes": "fmax fmin nanargmax nanargmin nanmax nanmin",
    "afx.ops.reductions.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "afx.ops.reductions.sums": "amax amin count_nonzero max mean min prod ptp sum",
    "afx.ops.sorting.partition": "TopK argpartition lexsort partition sort_complex top_k",
    "afx.ops.sorting.sets": "intersect1d isin setdiff1d setxor1d union1d unique",
    "afx.ops.sorting.sort": "argmax argmin argsort argwhere flatnonzero nonzero searchsorted sort",
    "afx.ops.sorting.unique": "unique_all unique_counts unique_inverse unique_values",
    "afx.pytree": "non_trainable static",
    "afx.runtime.buffer_cache": "set_cache_limit",
    "afx.runtime.thread_pool": "get_threads",
    "afx.runtime.threads": "set_threads",
    "afx.transforms.checkpoint": "checkpoint",
    "afx.transforms.compile.backend": "get_backend set_backend set_code_cache set_denormals",
    "afx.transforms.compile.jit": "JitFunction Lowered jit",
    "afx.transforms.compile.jit_cache": "CacheInfo",
    "afx.transforms.compile.lowered": "PlanStatus",
    "afx.transforms.compile.make_graph": "eval_shape trace",
    "afx.transforms.compile.retracing": "disable_jit",
    "afx.transforms.custom.custom_derivatives": "custom_jvp custom_vjp",
    "afx.transforms.derivatives.elementwise_grad": "elementwise_grad",
    "afx.transforms.derivatives.grad": "grad value_and_grad",
    "afx.transforms.derivatives.hessian": "hessian hvp",
    "afx.transforms.derivatives.jacobian": "jacfwd jacrev",
    "afx.transforms.derivatives.jvp": "jvp",
    "afx.transforms.derivatives.linearize": "linearize",
    "afx.transforms.derivatives.vjp": "vjp",
    "afx.transforms.sparse.sparse_derivatives": "sparse_hessian sparse_jacobian",
    "afx.transforms.sparse.sparse_matrix": "SparseMatrix",
    "afx.transforms.vmap": "vmap",
}
INTERNAL: dict[str, str] = {  # names by module, one space between them
    "afx.ops.creation.promotion": "promote_operands",
    "afx.ops.indexing.getitem": "getitem",
    "afx.ops.indexing.index_tricks": "ix",
    "afx.ops.indexing.scatter_ops": "index_add index_max index_min index_set",
    "afx.ops.indexing.scatter_products": "index_divide index_multiply",
    "afx.ops.manipulation.diagonals": "matrix_trace",
    "afx.ops.special.bessel": "i0 i0e i1 i1e iv ive j0 j1 jv kv kve y0 y1 yn yv",
    "afx.ops.special.entropy": "entr kl_div logit rel_entr xlog1py xlogy",
    "afx.ops.special.errors": "erf erfc erfcinv erfcx erfinv log_ndtr ndtr ndtri ndtri_exp",
    "afx.ops.special.exponential_integrals": "exp1 expi expn",
    "afx.ops.special.gamma": "beta betaln digamma factorial gamma gammaln gammasgn multigammaln polygamma rgamma",
    "afx.ops.special.incomplete_beta": "betainc betaincc betainccinv betaincinv",
    "afx.ops.special.incomplete_gamma": "gammainc gammaincc gammainccinv gammaincinv",
    "afx.ops.special.log_incomplete_beta": "log_betainc log_betaincc",
    "afx.ops.special.log_incomplete_gamma": "log_gammainc log_gammaincc",
    "afx.ops.special.student": "stdtr stdtrit",
    "afx.ops.special.zeta": "zeta",
}
FAMILIES = (
    "data",
    "debug",
    "distributed",
    "errors",
    "export",
    "fft",
    "integrate",
    "io",
    "linalg",
    "nn",
    "numpy",
    "optim",
    "plot",
    "pytree",
    "random",
    "sample",
    "sparse",
    "special",
    "stats",
    "testing",
    "train",
)
