"""Benchmarks: ratios to peers, measured side by side. Run with ``python -m tests.benchmarks``."""
