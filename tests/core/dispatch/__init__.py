"""Tests of NumPy's protocols."""
