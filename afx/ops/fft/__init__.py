"""Fourier transforms: one axis and several."""
