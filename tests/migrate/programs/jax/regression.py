"""Logistic regression by hand."""
import jax
import jax.numpy as jnp

inputs = jnp.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
targets = jnp.array([True, True, False, True])


def predict(w, b, inputs):
    return jax.nn.sigmoid(jnp.dot(inputs, w) + b)


def loss(w, b):
    preds = predict(w, b, inputs)
    label_probs = preds * targets + (1 - preds) * (1 - targets)
    return -jnp.sum(jnp.log(label_probs))


w, b = jnp.zeros(3), 0.0
for _ in range(20):
    value, (dw, db) = jax.value_and_grad(loss, (0, 1))(w, b)
    w, b = w - 0.1 * dw, b - 0.1 * db
print("%.4f" % value, jnp.round(w, 3))
