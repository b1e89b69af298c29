"""Creation: arrays from data, ranges, and promotion of operands."""
