"""Descent by the optimizers of the example libraries, and hyperparameters that a training sets."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.example_libraries import optimizers, stax

jax.config.update("jax_enable_x64", True)

rng = np.random.default_rng(7)
A = jnp.asarray(rng.normal(size=(12, 4)))
b = jnp.asarray(rng.normal(size=12))


def loss(w):
    return jnp.mean((A @ w - b) ** 2)


rate = optimizers.exponential_decay(0.1, 10, 0.9)
for triple in (
    optimizers.sgd(rate),
    optimizers.momentum(0.05, mass=0.9),
    optimizers.nesterov(0.05, mass=0.9),
    optimizers.rmsprop(0.05),
    optimizers.adam(rate),
    optimizers.adagrad(0.3),
    optimizers.adamax(0.1),
):
    init, update, get_params = triple
    state = init(jnp.zeros(4))
    for i in range(20):
        grads = optimizers.clip_grads(jax.grad(loss)(get_params(state)), 2.0)
        state = update(i, grads, state)
    print(get_params(state), float(loss(get_params(state))))

init, apply = stax.serial(stax.Flatten, stax.FanOut(2), stax.parallel(stax.Tanh, stax.Softplus), stax.FanInSum)
shape, params = init(jax.random.PRNGKey(0), (3, 2, 2))
print(shape, apply(params, A.reshape(3, 4, 4)[:, :2, :2]))

opt = optax.inject_hyperparams(optax.adam)(learning_rate=0.1, b1=0.8)
params = jnp.zeros(4)
state = opt.init(params)
for epoch in range(3):
    for _ in range(5):
        updates, state = opt.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, updates)
    state.hyperparams["learning_rate"] = state.hyperparams["learning_rate"] * 0.5
    print(epoch, params, float(state.hyperparams["learning_rate"]))

steps = optax.MultiSteps(optax.sgd(0.1), every_k_schedule=3)
params = jnp.zeros(4)
state = steps.init(params)
for k in range(6):
    rows = slice(4 * (k % 3), 4 * (k % 3) + 4)
    grads = jax.grad(lambda w: jnp.mean((A[rows] @ w - b[rows]) ** 2))(params)
    updates, state = steps.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    print(bool(steps.has_updated(state)), params)
