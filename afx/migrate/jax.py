"""Names of JAX, Optax and Equinox: what stands for them in afx, and modules as frozen attrs classes."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from afx.migrate.for_jax import DRAWS, DTYPES, by_name
from afx.migrate.for_jaxopt import KINDS
from afx.migrate.rewriting import Edit, Library, Migration, Remark, arguments_of, chain_of, end_of

__all__ = ["JAX", "JaxMigration"]

ROOTS = "jax optax equinox diffrax flax chex haiku jaxopt numpyro blackjax jaxtyping einops lineax optimistix"
CALLS = "afx.migrate.for_jax"
# functions of for_jax by a keyword and a function's name
_BY_KEYWORD = """size argwhere extract flatnonzero intersect1d nonzero setdiff1d setxor1d union1d unique where=nonzero: *
total_repeat_length.repeat: repeat
length.bincount: bincount
where.logsumexp: logsumexp
allow_int.grad: grad
allow_int.value_and_grad: value_and_grad
axis_name.vmap: vmap"""
BY_KEYWORD = by_name(_BY_KEYWORD)
NAMED = {  # of another module than for_jax
    "grad": "afx.migrate.for_trees.grad",
    "value_and_grad": "afx.migrate.for_trees.value_and_grad",
    "vmap": "afx.migrate.for_lax.vmap",
}
# keywords that change no number
IDLE = (
    "check_finite compiler_options device donate_argnames impl indices_are_sorted inline is_stable keep_unused "
    "lapack_driver out_sharding overwrite_a overwrite_b precision unique_indices"
)
# arguments of JAX's from a place on that afx takes by name, and the functions
_PLACES = """2 has_aux holomorphic: grad hessian jacfwd jacobian jacrev value_and_grad
1 out: numpy.modf
2 shape: numpy.empty_like numpy.ones_like numpy.zeros_like
3 shape: numpy.full_like lax.full_like
3 weights density: numpy.histogram numpy.histogramdd
4 weights density: numpy.histogram2d
2 keepdims: numpy.count_nonzero
3 keepdims: numpy.argmax numpy.argmin numpy.nanargmax numpy.nanargmin
1 rtol: numpy.linalg.matrix_rank
1 approximate: nn.gelu example_libraries.stax.gelu
2 where: nn.softmax nn.log_softmax
2 mean variance epsilon where: nn.standardize
2 b keepdims return_sign where: nn.logsumexp scipy.special.logsumexp
2 reverse axis: lax.associative_scan
4 precision: lax.conv
1 permute_l: scipy.linalg.lu
1 blocksize: scipy.linalg.sqrtm
1 overwrite_a lwork mode pivoting: scipy.linalg.qr
3 pivoting conjugate: scipy.linalg.qr_multiply
2 trans lower unit_diagonal: scipy.linalg.solve_triangular
1 use_bias dtype param_dtype precision kernel_init bias_init: flax.linen.Dense
2 batch_dims use_bias dtype param_dtype: flax.linen.DenseGeneral
4 input_dilation kernel_dilation feature_group_count use_bias: flax.linen.Conv
1 axis momentum epsilon dtype param_dtype use_bias use_scale: flax.linen.BatchNorm
0 epsilon dtype param_dtype: flax.linen.RMSNorm
1 dtype param_dtype use_bias use_scale: flax.linen.LayerNorm
1 dtype param_dtype qkv_features: flax.linen.SelfAttention flax.linen.MultiHeadDotProductAttention
1 gate_fn activation_fn: flax.linen.LSTMCell flax.linen.GRUCell
1 lower upper: jaxopt.Bisection
1 has_aux: jaxopt.Broyden
1 maxiter tol: jaxopt.FixedPointIteration jaxopt.GaussNewton
1 maxiter: jaxopt.LevenbergMarquardt"""
BY_PLACE: dict[str, tuple[int, Sequence[str]]] = {
    name if name.startswith(("flax.", "jaxopt.")) else f"jax.{name}": (int(words.split()[0]), words.split()[1:])
    for words, _, names in [line.partition(": ") for line in _PLACES.split("\n")]
    for name in names.split()
}
# keywords by JAX's names, where afx has one of the others instead
_SYNONYMS = """A: a
N: n
M: m
a a1 ar1 arr operand on_true x1: x
a2 ar2 b on_false x2: y
array: x arrays
axes: axis
batch_size: block
dimensions: axis dimension
epsilon: eps
f: fn x
fun: fn f
new_sizes: shape
permutation: axes
pytree: pytree_ tree
pred: condition
tup: arrays"""
SYNONYMS: dict[str, str] = by_name(_SYNONYMS)
GRADIENTS = re.compile(rb"grad|jac|hessian|jvp|vjp|optim|lineari[sz]e")  # of a program that has some
OTHERWISE = by_name("jax.numpy.linalg.matrix_rank.rtol: is relative to the largest singular value, JAX's is not")
OF_KEYS = "PRNGKey clone fold_in key key_data split wrap_key_data"  # what draws no numbers
# that give float32 under x64
SMALL = "jax.numpy.int8 jax.numpy.int16 jax.numpy.int32 jax.numpy.uint8 jax.numpy.uint16 jax.numpy.uint32"
FLOATS = "jax.numpy.float16 jax.numpy.float32"
QUOTIENTS = "average divide mean nanmean nanstd nanvar std true_divide var"

# modules of JAX's, and the one of afx's that has their names
_MODULES = """einops: einops.array_api
chex flax.traverse_util: afx.migrate.for_trees
equinox equinox.nn: afx.migrate.for_equinox
jax jax.numpy: afx
jax.example_libraries.optimizers jax.example_libraries.stax jax.nn.initializers: afx.migrate.for_stax
jax.experimental.optimizers jax.experimental.stax: afx.migrate.for_stax
jax.lax: afx.migrate.for_lax
jax.nn: afx.nn
jax.numpy.fft jax.scipy.fft: afx.fft
jax.numpy.linalg jax.scipy.linalg: afx.linalg
jax.scipy.cluster.vq: afx.cluster
jax.scipy.interpolate: afx.interpolate
jax.scipy.ndimage: afx.ndimage
jax.scipy.signal: afx.signal
jax.scipy.special: afx.special
jax.scipy.stats: afx.stats
diffrax optimistix jaxopt jaxopt.implicit_diff jaxopt.loss jaxopt.objective jaxopt.projection jaxopt.prox: afx.migrate.for_jaxopt
jax.experimental.sparse: afx.migrate.for_jaxopt
jaxtyping: jaxtyping
optax optax.contrib optax.schedules optax.transforms: afx.migrate.for_optax
flax.serialization jaxopt.tree_util optax.losses optax.projections optax.tree optax.tree_utils: afx.migrate.optax_trees
flax.core flax.core.frozen_dict flax.linen flax.struct: afx.migrate.for_flax
flax.training.common_utils flax.training.train_state: afx.migrate.for_flax"""
# names of JAX's, and what stands for them
_RENAMED = """jax.lax.linalg.tridiagonal_solve: afx.linalg.tridiagonal_solve
equinox.filter: afx.migrate.for_equinox.filter_tree
equinox.Partial: afx.migrate.for_trees.Partial
equinox.filter_checkpoint jax.remat: afx.migrate.for_jax.checkpoint
equinox.tree_inference: afx.migrate.for_equinox.inference_mode
jax.checkpoint_policies: afx.migrate.for_jax.checkpoint_policies
jax.example_libraries.optimizers.constant: afx.migrate.for_stax.make_schedule
jax.image.ResizeMethod: afx.migrate.for_lax.ResizeMethod
jax.numpy.complex_: numpy.complex128
jax.numpy.float_: numpy.float64
chex.Array chex.PRNGKey jax.Array jax.numpy.ndarray jaxtyping.Array jaxtyping.PRNGKeyArray: afx.Array
jax.config jax.config.config: afx.migrate.for_jax.config
jax.debug.callback: afx.migrate.for_jax.callback
jax.typing.DTypeLike: numpy.typing.DTypeLike
jax.debug.print: afx.debug.print
jax.dtypes.float0: afx.migrate.for_trees.float0
jax.flatten_util.ravel_pytree: afx.migrate.for_trees.ravel_pytree
jax.image.resize: afx.migrate.for_lax.resize
jax.jacobian: afx.jacrev
jax.make_jaxpr equinox.filter_make_jaxpr: afx.migrate.for_lax.make_jaxpr
jax.nn.logsumexp jax.scipy.special.logsumexp: afx.logsumexp
jax.nn.swish flax.linen.swish: afx.nn.silu
jax.numpy.i0: afx.special.i0
chex.Numeric chex.Scalar jaxtyping.ArrayLike jax.typing.ArrayLike: afx.ArrayLike
jaxtyping.PyTree: afx.migrate.for_trees.PyTree
jax.random.PRNGKey: afx.random.key
jax.scipy.integrate.trapezoid: afx.trapezoid
jax.tree.unflatten jax.tree_util.tree_unflatten: afx.migrate.for_trees.put
jax.tree.map jax.tree_map jax.tree_multimap jax.tree_util.tree_map jax.tree_util.tree_multimap: afx.migrate.for_trees.tree_map
jax.lax.abs jax.numpy.abs jax.numpy.fabs: afx.migrate.for_jax.absolute
jax.named_call jax.random.clone jax.random.key_data jax.random.wrap_key_data: afx.migrate.for_jax.same
jax.experimental.ode.odeint: afx.migrate.for_lax.odeint
jax.nn.dot_product_attention: afx.migrate.for_lax.dot_product_attention
jax.scipy.optimize.minimize: afx.migrate.for_jaxopt.minimize
jax.errors.ConcretizationTypeError jax.errors.TracerArrayConversionError: afx.errors.ConcreteValueError
jax.errors.TracerBoolConversionError jax.errors.TracerIntegerConversionError: afx.errors.ConcreteValueError
jax ShapeDtypeStruct block_until_ready=same checkpoint device_get device_put
  effects_barrier=same enable_x64 linear_transpose pure_callback: afx.migrate.for_jax.*
