"""Parameters as trees."""
import jax
import jax.numpy as jnp
from jax import tree_util

params = {"w": jnp.array([1.0, 2.0]), "b": 0.5}
print(jax.tree.map(lambda p: p * 2, params)["w"])
print(tree_util.tree_reduce(lambda a, b: a + jnp.sum(b), params, 0.0))
leaves, treedef = jax.tree_util.tree_flatten(params)
print(len(leaves), tree_util.tree_unflatten(treedef, leaves)["b"])
grads = jax.grad(lambda p, x: jnp.sum(p["w"] * x + p["b"]))(params, jnp.array([3.0, 4.0]))
print(grads["w"], grads["b"])
