"""Derivatives: gradients, Jacobians, products with them, and the passes that compute these."""
