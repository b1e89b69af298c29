"""Optax's way to train, with schedules and trees."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
x, w = jnp.asarray(rng.normal(size=(64, 3))), rng.normal(size=3)
y = x @ w + 0.1
params = {"w": jnp.zeros(3), "b": jnp.array(0.0)}
schedule = optax.exponential_decay(init_value=0.1, transition_steps=20, decay_rate=0.5)
warm = optax.warmup_cosine_decay_schedule(init_value=0.0, peak_value=0.2, warmup_steps=5, decay_steps=60)
print(schedule(0), schedule(20), schedule(30), warm(5), warm(30))


def loss(params, x, y):
    return jnp.mean(optax.l2_loss(x @ params["w"] + params["b"], y))


for optimizer in (optax.adam(schedule), optax.sgd(warm, momentum=0.9)):
    state, tree = optimizer.init(params), params

    @jax.jit
    def step(tree, state):
        value, grads = jax.value_and_grad(loss)(tree, x, y)
        updates, state = optimizer.update(grads, state, tree)
        return optax.apply_updates(tree, updates), state, value

    for k in range(60):
        tree, state, value = step(tree, state)
    print(value, tree["w"], tree["b"])
flat, unravel = ravel_pytree(tree)
print(flat.shape, jax.tree_util.tree_reduce(lambda a, b: a + jnp.sum(b), tree, 0.0), optax.global_norm(tree))
print(functools.reduce(jnp.maximum, jax.tree_util.tree_leaves(tree)).shape)
