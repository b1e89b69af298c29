"""Array creation, ranges and promotion of operands."""
