"""Solving: the ground under solvers of equations, minima, integrals and differential equations."""
