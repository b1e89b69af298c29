"""Earlier names: modules that pickles name as 0.1.0 did, and where what they held stands today."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

# modules of today: those of 0.1.0 that became part of them, without the common beginning
EARLIER = {
    "afx.control.linear_solvers": "implicit_solution lsmr",
    "afx.control.scan": "scan_p associative_scan",
    "afx.control.while_loop": "while_graphs while_p",
    "afx.core.array.array": "at",
    "afx.core.cached": "named_tuples",
    "afx.core.constants": "reductions",
    "afx.core.graph": "equation graph_layout graph_drawing",
    "afx.core.numpy_names": "options",
    "afx.core.primitive": "weakness",
    "afx.core.tracing.tape": "debug_nans",
    "afx.core.tracing.tracer": "source_info",
    "afx.core.tracing.traces": "graph_trace jvp_trace batch_trace recording_trace",
    "afx.data.batching": "splitting",
    "afx.data.loading": "prefetching",
    "afx.data.sharding": "_examples",
    "afx.integrate.march": "event crossings",
    "afx.integrate.odeint": "adjoint",
    "afx.integrate.quad": "extrapolation mesh",
    "afx.integrate.sdeint": "brownian",
    "afx.integrate.step": "trail results times",
    "afx.nn.attention": "key_value_cache transformer",
    "afx.nn.convolution": "resampling",
    "afx.nn.layer": "training summary",
    "afx.nn.linear": "dropout elementwise sequential",
    "afx.nn.losses.classification": "_targets likelihood",
    "afx.nn.losses.regression": "embedding",
    "afx.nn.metrics": "class_metrics",
    "afx.nn.normalization": "reparameterized",
    "afx.nn.recurrent": "bidirectional",
    "afx.ops._kinds.elementwise": "partials reduction",
    "afx.ops._kinds.linear": "batching higher_order",
    "afx.ops.creation.creation": "promotion stop_gradient",
    "afx.ops.elementwise.arithmetic": "exponential",
    "afx.ops.elementwise.comparison": "where",
    "afx.ops.elementwise.floating_point": "rounding closeness",
    "afx.ops.indexing.gather": "slice",
    "afx.ops.indexing.scatter": "scatter_ops scatter_products segments",
    "afx.ops.indexing.select": "index_tricks",
    "afx.ops.linalg.banded": "sparse_solve",
    "afx.ops.linalg.factorizations": "triangular cholesky lu qr factored",
    "afx.ops.linalg.matrix_functions": "_divided_differences hermitian_functions roots",
    "afx.ops.linalg.norms": "sylvester polar lstsq",
    "afx.ops.linalg.products": "einsum",
    "afx.ops.linalg.solve": "small_systems determinants",
    "afx.ops.linalg.spectra": "eigen svd",
    "afx.ops.manipulation.edit": "diagonals",
    "afx.ops.manipulation.join": "axes split",
    "afx.ops.manipulation.pad": "_pad",
    "afx.ops.nn.activations": "softmax normalization",
    "afx.ops.nn.convolution": "transposed_convolution convolve",
    "afx.ops.nn.pooling": "adaptive_pooling",
    "afx.ops.nn.windows": "_bands _convolution",
    "afx.ops.numerics.histograms": "statistics",
    "afx.ops.numerics.interpolation": "apply",
    "afx.ops.numerics.polynomials": "polyfit",
    "afx.ops.random.bits": "philox integers",
    "afx.ops.random.rejection": "gamma discrete",
    "afx.ops.random.uniform_family": "truncated_normal orthogonal",
    "afx.ops.reductions.cumulative": "logsumexp",
    "afx.ops.reductions.nan": "nan_extremes",
    "afx.ops.reductions.sums": "_numpy boolean",
    "afx.ops.sorting.sets": "unique",
    "afx.ops.special._incomplete": "_log_incomplete _fisher",
    "afx.ops.special._quadrature": "_normal _gamma",
    "afx.ops.special.bessel": "exponential_integrals zeta",
    "afx.ops.special.distributions": "fisher student whole_quantiles",
    "afx.ops.special.errors": "entropy",
    "afx.ops.special.gamma": "_stirling _polygamma",
    "afx.ops.special.incomplete": "incomplete_gamma incomplete_beta",
    "afx.ops.special.log_incomplete": "log_incomplete_gamma log_incomplete_beta",
    "afx.optim.clipping": "gradients projections",
    "afx.optim.hyperparameters": "checks",
    "afx.optim.rules.adagrad": "rmsprop belief adafactor",
    "afx.optim.rules.adam": "amsgrad nadam",
    "afx.optim.rules.free_rates": "arrayflow prodigy schedule_free",
    "afx.optim.rules.muon": "lbfgs",
    "afx.optim.rules.sgd": "rprop lion layerwise",
    "afx.optim.schedules": "cycles plateau",
    "afx.optim.solvers.descend": "truncated_cg directions line_search",
    "afx.optim.solvers.least_squares": "robust radius_step gauss_newton_steps curve_fit",
    "afx.optim.solvers.minimize": "trust_region nelder_mead constrained",
    "afx.optim.solvers.root": "results bracketing fixed_point",
    "afx.optim.step": "protocols leaves masks shards",
    "afx.optim.transforms": "chain descent",
    "afx.optim.wrappers.accumulation": "nonfinite adjustable",
    "afx.optim.wrappers.averaging": "lookahead",
    "afx.pytree.nodes": "registry register",
    "afx.pytree.treedef": "flatten",
    "afx.pytree.trees": "map compare prefix edit ravel",
    "afx.random.continuous": "gamma_family",
    "afx.random.discrete": "sampling multivariate",
    "afx.random.keys": "_arguments basic",
    "afx.sample.bijectors": "constraints checks",
    "afx.sample.draw": "adaptation chains",
    "afx.sample.hamiltonian": "hmc nuts",
    "afx.stats._distribution": "_whole_sums _fitting _family",
    "afx.stats.elementary": "normal one_sided",
    "afx.stats.gamma_family": "_stirling beta_family",
    "afx.stats.multivariate": "_bivariate_normal _multivariate_normal_cdf",
    "afx.train.measuring": "rate_search",
    "afx.train.run": "history stopping",
    "afx.train.watching": "writing checkpointing",
    "afx.transforms._arguments": "_function",
    "afx.transforms.checkpoint": "remat",
    "afx.transforms.compile.compiled_call": "backend",
    "afx.transforms.compile.jit": "lowered",
    "afx.transforms.compile.make_graph": "retracing",
    "afx.transforms.compile.quick_call": "jit_cache",
    "afx.transforms.derivatives.cotangent_masks": "masked_pullbacks",
    "afx.transforms.derivatives.grad": "_diff_arguments vjp",
    "afx.transforms.derivatives.jacobian": "hessian elementwise_grad",
    "afx.transforms.derivatives.jvp": "linearize flat_functions",
    "afx.transforms.derivatives.residuals": "graph_masks",
    "afx.transforms.sparse.pattern": "coloring probing dependency",
    "afx.transforms.sparse.sparse_matrix": "csr",
}
HOMES = {f"{home.rpartition('.')[0]}.{name}": home for home, names in EARLIER.items() for name in names.split()}


class _Loader(Loader):
    """Makes a module of an earlier name, whose attributes are those of the module of today."""

    def __init__(self, home: str) -> None:
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the empty module."""
        return ModuleType(spec.name, f"See `{self._home}`.")

    def exec_module(self, module: ModuleType) -> None:
        """Let it look up its attributes, and leave its package's public name alone, which may be the same."""
        parent, _, child = module.__name__.rpartition(".")
        package = sys.modules[parent]
        public = vars(package).get(child)

        def look_up(name: str) -> object:
            if public is not None:  # the import has put the module in its place
                setattr(package, child, public)
            return getattr(importlib.import_module(self._home), name)

        vars(module)["__getattr__"] = look_up


def find_spec(name: str) -> ModuleSpec | None:
    """Return how a module of an earlier name is made, None where there was none."""
    home = HOMES.get(name)
    return None if home is None else ModuleSpec(name, _Loader(home))
