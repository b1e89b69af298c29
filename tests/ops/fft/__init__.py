"""Tests of Fourier transforms."""
