"""Elementary functions of the second tier: polynomials on vectors, where the first one calls NumPy's loops."""
