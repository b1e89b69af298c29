"""Fourier transforms, under the names of the array API standard and NumPy."""

__all__: list[str] = []
