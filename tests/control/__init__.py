"""Tests of afx.control."""
