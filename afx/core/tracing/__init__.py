"""Tracing: tracers and the traces that record, differentiate and batch."""
