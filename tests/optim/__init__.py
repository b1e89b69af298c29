"""Promises of the optimizers."""
