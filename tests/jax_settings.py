"""How JAX compiles where tests have its numbers: in a quarter of the usual time, most of which it takes to optimize."""

import contextlib
from collections.abc import Iterator

JAX_SETTINGS = {  # of the environment, before it is imported
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_TRACEBACK_FILTERING": "off",  # which takes longer than a call that is refused
    "XLA_FLAGS": "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false",
}


@contextlib.contextmanager
def optimized() -> Iterator[None]:
    """Have JAX compile as its users do, inside a ``with`` block: that decides about last digits."""
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