jax.lax fori_loop scan while_loop: afx.migrate.for_jax.*
jax.experimental enable_x64: afx.migrate.for_jax.*
jax default_backend devices local_devices=devices device_count local_device_count=device_count process_count=device_count
  process_index make_mesh=Placement pmap: afx.migrate.for_lax.*
jax.sharding AxisType=Placement Mesh=Placement NamedSharding=Placement PartitionSpec=Placement SingleDeviceSharding=Placement
  PositionalSharding=Placement: afx.migrate.for_lax.*
jax.experimental.mesh_utils create_device_mesh=Placement: afx.migrate.for_lax.*
jax.lax with_sharding_constraint=same pvary=same: afx.migrate.for_jax.*
equinox filter_shard=same: afx.migrate.for_jax.*
equinox filter_pmap=pmap: afx.migrate.for_lax.*
jax.nn hard_sigmoid hard_silu hard_swish=hard_silu leaky_relu one_hot sparse_sigmoid: afx.migrate.for_jax.*
jax.numpy absolute histogram histogram2d histogramdd clip diagonal fill_diagonal fmax fmin mgrid ogrid polydiv searchsorted
  take take_along_axis: afx.migrate.for_jax.*
jax.numpy.linalg cholesky=factor lstsq: afx.migrate.for_jax.*
jax.scipy.linalg cho_factor cholesky eigh qr solve: afx.migrate.for_jax.*
jax.scipy.ndimage map_coordinates: afx.migrate.for_jax.*
jax.test_util check_grads: afx.migrate.for_jax.*
jax.tree_util DictKey FlattenedIndexKey GetAttrKey Partial SequenceKey all_leaves keystr register_dataclass
  register_pytree_node treedef_children treedef_is_leaf register_pytree_node_class register_pytree_with_keys
  register_pytree_with_keys_class register_static: afx.migrate.for_trees.*
