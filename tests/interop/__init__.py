"""Tests of `afx.interop`."""
