"""Elementwise ops: arithmetic, exponentials, trigonometry, comparison, selection."""
