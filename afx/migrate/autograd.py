"""Names of autograd: what stands for them in afx, in NumPy, or among functions with autograd's own arguments."""

from __future__ import annotations

from afx.migrate.rewriting import Library

__all__ = ["AUTOGRAD"]

CALLS = "afx.migrate.for_autograd"

AUTOGRAD = Library(
    roots=("autograd",),
    guide="from_autograd.md",
    double=True,
    modules={
        "autograd.numpy": "afx.numpy",
        "autograd.numpy.fft": "afx.numpy.fft",
        "autograd.numpy.linalg": "afx.numpy.linalg",
        "autograd.numpy.random": "numpy.random",
        "autograd.misc.optimizers": CALLS,
        "autograd.scipy.linalg": "afx.linalg",
        "autograd.scipy.special": CALLS,
        "autograd.scipy.stats": "afx.stats",
    },
    renamed={
        "autograd": "afx",
        **{f"autograd.{name}": f"afx.{name}" for name in ("checkpoint", "hessian")},
        "autograd.grad": f"{CALLS}.grad",
        "autograd.value_and_grad": f"{CALLS}.value_and_grad",
        **{f"autograd.builtins.{name}": f"builtins.{name}" for name in ("dict", "isinstance", "list", "tuple", "type")},
        "autograd.core.getval": f"{CALLS}.getval",
        "autograd.deriv": f"{CALLS}.deriv",
        "autograd.elementwise_grad": f"{CALLS}.elementwise_grad",
        "autograd.extend.defvjp": f"{CALLS}.defvjp",
        "autograd.extend.primitive": f"{CALLS}.primitive",
        "autograd.grad_and_aux": f"{CALLS}.grad_and_aux",
        "autograd.grad_named": f"{CALLS}.grad_named",
        "autograd.hessian_tensor_product": f"{CALLS}.hessian_tensor_product",
        "autograd.hessian_vector_product": f"{CALLS}.hessian_tensor_product",
        "autograd.holomorphic_grad": f"{CALLS}.holomorphic_grad",
        "autograd.jacobian": "afx.jacrev",
        "autograd.make_hvp": f"{CALLS}.make_hvp",
        "autograd.make_jvp": f"{CALLS}.make_jvp",
        "autograd.make_vjp": f"{CALLS}.make_vjp",
        "autograd.misc.fixed_points.fixed_point": f"{CALLS}.fixed_point",
        "autograd.misc.flatten": f"{CALLS}.flatten",
        "autograd.misc.flatten.flatten": f"{CALLS}.flatten",
        "autograd.misc.flatten.flatten_func": f"{CALLS}.flatten_func",
        "autograd.scipy.integrate.odeint": f"{CALLS}.odeint",
        "autograd.scipy.signal.convolve": "afx.convolve",
        "autograd.tensor_jacobian_product": f"{CALLS}.tensor_jacobian_product",
        "autograd.test_util.check_grads": f"{CALLS}.check_grads",
        "autograd.tracer.getval": f"{CALLS}.getval",
        "autograd.vector_jacobian_product": f"{CALLS}.tensor_jacobian_product",
    },
    notes={"autograd.scipy.integrate.odeint": "steps are afx's own: what is found agrees to the tolerance"},
    advice={
        "autograd.core": "afx.is_traced(x) tells traced arrays, afx.stop_gradient(x) gives their values",
        "autograd.extend": "afx.custom_vjp(fn, forward, backward), or an op: examples/guides/extending.md",
        "autograd.make_ggnvp": "afx.jvp and afx.vjp, one after the other",
        "autograd.multigrad_dict": "afx.grad(fn, argnames=names)",
        "autograd.tracer": "afx.trace(fn)(x), a Graph of equations",
        "autograd.util": "examples/guides/extending.md tells of rules",
    },
)
