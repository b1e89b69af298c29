"""Tests of operations of neural networks."""
