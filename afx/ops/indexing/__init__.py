"""Indexing: basic and advanced indices, updates at an index, index tricks."""