jax.ops segment_max segment_min segment_prod segment_sum: afx.migrate.for_jax.*
jax.numpy array_repr array_str cdouble complexfloating csingle double dtype euler_gamma floating generic get_printoptions
  index_exp inexact int_ integer iterable load mask_indices number printoptions s_ save savez set_printoptions signedinteger
  single uint unsignedinteger: numpy.*
jax.example_libraries.stax elu gelu log_softmax relu selu sigmoid softmax softplus standardize: afx.nn.*
jax.ad_checkpoint checkpoint checkpoint_name=same checkpoint_policies: afx.migrate.for_jax.*
einops pack rearrange reduce repeat unpack: einops.array_api.*
jax.random fold_in key split: afx.random.*
jax tree_all tree_flatten tree_leaves tree_reduce tree_structure tree_transpose tree_unflatten=put: afx.migrate.for_trees.*
jax.numpy alltrue=all sometrue=any product=prod cumproduct=cumprod in1d=isin trapz=trapezoid row_stack=vstack
  DeviceArray=Array: afx.*
jax.experimental.jet jet: afx.migrate.for_jax.*
jax.tree all broadcast flatten flatten_with_path leaves leaves_with_path map_with_path reduce
  structure transpose: afx.migrate.for_trees.tree_*
jax.tree_util tree_all tree_broadcast tree_flatten tree_flatten_with_path tree_leaves tree_leaves_with_path
  tree_map_with_path tree_reduce tree_structure tree_transpose: afx.migrate.for_trees.*
jax custom_jvp custom_vjp: afx.migrate.for_lax.*
jax.example_libraries.optimizers.l2_norm optax.global_norm: afx.migrate.optax_trees.norm
jax.example_libraries.optimizers pack_optimizer_state=same unpack_optimizer_state=same: afx.migrate.for_jax.*
flax.linen.hard_swish: afx.migrate.for_jax.hard_silu
jax.example_libraries.stax logsoftmax=log_softmax: afx.nn.*
jax.example_libraries.stax.randn: afx.migrate.for_stax.normal
jax default_matmul_precision=nullcontext ensure_compile_time_eval=nullcontext named_scope=nullcontext: contextlib.*
equinox.EquinoxRuntimeError: afx.errors.ArgumentError
chex.ArrayTree chex.Shape optax.Params optax.OptState optax.Updates: typing.Any
optax.safe_int32_increment: afx.migrate.for_optax.safe_increment
jax.lax add sub=subtract mul=multiply max=maximum min=minimum neg=negative pow exp log sin cos tan tanh sinh cosh sqrt
  square sign floor ceil log1p expm1 atan2 select=where lgamma=special.gammaln digamma=special.digamma erf=special.erf
  erfc=special.erfc logistic=sigmoid real imag conj bitwise_and bitwise_or bitwise_xor eq=equal ne=not_equal lt=less
  le=less_equal gt=greater ge=greater_equal is_finite=isfinite acosh asin acos asinh atan atanh cbrt tan exp2 full_like
  nextafter reshape squeeze erf_inv=special.erfinv igamma=special.gammainc igammac=special.gammaincc betainc=special.betainc
  bessel_i0e=special.i0e bessel_i1e=special.i1e bitwise_not=invert integer_pow=pow rem=fmod shift_left=left_shift
  shift_right_arithmetic=right_shift rev=flip reduce_max=max reduce_min=min reduce_sum=sum reduce_prod=prod reduce_and=all
  reduce_or=any expand_dims dot=matmul transpose=permute_dims associative_scan batch_matmul=matmul broadcast_shapes map
  stop_gradient switch reciprocal polygamma=special.polygamma zeta=special.zeta tile stack: afx.*
equinox filter_eval_shape=eval_shape filter_hessian=hessian filter_jacfwd=jacfwd filter_jacrev=jacrev filter_jvp=jvp
  filter_vjp=vjp: afx.*
