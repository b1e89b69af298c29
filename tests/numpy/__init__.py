"""Tests of `afx.numpy`."""
