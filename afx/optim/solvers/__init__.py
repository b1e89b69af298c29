"""Solvers: minima, least squares, roots and fixed points of functions of trees, with implicit derivatives."""
