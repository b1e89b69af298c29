"""How JAX compiles where tests have its numbers: in a quarter of the usual time, most of which it takes to optimize."""

JAX_SETTINGS = {  # of the environment, before it is imported
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_TRACEBACK_FILTERING": "off",  # of the errors that calls are tried for: a fifth of the rest
    "XLA_FLAGS": "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false",
}
