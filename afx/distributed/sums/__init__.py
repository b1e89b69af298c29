"""Sums over slots: the tree that fixes their bits, buffers, and the messages of an exchange as pure data."""
