"""Tests of creation."""
