"""Numerical routines: histograms, interpolation, polynomials, statistics."""