jax.scipy.sparse.linalg bicgstab cg gmres: afx.migrate.for_jaxopt.*"""
# names that are rewritten and yet differ, and how
_NOTES = """\
diffrax.Bosh3 diffrax.Euler diffrax.Heun diffrax.Midpoint diffrax.Ralston: dopri5's steps by PIDController; between steps a cubic
diffrax.ImplicitEuler: takes steps of radau where PIDController has their size; fixed ones raise: write Kvaerno3, or a loop
diffrax.VeryChord: fixed steps are those of Radau IIA, of order 5: agrees to the tolerance that such steps have
jax.scipy.special.betaln: has all digits, where JAX's is off by some 1e-7
jax.make_jaxpr: a Graph of afx's equations, which prints otherwise
optax.adafactor: its decay has all digits, Optax's those of float32: agrees to the tolerance
jax.nn.dot_product_attention: JAX's softmax is float32 whatever the dtype: agrees to the tolerance
diffrax.diffeqsolve jax.experimental.ode.odeint: steps are afx's own: results agree to the tolerance
jax.scipy.optimize.minimize: steps are afx's own: what is found agrees to the tolerance
jax.scipy.special.sph_harm_y: orders are Python's integers, where JAX's are arrays
jax.scipy.stats.gaussian_kde: an integral is cdf(b) - cdf(a), draws are rvs(key, n), a bandwidth is bandwidth=
jax.numpy.histogram: a number on the edge of two bins may be in the other one
jax.numpy.histogram2d jax.numpy.histogramdd: a number on the edge of two bins may be in the other one
optax.add_noise optax.noisy_sgd: draws from afx's own stream: other numbers than Optax's"""
# names that have another form, and what to write
_ADVICE = """flax.core.copy: {**params, **others}
flax.jax_utils flax.training.common_utils: the value itself: there is one device
flax.linen.Fp8: flax.linen's layers of float32
flax.linen.tabulate: afx.pytree.map(lambda p: p.shape, variables)
flax.linen.vmap: afx.vmap of model.apply
flax.nnx: flax.linen's modules, or layers of afx.nn
flax.training.checkpoints flax.training.orbax_utils: afx.io.save and afx.io.load
equinox.nn: a layer of afx.nn, made by its create(key, …)
jax.random: a function of afx.random, whose arguments are named otherwise
jax.experimental.checkify: afx.debug.callback, or afx.debug_nans
jax.example_libraries.optimizers: another of its optimizers
jax.experimental.sparse: afx.sparse.Csr.from_entries(values, rows, columns, shape), or dense arrays
jax.lax.linalg: a function of afx.linalg, whose results come in NumPy's order
jax.lax.round: where(x < 0, -floor(0.5 - x), floor(x + 0.5)); afx.round takes even numbers at halves
jax.numpy.place: afx.where(mask, y, x)
jax.numpy.put: x.reshape(-1).at[i].set(y).reshape(x.shape)
jax.experimental.io_callback: afx.debug.callback, or jax.pure_callback
jax.sharding: nothing: there is one device
jaxopt.linear_solve: afx.linalg.cg, gmres or solve
einops.einsum: afx.einsum, whose pattern comes first and has letters
jax.lax.gather: x[indices], or afx.take
jax.lax.bitcast_convert_type: np.asarray(x).view(dtype), of data
jax.lax.clz: bits - afx.frexp(x)[1], of numbers that floats hold
optax: afx.optim: its names and defaults are in the guide from_jax.md
jax.lax.scatter jax.lax.scatter_add jax.lax.scatter_max jax.lax.scatter_min: x.at[i].set(y), or add, multiply, min, max
jax.lax.scatter_mul: x.at[i].multiply(y)
jax.lax.all_to_all jax.lax.psum_scatter: axis 0 outside of afx.vmap"""


JAX = Library(
    roots=ROOTS.split(),
    guide="from_jax.md",
    modules=by_name(_MODULES),
    renamed={
        **by_name(_RENAMED),
        **{f"jax.random.{name}": f"{CALLS}.{name}" for name in DRAWS},
    },
    notes={
        **by_name(_NOTES),
        **{f"jaxopt.{name}": "steps are afx's own: what is found agrees to the tolerance" for name in KINDS},
    },
    advice=by_name(_ADVICE),
    setting=f'{CALLS}.config.update("jax_enable_x64", False)',
    sets="enable_x64",
)


def _divided(tree: ast.Module, dtypes: list[ast.expr]) -> list[ast.expr]:
    """Return small dtypes of a program that divides, but for those in assignments to names that none divides or returns."""
    nodes = [*ast.walk(tree)]
    quotients = [n for n in nodes if isinstance(getattr(n, "op", None), ast.Div)]
    quotients += [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "attr", "") in QUOTIENTS.split()]
    inside = [x for n in quotients for x in ast.walk(n)]
    names = {x.id for x in [*inside, *[n.value for n in nodes if isinstance(n, ast.Return)]] if isinstance(x, ast.Name)}
    kept = {id(x) for x in inside}
    for n in nodes:
        targets = {x.id for t in getattr(n, "targets", ()) for x in ast.walk(t) if isinstance(x, ast.Name)}
        if targets and not targets & names:
            away = {id(x) for call in ast.walk(n) if isinstance(call, ast.Call) for x in ast.walk(call)} - kept
            dtypes = [d for d in dtypes if id(d) not in away]
    return dtypes if quotients else []


class JaxMigration(Migration):
    """A migration that writes modules as frozen attrs classes too."""

    def __init__(self, source: str, library: Library) -> None:
        super().__init__(source, library)
        self.bases: set[int] = set()  # of classes, and dtypes, that are rewritten
        nodes = ast.walk(ast.parse(source))
        self.held: set[Any] = {
            (x.lineno, x.col_offset) for node in nodes for x in _values_in(node)
        }  # by names, containers
        self.modules: set[str] = set()  # classes of the file that are Equinox's modules
        self.static: set[str] = set()  # what static fields of these are said to be

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Rewrite a dotted name, but for the bases of modules, which go; a dtype that gets a name is NumPy's, to be called."""
        if id(node) in self.bases:
            return
        home, _, last = self._name_of(node).rpartition(".")
        if home == "jax.numpy" and last in DTYPES.split() and (node.lineno, node.col_offset) in self.held:
            self.put(node, f"numpy.{last}")
            self.needed.add("numpy")
            return
        super().visit_Attribute(node)

    def visit_Name(self, node: ast.Name) -> None:
        """Keep a module that is passed on, but for what is rewritten as a whole."""
        if id(node) not in self.bases:
            super().visit_Name(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Rewrite ``jnp.float32(x)``, as dtypes of afx are no functions, and calls with arguments of JAX's."""
        before: ast.expr | None = node.args[-1] if node.args else None
        if ast.unparse(node.func).endswith("partial") and node.args:  # the call that it is to become
            node = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
        name = self._name_of(node.func)
        if name.partition(".")[0] in self.library.roots:
            words = self._arguments(node, name)
            target = self._rename(node.func, name, words) or self.library.resolve(name)
            self._check_keywords(node, name, target or "", words, before)
            if name == "jax.random.split" and isinstance(before, ast.Tuple):
                text = "keys are two numbers each: the last axis of their array"
                self.remarks.append(Remark(node.lineno, ast.unparse(node.func), text))
        elif isinstance(node.func, ast.Name) and node.func.id == "hasattr" and self._name_of(node.args[0]):
            self._ask(node)
        elif isinstance(node.func, ast.Name) and node.func.id == "abs" and GRADIENTS.search(b"".join(self.lines)):
            self.put(node.func, f"{CALLS}.abs")
            self.needed.add(CALLS)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Subscript):
            self._check_update(node, node.func)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "lower" and (node.args or node.keywords):
            self._lower(node.func)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("as_text", "cost_analysis", "memory_analysis"):
            self.remarks.append(Remark(node.lineno, ast.unparse(node.func), "tells of afx's program, or is not there"))
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "block_until_ready":  # a method
            line, column = end_of(node.func)
            self.edits.append(Edit((line, column - len(".block_until_ready")), end_of(node), ""))

    def _ask(self, node: ast.Call) -> None:
        """Answer ``hasattr(jax, "tree")``: what is rewritten is there; of other names a remark."""
        name = f"{self._name_of(node.args[0])}.{getattr(node.args[1], 'value', '')}"
        is_home = any(known.startswith(f"{name}.") for known in (*self.library.renamed, *self.library.modules))
        if is_home or self.library.resolve(name):
            answer = "True"
        else:
            self.remarks.append(Remark(node.lineno, ast.unparse(node), "afx has no such name"))
            answer = "False"
        self.bases |= set(map(id, ast.walk(node)))
        self.put(node, answer)

    def _lower(self, func: ast.Attribute) -> None:
        """Rewrite ``f.lower(x)`` of a jitted function; that of a text has no argument."""
        start, (line, column) = (func.lineno, func.col_offset), end_of(func)
        self.edits.extend(
            [
                Edit(start, start, f"{CALLS}.lower("),
                Edit((line, column - len(".lower")), (line, column + len("(")), ", "),
            ]
        )
        self.needed.add(CALLS)

    def _rename(self, function: ast.expr, name: str, words: Sequence[tuple[str | None, ast.expr]]) -> str:
        """Return what a function of JAX's becomes for one of its keywords, or a dtype that is called, and write it."""
        last = name.rpartition(".")[2]
        own = [BY_KEYWORD[f"{word}.{last}"] for word, _ in words if f"{word}.{last}" in BY_KEYWORD]
        own += [last] if name.startswith("jax.numpy.") and last in DTYPES.split() else []
        if not own or not name.startswith("jax."):
            return ""
        target = NAMED.get(own[0], f"{CALLS}.{own[0]}")
        self.bases.add(id(function))
        self.put(function, target)
        self.needed.add(target.rpartition(".")[0])
        return target

    def _arguments(self, node: ast.Call, name: str) -> list[tuple[str | None, ast.expr]]:
        """Return keywords, and what is given by place and takes its name from now on."""
        first, names = BY_PLACE.get(name, (len(node.args), ""))
        named = list(zip(names, node.args[first:], strict=False))
        if any(isinstance(x, ast.Starred) for x in node.args):
            return []
        for word, x in named:
            place = x.lineno, x.col_offset
            self.edits.append(Edit(place, place, f"{word}="))
        return [*named, *[(k.arg, k.value) for k in node.keywords]]

    def _check_update(self, node: ast.Call, func: ast.Attribute) -> None:
        """Rewrite ``x.at[i].mul(v)``, and updates whose indices may lie outside, or that afx has not."""
        at = func.value.value if isinstance(func.value, ast.Subscript) else None
        if not isinstance(at, ast.Attribute) or at.attr != "at":
            return
        if func.attr in ("apply", "power") or any(k.arg == "mode" for k in node.keywords):
            self._read_places(at)
        elif func.attr in ("mul", "div"):
            text = {"mul": ".multiply", "div": ".divide"}[func.attr]
            self.edits.append(Edit(end_of(func.value), end_of(func), text))

    def _read_places(self, array: ast.expr) -> bool:
        """Read or update places of an array, which may have an ``.at``, by JAX's modes; tell whether it has one."""
        start, (line, column) = (array.lineno, array.col_offset), end_of(array)
        is_at = getattr(array, "attr", "") == "at"
        text, end = f"{CALLS}.at(", Edit((line, column - len(".at") * is_at), (line, column), ")")
        if end not in self.edits:
            inner = [e for e in self.edits if e[:2] == (start, start) and e.text.startswith(text)]  # of a longer chain
            for edit in inner:
                self.edits.remove(edit)
                text += edit.text
            self.edits.extend((Edit(start, start, text), end))
            self.needed.add(CALLS)
        return is_at

    def _name_of(self, function: ast.expr) -> str:
        """Return the dotted name of a function of the library, or an empty one."""
        root, *rest = chain_of(function) or [""]
        return ".".join([self.bound.get(root, ""), *rest])

    def begin(self, tree: ast.Module) -> None:
        """Do as JAX does at indices that are past the end, and remark on what afx does otherwise."""
        for read in past_the_end(tree, self._name_of):
            if not self._read_places(read.value):
                self.edits.append(Edit(end_of(read), end_of(read), ".get()"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in self.static:
                self._let_hash(node)
            elif isinstance(node, ast.ExceptHandler) and self.bound:
                self._catch_shapes(node)
            elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
                self._remark_on_indices(node)
            elif isinstance(node, ast.Constant) and "host_platform_device_count" in str(node.value):
                self.remarks.append(Remark(node.lineno, "XLA_FLAGS", "is not read: there is one device"))
            elif isinstance(node, ast.Constant) and node.value == "JAX_ENABLE_X64":
                text = f'is not read: call {CALLS}.config.update("jax_enable_x64", True)'
                self.remarks.append(Remark(node.lineno, "JAX_ENABLE_X64", text))
        self._remark_on_numbers(tree)
        super().begin(tree)

    def _remark_on_indices(self, function: ast.FunctionDef | ast.Lambda) -> None:
        """Remark on indices computed from arguments, which may be past the end."""
        own = {argument.arg for argument in function.args.args}
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and _may_leave(node.slice, own):
                advice = "an index past the end raises IndexRangeError; JAX reads the last one, and leaves out updates"
                self.remarks.append(Remark(node.lineno, ast.unparse(node), advice))

    def _remark_on_numbers(self, tree: ast.Module) -> None:
        """Remark on the first function that computes in float32 under x64, tells the width of integers, and draws."""
        nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Attribute, ast.Name))]
        named: list[tuple[ast.expr, str]] = [(n, self._name_of(n)) for n in nodes]
        whole = [n for n, name in named if name in SMALL.split()]
        small = [n for n, name in named if name in FLOATS.split()] + (_divided(tree, whole) if whole else [])
        small = small if b"jax_enable_x64" in b"".join(self.lines) else []
        random = [(n, name[11:]) for n, name in named if name.startswith("jax.random.")]
        draws = [n for n, name in random if name not in OF_KEYS.split()]
        draws = draws or [n for n, name in random if name in ("PRNGKey", "key")]  # of layers, which draw
        is_single = self.bound and b"enable_x64" not in b"".join(self.lines).lower()
        wide: list[Any] = [n for n in ast.walk(tree) if is_single and _tells_width(n, self._name_of)]
        for those, advice in (
            (wide, "integers have 64 bits, JAX's 32 without jax_enable_x64: write x.astype(np.int32) where that shows"),
            (small, "computes in float32 under x64 (of integers quotients and means): agrees to the tolerance"),
            (draws, "draws from afx's own stream: other numbers than JAX's of that key"),
        ):
            self.remarks.extend([Remark(n.lineno, ast.unparse(n)[:80], advice) for n in those[:1]])

    def _check_keywords(
        self, node: ast.Call, name: str, target: str, words: list[tuple[str | None, ast.expr]], before: ast.expr | None
    ) -> None:
        """Write keywords by afx's names, leave out those that change no number, and remark on others."""
        known, most = arguments_of(target) if target else (None, math.inf)
        function, keywords = ast.unparse(node.func), {id(k.value): k for k in node.keywords}
        if min(len(node.args), BY_PLACE.get(name, (len(node.args),))[0]) > most:
            text = f"afx's takes {most} by place; write the names of the others"
            self.remarks.append(Remark(node.lineno, function, text))
        for word, value in words:
            k = keywords.get(id(value))
            is_place = word == "backend" and name == "jax.jit"  # of the machine, of which there is one
            if word and known is not None and (word not in known or is_place):
                own = next((w for w in SYNONYMS.get(word, "").split() if w in known), None)
                if k and own:
                    start = k.lineno, k.col_offset
                    self.edits.append(Edit(start, (k.lineno, k.col_offset + len(word)), own))
                elif k and (is_place or word in IDLE.split()) and before is not None:
                    self.bases |= set(map(id, ast.walk(value)))
                    line, column = end_of(before)
                    rest = self.lines[line - 1][column:]  # from what closes parentheses on
                    self.edits.append(Edit((line, column + len(rest) - len(rest.lstrip(b")"))), end_of(k), ""))
                else:
                    text = f"afx's has no {word}; its arguments are {', '.join(known)}"
                    self.remarks.append(Remark(value.lineno, f"{function}({word}=)", text))
            if f"{name}.{word}" in OTHERWISE:
                self.remarks.append(Remark(value.lineno, f"{function}({word}=)", OTHERWISE[f"{name}.{word}"]))
            before = value

    def _catch_shapes(self, node: ast.ExceptHandler) -> None:
        """Let what catches `TypeError`, which JAX's errors of shapes are as a rule, catch afx's."""
        for kind in node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]:
            if isinstance(kind, ast.Name) and kind.id == "TypeError":
                text = "TypeError, afx.errors.ShapeError"
                self.put(kind, text if isinstance(node.type, ast.Tuple) else f"({text})")
                self.needed.add("afx")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Rewrite ``class Model(eqx.Module)`` and its heirs, and what an ``__init__`` assigns to fields."""
        bases = [base for base in node.bases if self._is_module(base)]
        heir = any(isinstance(base, ast.Name) and base.id in self.modules for base in node.bases)
        if not bases and not heir:
            return
        self.modules.add(node.name)
        self.needed.add("attrs")
        self.bases |= set(map(id, bases))
        place = node.lineno, node.col_offset
        self.edits.append(Edit(place, place, f"@attrs.frozen\n{' ' * node.col_offset}"))
        if bases and len(node.bases) == 1 and not node.keywords:
            first, (line, column) = bases[0], end_of(bases[0])
            self.edits.append(Edit((first.lineno, first.col_offset - 1), (line, column + 1), ""))
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                self._set_fields(part)
                self._set_defaults(part, node)
            elif isinstance(part, ast.AnnAssign) and "static" in ast.unparse(part.value or part.target):
                self.static |= {n.id for n in ast.walk(part.annotation) if isinstance(n, ast.Name)}

    def _let_hash(self, node: ast.ClassDef) -> None:
        """Let a dataclass hash that is a static field: JAX compares these alone."""
        for decorator in node.decorator_list:
            is_call = isinstance(decorator, ast.Call)
            words = {k.arg for k in decorator.keywords} if isinstance(decorator, ast.Call) else set[Any]()
            if "dataclass" in ast.unparse(decorator) and not words & {"frozen", "unsafe_hash"}:
                (line, column), comma = end_of(decorator), ", " if words else ""
                start = (line, column - is_call)
                text = f"{comma}unsafe_hash=True" if is_call else "(unsafe_hash=True)"
                self.edits.append(Edit(start, start, text))

    def _is_module(self, base: ast.expr) -> bool:
        name, _, last = ast.unparse(base).rpartition(".")
        own = self.bound.get(name.partition(".")[0], "") == "equinox" and last in ("Module", "StatefulLayer")
        return own or self.bound.get(last) in ("equinox.Module", "equinox.nn.StatefulLayer")

    def _set_fields(self, function: ast.FunctionDef) -> None:
        owner = function.args.args[0].arg
        for node in ast.walk(function):
            if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Attribute)]
            fields = [n for n in parts if isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == owner]
            names = tuple([n.attr for n in fields])
            is_tuple = getattr(targets[0], "elts", None) == fields
            if fields and not isinstance(node, ast.AugAssign) and (targets == fields or is_tuple):
                line, column = end_of(node.annotation if isinstance(node, ast.AnnAssign) else targets[-1])
                rest = self.lines[line - 1][column:].partition(b"=")[2].lstrip(b" ")
                stop = line, len(self.lines[line - 1]) - len(rest)
                text, close = f'object.__setattr__({owner}, "{names[0]}", ', ")"
                if len(names) > 1:
                    text = f"[object.__setattr__({owner}, name, value) for "
                    text += f"name, value in zip({names}, (" if is_tuple else "value in [("
                    close = "))]" if is_tuple else f")] for name in {names}]"
                self.edits.append(Edit((node.lineno, node.col_offset), stop, text))
                self.edits.append(Edit(end_of(node), end_of(node), close))
            elif fields:
                name = f"{owner}.{names[0]}"
                self.remarks.append(Remark(node.lineno, name, f"assign one field a line: {name} = …"))

    def _set_defaults(self, function: ast.FunctionDef, node: ast.ClassDef) -> None:
        """Set fields to their defaults first, which an ``__init__`` of one's own may leave to the class."""
        owner, first = function.args.args[0].arg, function.body[0]
        start = first.lineno, first.col_offset
        is_alone = not self.lines[first.lineno - 1][: first.col_offset].strip()
        between = "\n" + " " * first.col_offset if is_alone else "; "  # def __init__(self): self.x = 1
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                default = part.value
                if isinstance(default, ast.Call):
                    default = next((k.value for k in default.keywords if k.arg == "default"), None)
                if default is not None:
                    name, value = part.target.id, ast.unparse(default)
                    if any(isinstance(n, ast.Name) and n.id in self.bound for n in ast.walk(default)):  # of JAX's
                        value = f"attrs.fields(type({owner})).{name}.default"
                    text = f'object.__setattr__({owner}, "{name}", {value})'
                    self.edits.append(Edit(start, start, text + between))


