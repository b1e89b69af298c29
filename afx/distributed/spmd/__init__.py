"""SPMD: one function on every slot, whose slots exchange values inside of it (single program, multiple data)."""
