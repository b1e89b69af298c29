"""Arrays: the immutable Array, its operators and methods."""
