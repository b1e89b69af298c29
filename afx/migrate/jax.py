"""Names of JAX, Optax and Equinox: what stands for them in afx, and modules as frozen attrs classes."""

from __future__ import annotations

import ast

from afx.migrate.for_jax import DRAWS
from afx.migrate.rewriting import Edit, Library, Migration, end_of

__all__ = ["JAX", "JaxMigration"]

CALLS, OPTAX, STAX = "afx.migrate.for_jax", "afx.migrate.for_optax", "afx.migrate.for_stax"
TREES = ("flatten", "leaves", "map", "structure", "unflatten")
# of jax.lax by afx's names, those that differ behind =
ELEMENTWISE = (
    "abs add sub=subtract mul=multiply div=divide max=maximum min=minimum neg=negative pow exp log sin cos tan tanh sinh "
    "cosh sqrt square sign floor ceil log1p expm1 atan2 select=where lgamma=special.gammaln digamma=special.digamma "
    "erf=special.erf erfc=special.erfc logistic=sigmoid real imag conj bitwise_and bitwise_or bitwise_xor eq=equal "
    "ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal is_finite=isfinite"
)
PAIRS = [word.partition("=")[::2] for word in ELEMENTWISE.split()]
# whose arguments or defaults are JAX's: functions of for_jax
ADAPTED = {
    "jax": "block_until_ready custom_jvp custom_vjp device_put",
    "jax.lax": (
        "clamp cond cummax cummin cumprod cumsum dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_update_slice "
        "dynamic_update_slice_in_dim fori_loop rsqrt scan while_loop"
    ),
    "jax.nn": "one_hot",
    "jax.numpy": "diagonal mgrid ogrid polydiv",
    "jax.numpy.linalg": "lstsq",
    "jax.scipy.linalg": "cholesky qr solve",
    "jax.scipy.sparse.linalg": "bicgstab cg gmres",
    "jax.experimental.ode": "odeint",
    "jax.tree_util": "register_pytree_node_class",
    "jax.ops": "segment_max segment_min segment_prod segment_sum",
    "jax.scipy.optimize": "minimize",
    "equinox": "partition tree_at",
}  # fmt: skip
LAX = ("associative_scan", "map", "stop_gradient", "switch")

