"""Random numbers: keys as values, and draws as pure functions of them."""

__all__: list[str] = []
