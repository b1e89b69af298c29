import jax
import jax.numpy as jnp
import numpy as np
import optax
jax.config.update("jax_enable_x64", True)

rng = np.random.default_rng(3)
x = jnp.asarray(rng.normal(size=(24, 3)))
y = jnp.sin(x.sum(1))

params = {
    "encoder": {"w": jnp.asarray(rng.normal(size=(3, 6))), "b": jnp.zeros(6)},
    "head": {"w": jnp.asarray(rng.normal(size=(6,))), "b": jnp.zeros(())},
}

def model(params, x):
    h = jnp.tanh(x @ params["encoder"]["w"] + params["encoder"]["b"])
    return h @ params["head"]["w"] + params["head"]["b"]

loss = lambda p: jnp.mean(optax.l2_loss(model(p, x), y))

def map_nested_fn(fn):
    def map_fn(nested_dict):
        return {k: (map_fn(v) if isinstance(v, dict) else fn(k, v)) for k, v in nested_dict.items()}
    return map_fn

def run(tx, params, n=15):
    state = tx.init(params)
    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value
    for _ in range(n):
        params, state, value = step(params, state)
    return params, value

label_fn = map_nested_fn(lambda k, _: k)
tx = optax.multi_transform({'w': optax.adam(0.05), 'b': optax.sgd(0.1)}, label_fn)
p, value = run(tx, params)
print(value, p["head"]["w"], p["encoder"]["b"])

tx = optax.partition({"train": optax.adam(1e-1), "freeze": optax.set_to_zero()},
                     {"encoder": {"w": "freeze", "b": "freeze"}, "head": {"w": "train", "b": "train"}})
p, value = run(tx, params)
print(value, p["head"]["w"], p["encoder"]["b"])

mask = jax.tree_util.tree_map(lambda p: p.ndim > 1, params)
tx = optax.chain(optax.masked(optax.add_decayed_weights(1e-2), mask), optax.sgd(0.1, momentum=0.9))
p, value = run(tx, params)
print(value, p["head"]["w"])
tx = optax.adamw(0.05, weight_decay=0.1, mask=lambda p: jax.tree.map(lambda x: x.ndim > 1, p))
p, value = run(tx, params)
print(value, p["head"]["w"])