JAX = Library(
    roots=("jax", "optax", "equinox", "diffrax", "flax", "haiku", "jaxopt", "numpyro", "blackjax"),
    guide="from_jax.md",
    modules={
        "jax": "afx",
        "jax.example_libraries.optimizers": STAX,
        "jax.example_libraries.stax": STAX,
        "jax.nn": "afx.nn",
        "jax.nn.initializers": STAX,
        "jax.numpy": "afx",
        "jax.numpy.fft": "afx.fft",
        "jax.numpy.linalg": "afx.linalg",
        "jax.scipy.cluster.vq": "afx.cluster",
        "jax.scipy.fft": "afx.fft",
        "jax.scipy.interpolate": "afx.interpolate",
        "jax.scipy.linalg": "afx.linalg",
        "jax.scipy.ndimage": "afx.ndimage",
        "jax.scipy.signal": "afx.signal",
        "jax.scipy.special": "afx.special",
        "jax.scipy.stats": "afx.stats",
        "optax": OPTAX,
        "optax.losses": OPTAX,
        "optax.schedules": OPTAX,
        "optax.transforms": OPTAX,
    },
    renamed={
        **{f"jax.tree.{name}": f"afx.pytree.{name}" for name in TREES},
        **{f"jax.tree_util.tree_{name}": f"afx.pytree.{name}" for name in TREES},
        **{f"jax.lax.{name}": f"afx.{name}" for name in LAX},
        **{f"jax.lax.{name}": f"afx.{own or name}" for name, own in PAIRS},
        **{f"jax.random.{name}": f"{CALLS}.{name}" for name in DRAWS},
        **{f"jax.random.{name}": f"afx.random.{name}" for name in ("fold_in", "key", "split")},
        **{f"{home}.{name}": f"{CALLS}.{name}" for home, names in ADAPTED.items() for name in names.split()},
        "equinox.Module": f"{CALLS}.Module",
        "equinox.apply_updates": f"{OPTAX}.apply_updates",
        "equinox.field": f"{CALLS}.field",
        "equinox.filter": f"{CALLS}.filter_tree",
        "equinox.filter_grad": "afx.grad",
        "equinox.filter_jit": "afx.jit",
        "equinox.filter_value_and_grad": "afx.value_and_grad",
        "equinox.filter_vmap": "afx.vmap",
        "equinox.is_array": f"{CALLS}.is_array",
        "equinox.is_inexact_array": f"{CALLS}.is_array",
        "equinox.nn.Linear": f"{CALLS}.Linear",
        "equinox.combine": "afx.pytree.combine",
        "equinox.nn.MLP": f"{CALLS}.MLP",
        "jax.Array": "afx.Array",
        "jax.config": f"{CALLS}.config",
        "jax.config.config": f"{CALLS}.config",
        "jax.debug.callback": "afx.debug.callback",
        "jax.debug.print": "afx.debug.print",
        "jax.flatten_util.ravel_pytree": "afx.pytree.ravel",
        "jax.jacobian": "afx.jacrev",
        "jax.lax.concatenate": "afx.concat",
        "jax.lax.dot": "afx.matmul",
        "jax.lax.expand_dims": "afx.expand_dims",
        "jax.lax.top_k": "afx.top_k",
        "jax.lax.transpose": "afx.permute_dims",
        "jax.nn.logsumexp": "afx.logsumexp",
        "jax.numpy.ndarray": "afx.Array",
        "jax.tree.reduce": f"{CALLS}.tree_reduce",
        "jax.tree_map": "afx.pytree.map",
        "jax.tree_multimap": "afx.pytree.map",
        "jax.tree_util.tree_reduce": f"{CALLS}.tree_reduce",
        "optax.tree.norm": "afx.optim.global_norm",
        "jax.random.PRNGKey": "afx.random.key",
        "jax.scipy.integrate.trapezoid": "afx.trapezoid",
        "jax.scipy.special.logsumexp": "afx.logsumexp",
    },
    notes={
        "jax.experimental.ode.odeint": "steps are afx's own: results agree with JAX's to the tolerance",
        "jax.scipy.linalg.lu_factor": "piv is the order of the rows, as afx's lu_solve takes it; JAX's are LAPACK's exchanges",
        "jax.scipy.linalg.sqrtm": "the second argument is hermitian=, where JAX's is a size of blocks",
    },
    advice={
        "equinox.nn": "a layer of afx.nn, made by its create(key, …)",
        "jax.make_jaxpr": "afx.trace(fn)(x), a Graph of equations",
        "jax.random": "a function of afx.random, whose arguments are named otherwise",
        "optax": "afx.optim: its names and defaults are in the guide from_jax.md",
    },
)


class JaxMigration(Migration):
    """A migration that writes modules as frozen attrs classes too."""

    def __init__(self, source: str, library: Library) -> None:
        super().__init__(source, library)
        self.bases: set[int] = set()  # of classes that are rewritten

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Rewrite a dotted name, but for the bases of modules, which go."""
        if id(node) not in self.bases:
            super().visit_Attribute(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Rewrite ``class Model(eqx.Module)``, and what its ``__init__`` assigns to fields."""
        bases = [base for base in node.bases if self._is_module(base)]
        if not bases:
            return
        self.needed.add("attrs")
        self.bases |= set(map(id, bases))
        margin = " " * node.col_offset
        self.edits.append(
            Edit((node.lineno, node.col_offset), (node.lineno, node.col_offset), f"@attrs.frozen\n{margin}")
        )
        if len(node.bases) == 1 and not node.keywords:
            first, last = bases[0], bases[0]
            self.edits.append(Edit((first.lineno, first.col_offset - 1), _after(end_of(last)), ""))
        for function in node.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                self._set_fields(function)

    def _is_module(self, base: ast.expr) -> bool:
        name, _, last = ast.unparse(base).rpartition(".")
        return self.bound.get(name) == "equinox" and last == "Module"

    def _set_fields(self, function: ast.FunctionDef) -> None:
        owner = function.args.args[0].arg
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == owner:
                start, value = (node.lineno, node.col_offset), node.value
                text = f'object.__setattr__({owner}, "{target.attr}", '
                self.edits.append(Edit(start, (value.lineno, value.col_offset), text))
                self.edits.append(Edit(end_of(value), end_of(value), ")"))


def _after(place: tuple[int, int]) -> tuple[int, int]:
    return place[0], place[1] + 1