def _tells_width(node: ast.AST, name_of: Callable[[ast.expr], str]) -> bool:
    """Tell whether an expression shows a dtype or a number of bytes, asks for integers, or computes beyond 32 bits."""
    match node:
        case ast.Call(func=ast.Name(id="print" | "repr" | "str")) | ast.FormattedValue():
            return any(getattr(n, "attr", "") in ("dtype", "itemsize", "nbytes") for n in ast.walk(node))
        case ast.Compare():
            return bool(re.search(r"dtype\b.*\bu?int", ast.unparse(node)))
        case ast.BinOp(left=left, op=ast.LShift()):
            return not isinstance(left, ast.Constant)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = [getattr(side, "value", 0) for side in (left, right)]
            return any(isinstance(x, int) and abs(x) >= 2**24 for x in sides)
        case ast.Attribute():
            return name_of(node) in ("jax.numpy.int64", "jax.numpy.uint64")
        case _:
            return False


def _values_in(node: ast.AST) -> list[ast.expr]:
    """Return what a statement or a container holds."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return [node.value] if node.value is not None else []
    if isinstance(node, ast.Call):
        return node.args if isinstance(node.func, ast.Name) and node.func.id == "map" else []
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else []


def _may_leave(index: ast.expr, arguments: set[str]) -> bool:
    """Tell whether an index is a sum or a product of arguments, but no tuple repeated."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    sums = [x for x in parts if isinstance(x, ast.BinOp) and isinstance(x.op, (ast.Add, ast.Mult))]
    sums = [x for x in sums if not isinstance(x.left, ast.Tuple)]
    return bool(arguments & {*WORDS.findall(" ".join(map(ast.unparse, sums)))})


