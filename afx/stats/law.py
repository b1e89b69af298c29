"""Laws at their parameters: what ``stats.norm(0.0, 2.0)`` is, in trees, models and as parts of further laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from afx import pytree
from afx.core import Array, ArrayLike, DTypeLike, Shown, aval_of, broadcast_shapes, function_html
from afx.ops import asarray, astype, broadcast_to, exp
from afx.ops.indexing.index import is_sequence
from afx.pytree.static import static
from afx.random.keys import ShapeLike

__all__ = ["Law", "Observed"]

Shape = tuple[int, ...]


@attrs.frozen
class Support:
    """Where numbers of a law lie.

    Attributes:
        kind: "real", "whole", "simplex", "ordered", "correlation_factor", "correlation" or "covariance".
        low: the lower end of real numbers, None where there is none.
        high: the upper one.
    """

    kind: str = "real"
    low: Any = None
    high: Any = None


def shape_of(shape: ShapeLike) -> Shape:
    """Return a shape as a tuple."""
    return () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)


@attrs.frozen(eq=False)
class Law(Shown):
    """A law at its parameters, a tree of them; its methods are those of the family without the parameters."""

    @property
    def event(self) -> Shape:
        """The shape of one value: that of a vector or matrix, () of numbers."""
        return ()

    @property
    def batch(self) -> Shape:
        """The shape of independent values: that of the parameters."""
        raise NotImplementedError  # each kind has its own

    @property
    def shape(self) -> Shape:
        """The shape of a draw."""
        return self.batch + self.event

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density, or of the probability of whole numbers: one for each event."""
        raise NotImplementedError  # each kind has its own

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws, float[*shape, *self.shape]."""
        raise NotImplementedError  # each kind has its own

    def support(self) -> Support:
        """Return where values lie."""
        raise NotImplementedError  # each kind has its own

    def middle(self) -> Array | None:
        """Return where to begin to look at values, None where no such place is known."""
        return None

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density."""
        return self._evaluate("logpdf", x)

    def logpmf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the probability."""
        return self._evaluate("logpmf", x)

    def pdf(self, x: ArrayLike) -> Array:
        """Return the density."""
        return self._evaluate("pdf", x)

    def pmf(self, x: ArrayLike) -> Array:
        """Return the probability."""
        return self._evaluate("pmf", x)

    def _evaluate(self, name: str, x: ArrayLike) -> Array:
        """Return what the method of a name gives."""
        z = self.log_probability(x)
        return exp(z) if name[0] == "p" else z

    def expand(self, shape: ShapeLike) -> Law:
        """Return the law of independent values float[*shape, *self.shape].

        >>> import afx
        >>> afx.stats.norm(0.0, 5.0).expand(8).shape
        (8,)
        """
        return Expanded(self, shape_of(shape))

    def observe(self, data: ArrayLike | None) -> Observed:
        """Return the law with its data, None where they are to be predicted: what a model's likelihood returns."""
        return Observed(self, data)

    def astype(self, dtype: DTypeLike) -> Law:
        """Return the law with parameters of a dtype."""

        def cast(x: Any) -> Any:
            return x.astype(dtype) if isinstance(x, Frozen) else _cast(x, dtype)

        return pytree.map(cast, self, is_leaf=lambda x: isinstance(x, Frozen))


def _cast(x: Any, dtype: DTypeLike) -> Any:
    """Return a parameter in a dtype, whole numbers of Python's too."""
    y = asarray(x, dtype) if isinstance(x, int | float) or is_sequence(x) else asarray(x)
    return astype(y, dtype) if y.dtype.kind == "f" else y


@attrs.frozen(eq=False)
class Observed:
    """A law with its data.

    Attributes:
        law: of the data.
        data: as many values as the law has, None where they are to be predicted.
    """

    law: Law
    data: Any = None


