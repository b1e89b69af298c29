"""A fit by Optax."""
import jax
import jax.numpy as jnp
import optax

x = jnp.linspace(-1.0, 1.0, 32)
y = 3.0 * x + 1.0
params = {"slope": jnp.zeros(()), "offset": jnp.zeros(())}


def loss(params):
    return jnp.mean((params["slope"] * x + params["offset"] - y) ** 2)


optimizer = optax.adamw(learning_rate=optax.cosine_decay_schedule(0.2, 200), weight_decay=0.0)
state = optimizer.init(params)
for _ in range(200):
    updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    params = optax.apply_updates(params, updates)
print("%.2f %.2f" % (params["slope"], params["offset"]))
