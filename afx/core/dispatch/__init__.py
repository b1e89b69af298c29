"""Dispatch: NumPy's protocols on arrays."""
