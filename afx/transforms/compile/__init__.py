"""Compilation: `jit`, its cache, and how functions become graphs and compiled calls."""
