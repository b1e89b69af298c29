"""Sparse derivatives: dependency, patterns, coloring and compressed Jacobians."""
