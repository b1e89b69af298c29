from functools import partial
import jax
from jax import numpy as jnp
from jax import jit, vmap, jacfwd, hessian, lax, grad
jax.config.update('jax_enable_x64', True)

dt = 0.1
n, m, T = 4, 1, 25

@jit
def dynamics(x, u, t):
    mc, mp, l, g = 1.0, 0.3, 0.5, 9.81
    pos, theta, dpos, dtheta = x
    s, c = jnp.sin(theta), jnp.cos(theta)
    denom = mc + mp * s ** 2
    ddpos = (u[0] + mp * s * (l * dtheta ** 2 + g * c)) / denom
    ddtheta = (-u[0] * c - mp * l * dtheta ** 2 * c * s - (mc + mp) * g * s) / (l * denom)
    return x + dt * jnp.array([dpos, dtheta, ddpos, ddtheta])

goal = jnp.array([0.0, jnp.pi, 0.0, 0.0])

def cost(x, u, t):
    err = x - goal
    stage = 0.5 * 0.1 * err @ err + 0.5 * 0.01 * jnp.dot(u, u)
    final = 0.5 * 10.0 * err @ err
    return jnp.where(t == T, final, stage)

def rollout(U, x0):
    def dynamics_for_scan(x, ut):
        u, t = ut
        x_next = dynamics(x, u, t)
        return x_next, x_next
    return jnp.vstack((x0, lax.scan(dynamics_for_scan, x0, (U, jnp.arange(U.shape[0])))[1]))

def objective(U, x0):
    X = rollout(U, x0)
    Upad = jnp.pad(U, ((0, 1), (0, 0)))
    return jnp.sum(vmap(cost)(X, Upad, jnp.arange(T + 1)))

def linearize(fun):
    jac_x = jacfwd(fun)
    jac_u = jacfwd(fun, argnums=1)
    return lambda x, u, t: (jac_x(x, u, t), jac_u(x, u, t))

def quadratize(fun):
    return vmap(lambda x, u, t: (grad(fun)(x, u, t), grad(fun, 1)(x, u, t), hessian(fun)(x, u, t), hessian(fun, 1)(x, u, t), jacfwd(grad(fun), 1)(x, u, t)))

def tvlqr(Q, q, R, r, M, A, B):
    def back(carry, inp):
        V, v = carry
        Q, q, R, r, M, A, B = inp
        H = R + B.T @ V @ B + 1e-6 * jnp.eye(m)
        h = r + B.T @ v
        G = M.T + B.T @ V @ A
        K = -jax.scipy.linalg.solve(H, G, assume_a="pos")
        k = -jax.scipy.linalg.solve(H, h, assume_a="pos")
        P = Q + A.T @ V @ A + G.T @ K + K.T @ G + K.T @ H @ K
        p = q + A.T @ v + G.T @ k + K.T @ h + K.T @ H @ k
        return (0.5 * (P + P.T), p), (K, k)
    _, (Ks, ks) = lax.scan(back, (Q[-1], q[-1]), (Q[:-1], q[:-1], R[:-1], r[:-1], M[:-1], A, B), reverse=True)
    return Ks, ks

@partial(jit, static_argnames=("maxiter",))
def ilqr(x0, U, maxiter=10):
    def body(inputs):
        it, obj, U, X, delta = inputs
        Upad = jnp.pad(U, ((0, 1), (0, 0)))
        q, r, Q, R, M = quadratize(cost)(X, Upad, jnp.arange(T + 1))
        A, B = vmap(linearize(dynamics))(X[:-1], U, jnp.arange(T))
        Ks, ks = tvlqr(Q, q, R, r, M, A, B)
        def forward(alpha):
            def f(x, inp):
                xr, ur, K, k, t = inp
                u = ur + alpha * k + K @ (x - xr)
                return dynamics(x, u, t), u
            return lax.scan(f, x0, (X[:-1], U, Ks, ks, jnp.arange(T)))[1]
        alphas = 0.5 ** jnp.arange(8)
        Us = vmap(forward)(alphas)
        objs = vmap(objective, in_axes=(0, None))(Us, x0)
        objs = jnp.where(jnp.isnan(objs), jnp.inf, objs)
        best = jnp.argmin(objs)
        better = objs[best] < obj
        U = jnp.where(better, Us[best], U)
        return it + 1, jnp.minimum(obj, objs[best]), U, rollout(U, x0), obj - objs[best]
    def cond(inputs):
        it, _, _, _, delta = inputs
        return jnp.logical_and(it < maxiter, delta > 1e-4)
    obj = objective(U, x0)
    return lax.while_loop(cond, body, (0, obj, U, rollout(U, x0), jnp.inf))

x0 = jnp.zeros(n)
U0 = jnp.full((T, m), 0.1)
it, obj, U, X, delta = ilqr(x0, U0, maxiter=6)
print(it, objective(U0, x0), obj)
print(U[:5, 0], X[-1])
