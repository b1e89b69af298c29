"""Tests of numerical methods."""