# --- Indices past the end of arrays whose shapes stand in the same file, where JAX reads the last element

Shape = tuple[int | None, ...]
Scope = Mapping[str, Any]  # what names are: shapes, integers, or None
OF_SHAPES = {"zeros": 0, "ones": 0, "empty": 0, "full": 0, "normal": 1, "uniform": 1}  # by where the shape stands
LIKE = {"abs", "asarray", "array", "cos", "exp", "full_like", "log", "ones_like", "sin", "sqrt", "tanh", "zeros_like"}
COMPUTED = re.compile(
    r"(?!.*(clip|minimum|mod|remainder|%|int\()).*(searchsorted\(|digitize\(|astype\([\w.]*int)", re.DOTALL
)
SUM = re.compile(r"[\w ,+()-]+$")
WORDS = re.compile(r"\b[^\W\d]\w*\b(?! *[<=>&|])")  # but of comparisons
TEXTS = re.compile(r"'[^']*'|\"[^\"]*\"")
INTEGERS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
}


def past_the_end(tree: ast.Module, name_of: Callable[[ast.expr], str]) -> Iterator[ast.Subscript]:
    """Yield what is read or updated at a known place outside of an array of known shape, or where numbers of floats lead.

    Args:
        tree: a program.
        name_of: what returns the dotted name of a function in its library.
    """
    yield from _in_scope(tree, {}, name_of)
    yield from _at_computed(tree)


