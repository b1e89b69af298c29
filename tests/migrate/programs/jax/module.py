"""Train a module."""
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jax import lax


class MLP(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear
    scale: jnp.ndarray
    power: int = eqx.field(static=True)

    def __init__(self, key):
        a, b = jr.split(key)
        self.first = eqx.nn.Linear(2, 8, key=a)
        self.second = eqx.nn.Linear(8, 1, key=b)
        self.scale = jnp.ones(())
        self.power = 2

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))[0] * self.scale


def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** model.power)


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))
model = MLP(jax.random.PRNGKey(0))
state = optimizer.init(eqx.filter(model, eqx.is_array))
x = jr.normal(jr.PRNGKey(1), (64, 2))
y = x[:, 0] - x[:, 1]


@eqx.filter_jit
def step(model, state):
    value, grads = eqx.filter_value_and_grad(loss)(model, x, y)
    updates, state = optimizer.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, value


first = loss(model, x, y)
for _ in range(60):
    model, state, value = step(model, state)
assert value < 0.5 * first
print(lax.fori_loop(0, 3, lambda i, c: c + i, 0))
