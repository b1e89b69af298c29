"""Tests of sorting and sets."""
