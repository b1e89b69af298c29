"""Function types: what type checkers see of a transformed function."""

from __future__ import annotations

from typing import ParamSpec, Protocol, TypeVar

__all__ = ["Function"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Function(Protocol[P, R_co]):
    """A function of these parameters, as ``Callable[P, R]`` is.

    Unlike that, it remains a typed function where a checker cannot tell which overload a lambda means.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it."""
        ...
