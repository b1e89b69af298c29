"""Tests of afx.random."""
