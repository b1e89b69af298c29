import jax
import jax.numpy as jnp
from jax import lax
from jax import config
config.update("jax_enable_x64", True)

# two-dimensional heat equation, explicit and Crank-Nicolson (tridiagonal) steps
nx, ny = 20, 24
x, y = jnp.mgrid[0:1:20j, 0:1:24j]
u0 = jnp.exp(-50 * ((x - 0.5) ** 2 + (y - 0.4) ** 2))
dx = 1.0 / (nx - 1)
dy = 1.0 / (ny - 1)
dt = 0.2 * min(dx, dy) ** 2

def laplacian(u):
    up = jnp.pad(u, 1, mode="edge")
    return (up[2:, 1:-1] - 2 * u + up[:-2, 1:-1]) / dx**2 + (up[1:-1, 2:] - 2 * u + up[1:-1, :-2]) / dy**2

@jax.jit
def evolve(u, kappa):
    body = lambda i, u: u + dt * kappa * laplacian(u)
    return lax.fori_loop(0, 40, body, u)

u = evolve(u0, 1.0)
print(u.max(), u.sum() * dx * dy, u[10, :4])
print(jnp.unravel_index(jnp.argmax(u), u.shape))

def thomas(a, b, c, d):
    def forward(carry, abcd):
        cp, dp = carry
        a, b, c, d = abcd
        m = b - a * cp
        cp, dp = c / m, (d - a * dp) / m
        return (cp, dp), (cp, dp)
    _, (cp, dp) = lax.scan(forward, (0.0, 0.0), (a, b, c, d))
    def backward(x, cd):
        cp, dp = cd
        x = dp - cp * x
        return x, x
    return lax.scan(backward, 0.0, (cp, dp), reverse=True)[1]

n = 16
d = jnp.sin(jnp.linspace(0, 3, n))
sol = thomas(-jnp.ones(n).at[0].set(0.0), 2.5 * jnp.ones(n), -jnp.ones(n).at[-1].set(0.0), d)
A = 2.5 * jnp.eye(n) - jnp.eye(n, k=1) - jnp.eye(n, k=-1)
print(jnp.allclose(A @ sol, d), sol[:4])
print(jnp.linalg.cond(A), jnp.linalg.slogdet(A), jnp.linalg.matrix_rank(A))
oy, ox = jnp.ogrid[:4, :5]
print((oy * ox).sum(), jnp.r_[1.0, 2.0, jnp.arange(3)], jnp.c_[jnp.arange(3), jnp.ones(3)])
k = jnp.fft.fftfreq(nx, d=dx) * 2 * jnp.pi
uh = jnp.fft.fft2(u)
spec = jnp.fft.ifft2(-(k[:, None] ** 2) * uh).real
print(spec[3, :3])
lax_u = lax.dynamic_slice(u, (5, 6), (2, 3))
print(lax_u, lax.dynamic_update_slice_in_dim(jnp.zeros(6), jnp.ones(2), 3, axis=0))
print(lax.select(x > 0.5, u, -u).sum(), lax.clamp(0.1, u, 0.2).sum())
print(jnp.gradient(u, dx, axis=0)[2, :3], jnp.trapezoid(jnp.trapezoid(u, dx=dy, axis=1), dx=dx))
