"""Service: the compiling process, kept code, and its linking."""
