"""Tests of the transformations."""
