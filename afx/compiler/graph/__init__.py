"""Graphs of the compiler: building and rewriting."""