@attrs.frozen(eq=False, repr=False)
class Frozen(Law):
    """A law of a family at given parameters.

    Attributes:
        family: that of `afx.stats`.
        args: its parameters.
        kwargs: those by name.
    """

    family: Any = static()
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = attrs.field(factory=dict)

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *[f"{k}={v!r}" for k, v in self.kwargs.items()]]
        return f"{self.family.__name__}({', '.join(given)})"

    def __getattr__(self, name: str) -> Any:
        """Return the family's method at these parameters."""
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self.family, name)  # such as cdf, ppf, mean, var, entropy
        args = (
            self.args[1:]
            if getattr(self.family, "is_sized", False) and name in ("logpdf", "pdf", "logpmf", "pmf")
            else self.args
        )

        def call(*xs: Any) -> Any:
            return method(*xs, *args, **self.kwargs)

        return call

    @property
    def event(self) -> Shape:
        """The shape of one value."""
        shape: Shape = self.family.shapes(*self.args, **self.kwargs)[1]
        return shape

    @property
    def batch(self) -> Shape:
        """The shape of independent values."""
        shape: Shape = self.family.shapes(*self.args, **self.kwargs)[0]
        return shape

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density or probability, one for each event."""
        z: Array = self.family.log_events(x, *self.args, **self.kwargs)
        return z

    def _evaluate(self, name: str, x: ArrayLike) -> Array:
        z: Array = self.__getattr__(name)(x)
        return z

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws, float[*shape, *self.shape]."""
        z: Array = self.family.rvs(key, shape_of(shape) + self.batch, *self.args, **self.kwargs)
        return z

    def middle(self) -> Array | None:
        """Return the median of numbers, None of vectors."""
        return None if self.event else self.median()

    def support(self) -> Support:
        """Return where values lie."""
        found: Support = self.family.support(*self.args, **self.kwargs)
        return found

    def astype(self, dtype: DTypeLike) -> Law:
        """Return the law with parameters of a dtype, Python's numbers too; not what counts axes."""
        first = 1 if getattr(self.family, "is_sized", False) else 0
        args = (*self.args[:first], *[_cast(x, dtype) for x in self.args[first:]])
        return Frozen(self.family, args, {name: _cast(x, dtype) for name, x in self.kwargs.items()})


@attrs.frozen(eq=False)
class Expanded(Law):
    """A law of independent values with further axes in front.

    Attributes:
        law: of one row.
        lead: the axes.
    """

    law: Law
    lead: Shape = static()

    @property
    def event(self) -> Shape:
        """The shape of one value."""
        return self.law.event

    @property
    def batch(self) -> Shape:
        """The shape of independent values."""
        return self.lead + self.law.batch

    def __getattr__(self, name: str) -> Any:
        """Return the law's method: moments are of all values."""
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self.law, name)

        def call(*xs: Any) -> Any:
            z = method(*xs)
            return z if xs else broadcast_to(z, self.lead + z.shape)

        return call

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density or probability, one for each event."""
        return self.law.log_probability(x)

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws."""
        return self.law.rvs(key, shape_of(shape) + self.lead)

    def middle(self) -> Array | None:
        """Return where to begin to look at values."""
        return self.law.middle()

    def support(self) -> Support:
        """Return where values lie."""
        return self.law.support()


class Vectors:
    """What families of vectors and matrices share: laws of them at parameters, and what these say of shapes.

    Attributes:
        name: under which `afx.stats` has it.
        names: of the parameters.
        defaults: of those that have one.
        axes: how many each has of its own, behind those of a batch.
        rank: the number of axes of a value.
        kind: of the support.
        is_sized: whether the first parameter is the number of components, which densities do not take.
    """

    name: str = ""
    names: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}  # nobody writes into it
    axes: tuple[int, ...] = ()
    rank: int = 1
    kind: str = "real"
    is_sized: bool = False

    @property
    def __name__(self) -> str:
        """Its name, as functions have it."""
        return self.name

    def __repr__(self) -> str:
        return f"<distribution {self.name}({', '.join(self.names[self.is_sized :])})>"

    def _repr_html_(self) -> str:
        return function_html(repr(self)[1:-1], type(self))

    def __reduce__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Frozen:
        """Return the law at these parameters.

        Raises:
            TypeError: they are not those of the law.
        """
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        if len(given) < len(args) + len(kwargs) or not set(given) <= set(self.names):
            raise TypeError(f"{self.__name__}: its parameters are {', '.join(self.names)}: got {[*given]}")
        given = {**self.defaults, **given}
        if len(given) < len(self.names):
            raise TypeError(
                f"{self.__name__}: needs {', '.join(n for n in self.names if n not in given)}: got {[*args]}"
            )
        return Frozen(self, tuple(given[name] for name in self.names))

    def shapes(self, *args: Any) -> tuple[Shape, Shape]:
        """Return the shapes of independent values and of one."""
        first = 1 if self.is_sized else 0
        shapes = [aval_of(x).shape for x in args[first:]]
        leads = [s[: max(len(s) - own, 0)] for s, own in zip(shapes, self.axes, strict=False)]
        n = int(args[0]) if first else shapes[-1][-1]
        return broadcast_shapes(leads) or (), (n,) * self.rank

    def log_events(self, x: ArrayLike, *args: Any) -> Array:
        """Return the logarithms of densities of vectors along the last axis, or of matrices."""
        density: Any = getattr(self, "logpmf", None) or getattr(self, "logpdf", None)
        z: Array = density(x, *(args[1:] if self.is_sized else args))
        return z

    def support(self, *_: Any) -> Support:
        """Return where values lie."""
        return Support(self.kind)
