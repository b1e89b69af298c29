"""Core: abstract values, primitives, graphs, arrays and traces; it imports no op."""
