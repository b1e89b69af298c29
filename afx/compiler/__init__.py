"""Compiler: from a graph to an executable in pure steps."""
