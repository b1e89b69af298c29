"""Ops: one family of operations a file, each op's rules directly beside it."""
