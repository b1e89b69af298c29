"""Tests of `afx.migrate`."""
