"""Standalone code: native programs as functions of C, which need neither Python nor NumPy."""
