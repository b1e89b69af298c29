"""Tests of afx.nn."""
