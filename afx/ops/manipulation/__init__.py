"""Array manipulation: shapes, axes, joining, splitting, padding."""
