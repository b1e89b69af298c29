"""Special functions."""

__all__: list[str] = []
