"""Name table: the module of each function, so that it loads on first use (generated: run python -m tests.generate_names)."""

PUBLIC: dict[str, str] = {  # names by module
    "afx.compiler.report": "PlanStatus",
    "afx.compiler.threads": "set_threads",
    "afx.control.cond": "cond switch",
    "afx.control.map": "map",
    "afx.control.scan": "associative_scan scan",
    "afx.control.while_loop": "fori_loop while_loop",
    "afx.core.array.array": "Array ArrayLike",
    "afx.core.array_api": """__array_namespace_info__ broadcast_shapes can_cast finfo iinfo isdtype isscalar
issubdtype ndim promote_types result_type shape size""",
    "afx.core.aval": "Aval",
    "afx.core.constants": "bool e inf nan newaxis pi",
    "afx.core.dtypes": """DType bool_ complex128 complex64 default_dtype float16 float32 float64 get_default_dtype
int16 int32 int64 int8 set_default_dtype uint16 uint32 uint64 uint8""",
    "afx.core.graph": "Equation Graph Literal Var check",
    "afx.core.primitive": "Primitive primitives",
    "afx.core.tracing.tape": "debug_nans",
    "afx.core.tracing.tracer": "is_traced",
    "afx.core.tracing.traces": "evaluate",
    "afx.ops.creation.creation": """array asarray copy empty empty_like from_dlpack full full_like ones ones_like
stop_gradient to_device zeros zeros_like""",
    "afx.ops.creation.matrices": "eye identity tri tril triu",
    "afx.ops.creation.ranges": "arange geomspace linspace logspace meshgrid",
    "afx.ops.creation.windows": "bartlett blackman hamming hanning kaiser",
    "afx.ops.elementwise.arithmetic": """abs absolute add cbrt divide divmod floor_divide hypot mod multiply
negative positive pow power reciprocal remainder sign sqrt square subtract true_divide""",
    "afx.ops.elementwise.comparison": """bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor clip equal greater greater_equal invert isfinite isinf isnan left_shift less
less_equal logical_and logical_not logical_or logical_xor maximum minimum not_equal right_shift signbit where""",
    "afx.ops.elementwise.complex": "angle conj conjugate imag iscomplex iscomplexobj isreal isrealobj real",
    "afx.ops.elementwise.exponentials": """exp exp2 expm1 log log10 log1p log2 log_sigmoid logaddexp logaddexp2
sigmoid softplus""",
    "afx.ops.elementwise.floating_point": """allclose around array_equal array_equiv bitwise_count ceil copysign
fabs fix float_power floor fmod frexp gcd heaviside isclose isneginf isposinf lcm ldexp modf nextafter real_if_close
rint round spacing trunc""",
    "afx.ops.elementwise.trigonometry": """acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin
asinh atan atan2 atanh cos cosh deg2rad degrees rad2deg radians sin sinc sinh tan tanh""",
    "afx.ops.indexing.getitem": "take take_along_axis",
    "afx.ops.indexing.scatter": "put_along_axis segment_max segment_mean segment_min segment_prod segment_sum",
    "afx.ops.indexing.select": """c_ choose compress diag_indices diag_indices_from extract fromfunction indices ix_
piecewise r_ ravel_multi_index select tril_indices tril_indices_from triu_indices triu_indices_from unravel_index""",
    "afx.ops.linalg.products": """cross dot einsum einsum_path inner kron matmul matvec outer tensordot vdot vecdot
vecmat""",
    "afx.ops.manipulation.edit": "append block delete diag diagflat diagonal insert resize rollaxis trim_zeros",
    "afx.ops.manipulation.join": """array_split atleast_1d atleast_2d atleast_3d broadcast_arrays column_stack
concat concatenate dsplit dstack hsplit hstack matrix_transpose moveaxis repeat split stack swapaxes tile unstack
vsplit vstack""",
    "afx.ops.manipulation.packing": "packbits unpackbits",
    "afx.ops.manipulation.pad": "flip fliplr flipud pad roll rot90",
    "afx.ops.manipulation.shape": "astype broadcast_to expand_dims permute_dims ravel reshape squeeze transpose",
    "afx.ops.nn.convolution": "convolve correlate",
    "afx.ops.nn.windows": "sliding_window_view",
    "afx.ops.numerics.histograms": """bincount corrcoef cov digitize histogram histogram2d histogram_bin_edges
histogramdd""",
    "afx.ops.numerics.interpolation": "apply_along_axis apply_over_axes ediff1d gradient interp trapezoid unwrap",
    "afx.ops.numerics.polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander",
    "afx.ops.reductions.cumulative": """cumlogsumexp cummax cummin cumprod cumsum cumulative_prod cumulative_sum
diff logsumexp""",
    "afx.ops.reductions.moments": "average std var vector_norm",
    "afx.ops.reductions.nan": """fmax fmin nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin
nanprod nanstd nansum nanvar""",
    "afx.ops.reductions.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "afx.ops.reductions.sums": "all amax amin any count_nonzero max mean min prod ptp sum",
    "afx.ops.sorting.partition": "TopK argpartition lexsort partition sort_complex top_k",
    "afx.ops.sorting.sets": """intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts
unique_inverse unique_values""",
    "afx.ops.sorting.sort": "argmax argmin argsort argwhere flatnonzero nonzero searchsorted sort",
    "afx.pytree": "non_trainable static",
    "afx.runtime.buffer_cache": "set_cache_limit",
    "afx.runtime.thread_pool": "get_threads",
    "afx.transforms.checkpoint": "checkpoint",
    "afx.transforms.compile.compiled_call": "get_backend set_backend set_code_cache set_denormals",
    "afx.transforms.compile.jit": "JitFunction Lowered jit",
    "afx.transforms.compile.make_graph": "disable_jit eval_shape trace",
    "afx.transforms.compile.quick_call": "CacheInfo",
    "afx.transforms.custom_derivatives": "custom_jvp custom_vjp",
    "afx.transforms.derivatives.grad": "grad value_and_grad vjp",
    "afx.transforms.derivatives.jacobian": "elementwise_grad hessian hvp jacfwd jacrev",
    "afx.transforms.derivatives.jvp": "jvp linearize",
    "afx.transforms.sparse.sparse_derivatives": "sparse_hessian sparse_jacobian",
    "afx.transforms.sparse.sparse_matrix": "SparseMatrix",
    "afx.transforms.vmap": "vectorize vmap",
}
INTERNAL: dict[str, str] = {  # names by module
    "afx.ops.creation.creation": "promote_operands",
    "afx.ops.elementwise.complex": "join_parts",
    "afx.ops.indexing.getitem": "getitem",
    "afx.ops.indexing.scatter": "index_add index_divide index_max index_min index_multiply index_set",
    "afx.ops.indexing.select": "ix",
    "afx.ops.manipulation.edit": "matrix_trace",
    "afx.ops.special.bessel": "exp1 expi expn i0 i0e i1 i1e iv ive j0 j1 jv kv kve y0 y1 yn yv zeta",
    "afx.ops.special.distributions": "stdtr stdtrit",
    "afx.ops.special.errors": """dawsn entr erf erfc erfcinv erfcx erfinv expit kl_div log_expit log_ndtr logit ndtr
ndtri ndtri_exp rel_entr xlog1py xlogy""",
    "afx.ops.special.gamma": "beta betaln digamma factorial gamma gammaln gammasgn multigammaln polygamma psi rgamma",
    "afx.ops.special.hypergeometric": """boxcox boxcox1p exprel inv_boxcox inv_boxcox1p loggamma owens_t poch spence
wofz""",
    "afx.ops.special.incomplete": "betainc betaincc betainccinv betaincinv gammainc gammaincc gammainccinv gammaincinv",
    "afx.ops.special.log_incomplete": "log_betainc log_betaincc log_gammainc log_gammaincc",
}
MEMBERS: dict[str, dict[str, str]] = {  # of families whose names load when they are asked for
    "afx.nn": {
        "afx.nn.activations": """celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu mish relu6
selu soft_sign sparse_plus sparse_sigmoid squareplus""",
        "afx.nn.attention": """DecoderBlock KeyValueCache MultiHeadAttention TransformerBlock dot_product_attention
rotary""",
        "afx.nn.convolution": "Conv ConvTranspose pixel_shuffle upsample",
        "afx.nn.initializers": """delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal
kaiming_uniform lecun_normal lecun_uniform normal orthogonal truncated_normal uniform variance_scaling""",
        "afx.nn.layers": "count_parameters describe layer summary train",
        "afx.nn.linear": "Dropout Embedding EmbeddingBag Identity Linear MLP PReLU Sequential one_hot",
        "afx.nn.losses": """contrastive cosine_distance cosine_similarity ctc dice focal gaussian_nll hinge huber
info_nce kl_divergence log_cosh mae margin_ranking mse poisson_nll sigmoid_binary_cross_entropy
softmax_cross_entropy triplet""",
        "afx.nn.metrics": """Calibration accuracy calibration calibration_error confusion_matrix f1_score log_loss
precision r2_score recall roc_auc top_k_accuracy""",
        "afx.nn.normalization": "BatchNorm GroupNorm InstanceNorm LayerNorm RMSNorm SpectralNorm WeightNorm",
        "afx.nn.recurrent": "Bidirectional GRU GRUCell LSTM LSTMCell LSTMState RNN RNNCell",
        "afx.ops": "log_sigmoid sigmoid softplus tanh",
        "afx.ops.nn.activations": "log_softmax relu silu softmax standardize",
        "afx.ops.nn.convolution": "conv conv_transpose",
        "afx.ops.nn.pooling": "adaptive_avg_pool adaptive_max_pool avg_pool max_pool",
        "afx.ops.reductions.cumulative": "log1mexp logmeanexp",
    },
    "afx.optim": {
        "afx.control.solving": "Status",
        "afx.optim.clipping": """Projected adaptive_clip add_noise centralize clip_by_block_rms clip_by_global_norm
clip_by_norm clip_by_value global_norm private_grad project_box project_l1_ball project_l2_ball project_nonnegative
project_simplex projected sharpness_aware""",
        "afx.optim.hyperparameters": "LearningRate Schedule",
        "afx.optim.rules.adagrad": """AdadeltaState Adafactor AdafactorState FactoredState RmsState Rmsprop
RmspropState RssState adabelief adadelta adafactor adagrad novograd rmsprop scale_by_adadelta scale_by_factored_rms
scale_by_rms scale_by_rss""",
        "afx.optim.rules.adam": """Adam AdamState AmsgradState MomentsState NadamState adam adamax adamw amsgrad
nadam radam scale_by_adam scale_by_adamax scale_by_amsgrad scale_by_nadam scale_by_radam scale_by_yogi yogi""",
        "afx.optim.rules.free_rates": """Arrayflow ArrayflowState Prodigy ProdigyState ScheduleFree
ScheduleFreeState arrayflow prodigy schedule_free schedule_free_adamw schedule_free_sgd""",
        "afx.optim.rules.muon": "LbfgsState MuonState lbfgs muon scale_by_muon",
        "afx.optim.rules.sgd": """Lars LarsState LearningRateState LionState Rprop RpropState Sgd SgdState
TraceState lamb lars lion rprop scale_by_learning_rate scale_by_lion sgd trace""",
        "afx.optim.schedules": """PlateauState constant cosine_decay cosine_restarts exponential_decay inverse_sqrt
join linear one_cycle piecewise_constant polynomial reduce_on_plateau warmup warmup_cosine""",
        "afx.optim.solvers.least_squares": "curve_fit least_squares",
        "afx.optim.solvers.minimize": "minimize",
        "afx.optim.solvers.root": """ConstrainedResult CurveFitResult FixedPointResult LeastSquaresResult
MinimizeResult RootResult fixed_point root root_scalar""",
        "afx.optim.solvers.scipy_bridge": "ScipyResult scipy_least_squares scipy_minimize scipy_root",
        "afx.optim.step": "EmptyState Labels Mask Optimizer Rescaling Transformation map_trained",
        "afx.optim.transforms": """Chain Descent DescentState EmaState ScheduleState TransformationChain
add_decayed_weights chain ema scale scale_by_param_block_rms scale_by_schedule scale_by_trust_ratio""",
        "afx.optim.wrappers.accumulation": """Accumulate AccumulateState Adjustable AdjustableState SkipNonfinite
SkipNonfiniteState accumulate adjustable skip_nonfinite""",
        "afx.optim.wrappers.averaging": """AverageState Lookahead LookaheadState ParamsEma ParamsMean lookahead
params_ema params_mean""",
        "afx.optim.wrappers.masking": "Frozen Masked Partition PartitionState freeze masked partition set_to_zero",
    },
}
FAMILIES = (
    "cluster", "data", "debug", "distributed", "errors", "export", "fft", "integrate", "interop", "interpolate", "io",
    "linalg", "ndimage", "nn", "numpy", "optim", "plot", "pytree", "random", "sample", "signal", "sparse", "special",
    "stats", "testing", "train",
)  # fmt: skip
