"""A module of Equinox, trained, and changed in one place."""
import equinox as eqx, jax, jax.numpy as jnp, optax, numpy as np
jax.config.update("jax_enable_x64", True)

class Model(eqx.Module):
    w: jax.Array
    b: jax.Array
    act: callable = eqx.field(static=True)
    def __init__(self, w, b):
        self.w = w
        self.b = b
        self.act = jax.nn.tanh
    def __call__(self, x): return self.act(x @ self.w + self.b)
@eqx.filter_value_and_grad
def loss(model, x, y): return jnp.mean((jax.vmap(model)(x)-y)**2)
@eqx.filter_jit
def step(model, opt_state, x, y):
    value, grads = loss(model, x, y)
    updates, opt_state = opt.update(grads, opt_state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), opt_state, value
model = Model(jnp.ones((3,2))*0.1, jnp.zeros(2)); opt = optax.adam(1e-2)
st = opt.init(eqx.filter(model, eqx.is_inexact_array)); rng=np.random.default_rng(0)
x=jnp.asarray(rng.normal(size=(10,3)).astype("float32")); y=jnp.asarray(rng.normal(size=(10,2)).astype("float32"))
for _ in range(10): model, st, v = step(model, st, x, y)
print(v, model.b)
m2 = eqx.tree_at(lambda m: m.b, model, jnp.ones(2)); print(m2.b)
p, s = eqx.partition(model, eqx.is_array); print(eqx.combine(p, s).b)
