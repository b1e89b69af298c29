"""Tests of shapes, joins and pads."""
