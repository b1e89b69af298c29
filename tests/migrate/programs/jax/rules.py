"""Derivatives that programs give, solvers, trees and activations."""
import jax, jax.numpy as jnp
from jax.scipy.optimize import minimize
import jax.tree_util as jtu
from jax.nn import softplus, sigmoid, silu, gelu
from jax.tree_util import tree_map, tree_leaves, tree_flatten
from jax import custom_vjp, custom_jvp
jax.config.update("jax_enable_x64", True)
f = lambda x: jnp.sum((x-jnp.arange(3.))**2) + jnp.sum(x**4)
r = minimize(f, jnp.zeros(3), method="BFGS"); print(jnp.round(r.x,4), r.success)
@custom_vjp
def clip(x): return x
def fwd(x): return x, None
def bwd(_, g): return (jnp.clip(g,-1,1),)
clip.defvjp(fwd, bwd)
print(jax.grad(lambda x: (clip(x)*5).sum())(jnp.ones(2)))
@jax.custom_jvp
def h(x): return jnp.sin(x)
@h.defjvp
def h_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return h(x), jnp.cos(x)*t
print(jax.grad(h)(0.5))
print(tree_map(lambda a,b: a+b, {"a":1.,"b":(2.,3.)}, {"a":1.,"b":(2.,3.)}))
leaves, td = tree_flatten({"a": jnp.ones(2)}); print(len(leaves), jtu.tree_unflatten(td, leaves))
print(softplus(1.0), gelu(jnp.array(1.0)), silu(2.0))
