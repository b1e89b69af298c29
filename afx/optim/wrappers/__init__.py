"""Wrappers: optimizers around optimizers, which mask, average, gather or leave out steps."""
