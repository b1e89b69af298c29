"""Methods: steps of ordinary differential equations, by family."""