def _at_computed(tree: ast.Module) -> Iterator[ast.Subscript]:
    """Yield reads and updates at places that are rounded or searched, in place or by a name, and not held within bounds."""
    nodes = list(ast.walk(tree))
    pairs = [(ast.unparse(n.targets[0]), ast.unparse(n.value)) for n in nodes if isinstance(n, ast.Assign)]
    names = set[str]()
    for _ in range(3):  # and neighbors of these
        found = [
            to for to, text in pairs if COMPUTED.match(text) or (SUM.match(text) and names & {*WORDS.findall(text)})
        ]
        names |= {*WORDS.findall(" ".join(found))}
    for n in nodes:
        if (
            isinstance(n, ast.Subscript)
            and isinstance(n.ctx, ast.Load)
            and isinstance(n.value, (ast.Name, ast.Attribute))
        ):
            text = TEXTS.sub("", ast.unparse(n.slice))
            if COMPUTED.match(text) or names & {*WORDS.findall(text)}:
                yield n


def _in_scope(node: ast.AST, outer: Scope, name_of: Callable[[ast.expr], str]) -> Iterator[ast.Subscript]:
    """Yield those of a module or a function, whose names are those around it and its own."""
    inner: list[ast.AST] = []
    own: list[ast.AST] = []
    stack = list(ast.iter_child_nodes(node))
    while stack:
        child = stack.pop(0)
        is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        (inner if is_function else own).append(child)
        stack[:0] = [] if is_function else list(ast.iter_child_nodes(child))
    scope: dict[str, Any] = dict(outer)
    bound = [child for child in own if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)]
    scope |= dict.fromkeys([child.id for child in bound] + [child.arg for child in own if isinstance(child, ast.arg)])
    given: dict[str, list[Any]] = {}
    for child in own:
        if isinstance(child, ast.Assign) and len(child.targets) == 1 and isinstance(child.targets[0], ast.Name):
            name = child.targets[0].id
            given.setdefault(name, []).append(value := _value_of(child.value, scope, name_of))
            scope[name] = value
    for name, values in given.items():  # one and the same wherever the name is assigned
        count = sum(child.id == name for child in bound)
        scope[name] = values[0] if len(values) == count and all(v == values[0] for v in values) else None
    for child in own:
        if isinstance(child, ast.Subscript) and _is_outside(child, scope, name_of):
            yield child
    for child in inner:
        yield from _in_scope(child, scope, name_of)


def _is_outside(node: ast.Subscript, scope: Scope, name_of: Callable[[ast.expr], str]) -> bool:
    """Tell whether an element is named that an array of known shape has not."""
    array = node.value.value if isinstance(node.value, ast.Attribute) and node.value.attr == "at" else node.value
    known: Any = _value_of(array, scope, name_of) if isinstance(array, (ast.Name, ast.Call)) else None
    if not isinstance(known, tuple) or not isinstance(node.ctx, ast.Load):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part, length in zip(parts, cast("Shape", known), strict=False):
        if isinstance(part, ast.Slice):
            continue
        given = part.args[0] if isinstance(part, ast.Call) and part.args else part
        places = [_value_of(x, scope, name_of) for x in (given.elts if isinstance(given, ast.List) else [part])]
        if not all(isinstance(place, int) for place in places):
            return False  # None, an ellipsis, arrays: axes are not counted on
        if length is not None and not all(-length <= place < length for place in places):
            return True
    return False


def _value_of(node: ast.expr, scope: Scope, name_of: Callable[[ast.expr], str]) -> Any:
    """Return an expression's integer or an array's shape, or None where neither is known."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return scope.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _value_of(operand, scope, name_of)
            return -value if isinstance(value, int) else value
        case ast.BinOp(left=left, op=op, right=right):
            sides = [_value_of(side, scope, name_of) for side in (left, right)]
            if all(isinstance(side, int) for side in sides):
                return INTEGERS[type(op)](*sides) if type(op) in INTEGERS else None
            is_number = [isinstance(side, ast.Constant) for side in (left, right)]
            return sides[0] if sides[0] == sides[1] or is_number[1] else sides[1] if is_number[0] else None
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(value=array, attr="at")))):
            return _value_of(array, scope, name_of)  # an update
        case ast.Call(func=func, args=args, keywords=keywords):
            home, _, name = name_of(func).rpartition(".")
            words = {k.arg: k.value for k in keywords if k.arg}
            values = [_value_of(x, scope, name_of) for x in args]
            return _shape_of(name, args, values, words, scope, name_of) if home in ("jax.numpy", "jax.random") else None
        case _:
            return None


def _shape_of(
    name: str, args: list[ast.expr], values: list[Any], words: dict[str, ast.expr], scope: Scope, name_of: Any
) -> Shape | None:
    """Return the shape of what a function of JAX makes."""
    place = OF_SHAPES.get(name)
    if place is not None:
        shape = args[place] if len(args) > place else words.get("shape")
        parts = shape.elts if isinstance(shape, ast.Tuple) else [shape] if shape is not None else []
        return tuple([_integer(_value_of(part, scope, name_of)) for part in parts])
    if name == "linspace":
        count = args[2] if len(args) > 2 else words.get("num", ast.Constant(50))
        return (_integer(_value_of(count, scope, name_of)),)
    if name == "eye" and len(args) == 1:
        return _integer(values[0]), _integer(values[0])
    if name == "arange":
        values = [x.value if isinstance(x, ast.Constant) else v for x, v in zip(args, values, strict=True)]
    if name == "arange" and args and all(isinstance(value, (int, float)) for value in values):
        start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
        return (max(math.ceil((stop - start) / step), 0),) if step else None
    if name in ("array", "asarray") and args and isinstance(args[0], (ast.List, ast.Tuple)):
        return _shape_of_list(args[0])
    return cast("Shape", values[0]) if name in LIKE and values and isinstance(values[0], tuple) else None


def _shape_of_list(node: ast.List | ast.Tuple) -> Shape:
    """Return the shape of an array of what a list holds: its length, and those of lists in it where they are known."""
    if any(isinstance(part, ast.Starred) for part in node.elts):
        return (None,)
    rows = [_shape_of_list(part) for part in node.elts if isinstance(part, (ast.List, ast.Tuple))]
    return len(node.elts), *(rows[0] if rows and all(row == rows[0] for row in rows) else ())


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None
