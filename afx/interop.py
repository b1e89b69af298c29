"""Interoperation: libraries told about afx by a call: those of the array API what they cannot ask, notebooks what to show.

array_api_compat takes every array that it does not know for one that may be written, and array-api-extra's
``at(x)[i].set(v)`` then writes in place. `array_api` tells both, and the copies of both inside of SciPy and scikit-learn, that
Arrays are immutable and have ``x.at``; functions of these two that write ``x[i] = v`` themselves get a branch for Arrays, and
calls of SciPy's functions on traced Arrays go to afx's of the same name. Importing afx changes nothing in them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, cast

from afx.core import Array, Tracer
from afx.core.html import MOST_CHILDREN, tree_html
from afx.core.numpy_dispatch import UntranslatedError, holds_traced, signature_of, translate_arguments
from afx.errors import ArgumentError, MissingExtraError, TreeError
from afx.ops import asarray, astype
from afx.pytree.nodes import Node
from afx.pytree.treedef import flatten

__all__ = ["ArrayApi", "array_api", "notebook"]

CARRIED = ("array_api_compat", "array_api_extra")
# Libraries by the packages in them that may hold array_api_compat and array_api_extra, or have their names.
COPIES = {
    "array_api_compat": ("",),
    "array_api_extra": ("",),
    "scipy": ("scipy._lib", "scipy._external"),  # before SciPy 1.18, and since
    "sklearn": ("sklearn.externals",),
}
# Releases whose functions were read and run, by their first two numbers.
KNOWN = {"array_api_compat": ("1.13", "1.14", "1.15", "1.16"), "array_api_extra": ("0.9", "0.10", "0.11")}
# Functions that write into arrays which they made themselves, or return, by the library; each was read: nobody else sees
# the array that is written.
WRITING = {
    "scipy": (
        "scipy.integrate._quadrature:_cumulatively_sum_simpson_integrals",
        "scipy.interpolate._cubic:Akima1DInterpolator.__init__",
        "scipy.optimize._optimize:rosen_der",
        "scipy.optimize._optimize:rosen_hess_prod",
        "scipy.signal._signaltools:envelope",
        "scipy.signal._signaltools:hilbert",
        "scipy.signal._signaltools:resample",
    ),
    "sklearn": (
        "sklearn.discriminant_analysis:LinearDiscriminantAnalysis._solve_svd",
        "sklearn.discriminant_analysis:_class_means",
        "sklearn.linear_model._ridge:_solve_svd",
        "sklearn.metrics._classification:_prf_divide",
        "sklearn.metrics._regression:_assemble_fraction_of_explained_deviance",
        "sklearn.metrics.pairwise:manhattan_distances",
        "sklearn.preprocessing._data:_handle_zeros_in_scale",
        "sklearn.preprocessing._data:binarize",
        "sklearn.preprocessing._label:label_binarize",
        "sklearn.preprocessing._polynomial:PolynomialFeatures.transform",
        "sklearn.utils.extmath:_incremental_mean_and_var",
        "sklearn.utils.stats:_weighted_percentile",
    ),
}
NOTHING = object()
OF_COEFFICIENTS = {"BSpline": "t c k extrapolate axis", "PPoly": "c x extrapolate axis"}  # what makes a spline anew
OF_LAWS = (
    "cdf", "entropy", "isf", "logcdf", "logpdf", "logpmf", "logsf", "mean", "median", "pdf", "pmf", "ppf", "sf", "std", "var",
)  # fmt: skip


class ArrayApi:
    """What `array_api` changed: `undo` takes it back, and so does the end of a ``with`` block."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, home: Any, name: str, value: Any) -> None:
        """Put a value in the place of an attribute, and note what was there: nothing, where a class inherits it."""
        inherited = isinstance(home, type) and name not in vars(home)
        self._replaced.append((home, name, NOTHING if inherited else getattr(home, name)))
        setattr(home, name, value)

    def undo(self) -> None:
        """Put back what was there before; a second time does nothing."""
        while self._replaced:
            home, name, value = self._replaced.pop()
            if value is not NOTHING:
                setattr(home, name, value)
            elif name == "__new__":  # a class from which that was taken makes no objects any more
                home.__new__ = _making(home)
            else:
                delattr(home, name)

    def __enter__(self) -> ArrayApi:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def array_api(libraries: Sequence[str] | None = None) -> ArrayApi:
    """Let libraries of the array API know Arrays: that they are not written, when they are lazy, and ``x.at``.

    The functions of SciPy and scikit-learn in `WRITING`, among them `StandardScaler`, `Ridge(solver="svd")` and
    `LinearDiscriminantAnalysis`, which write ``x[i] = v`` into arrays of their own, make changed copies of Arrays. SciPy's
    functions, classes and laws pass traced Arrays on to afx's of the same name, which differentiate. Of other
    arrays nothing changes. Their modules are imported for it.

    Called, it holds until the result's ``undo()``; in a ``with`` block, until its end. SciPy follows the array API where the
    environment says ``SCIPY_ARRAY_API=1`` before its import, scikit-learn under ``config_context(array_api_dispatch=True)``.

    Args:
        libraries: of ``scipy``, ``sklearn``, ``array_api_compat``, ``array_api_extra``; None takes those installed.

    Raises:
        ArgumentError: no such library, or it carries a version that afx does not know.
        MissingExtraError: it is not installed.

    >>> from scipy._lib._array_api import xpx  # SciPy's copy of array-api-extra
    >>> with array_api(["scipy"]):
    ...     xpx.at(asarray([1.0, 2.0]))[0].add(5.0)
    Array([6., 2.], dtype=float32)
    """
    names = [n for n in COPIES if importlib.util.find_spec(n)] if libraries is None else list(libraries)
    changes = ArrayApi()
    try:
        for name in names:
            _teach(name, changes)
    except BaseException:
        changes.undo()
        raise
    return changes


def _teach(name: str, changes: ArrayApi) -> None:
    """Change the packages that a library carries."""
    if name not in COPIES:
        raise ArgumentError(f"interop.array_api: no such library: got {name!r}; choose of {', '.join(COPIES)}")
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(f"interop.array_api: {name} is not installed: got {name!r}; pip install it")
    carried = [name] if name in CARRIED else CARRIED
    if "array_api_compat" in carried:
        helpers = importlib.import_module(f"{_find(name, 'array_api_compat').__name__}.common._helpers")
        changes.replace(helpers, "_is_writeable_cls", _denying(helpers._is_writeable_cls, Array))
        changes.replace(helpers, "_is_lazy_cls", _denying(helpers._is_lazy_cls, Array, but=Tracer))
    if "array_api_extra" in carried:
        at = _find(name, "array_api_extra").at
        changes.replace(at, "_op", _updating(at._op))
    for path in WRITING.get(name, ()):
        _write_by_at(path, changes)
    if name == "scipy":
        from afx.scipy_families import FAMILIES

        for home, functions in FAMILIES.items():
            _answer_traced(home, functions, changes)


def _write_by_at(path: str, changes: ArrayApi) -> None:
    """Let a function, where its version has it, make changed copies of Arrays where it writes into them."""
    try:
        fn = inspect.unwrap(pkgutil.resolve_name(path))
        source = textwrap.dedent(inspect.getsource(fn))
    except (AttributeError, ImportError, OSError):
        return
    code: CodeType = fn.__code__
    around = ast.parse(f"def around({', '.join(code.co_freevars)}): pass")
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    cast("ast.FunctionDef", around.body[0]).body = [_Writes().visit(definition)]
    ast.increment_lineno(definition, code.co_firstlineno - 1)
    ast.fix_missing_locations(around)
    written = _code_within(_code_within(compile(around, code.co_filename, "exec"), "around"), definition.name)
    if written.co_freevars == code.co_freevars:
        changes.replace(fn, "__code__", written)


def _code_within(code: CodeType, name: str) -> CodeType:
    """Return the code of a function that another code defines."""
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


class _Writes(ast.NodeTransformer):
    """Gives ``x[i] = v``, and ``x[i] += v`` likewise, a branch for Arrays: ``x = x.at[i].set(v)``."""

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """Return the branch for a write of one place, everything else as it is."""
        place = node.targets[0]
        if len(node.targets) > 1 or not isinstance(place, ast.Subscript) or not isinstance(place.value, ast.Name):
            return node
        return _branch(node, place, ast.unparse(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """Return the branch for a change of one place, everything else as it is."""
        place = node.target
        if not isinstance(place, ast.Subscript) or not isinstance(place.value, ast.Name):
            return node
        value = ast.unparse(ast.BinOp(ast.parse(ast.unparse(place), mode="eval").body, node.op, node.value))
        return _branch(node, place, value)


def _branch(write: ast.stmt, place: ast.Subscript, value: str) -> ast.stmt:
    name, whole = ast.unparse(place.value), ast.unparse(place)
    update = f"{name} = {name}.at{whole[len(name) :]}.set({value})"
    (branch,) = ast.parse(f"if hasattr({name}, '__afx_leaf__'): {update}").body
    for part in ast.walk(branch):
        ast.copy_location(part, write)
    cast("ast.If", branch).orelse = [write]
    return branch


# --- Calls of SciPy's functions, classes and laws on traced Arrays, which afx's of the same name answer
def _answer_traced(home: str, functions: dict[str, Any], changes: ArrayApi) -> None:
    """Let a module's functions, classes and laws that have one of afx's beside them pass traced Arrays on to it."""
    theirs = importlib.import_module(home)
    for name, own in functions.items():
        fn, shown = getattr(theirs, name, None), f"{home}.{name}"
        if isinstance(fn, FunctionType):
            changes.replace(fn, "__dict__", {**fn.__dict__, "__signature__": inspect.signature(fn)})
            _pass_on(fn, functools.partial(_translate, fn, own, shown), changes)
        elif isinstance(fn, type):
            signature_of(fn)  # which is kept
            changes.replace(fn, "__new__", _making(fn, functools.partial(_translate, fn, own, shown)))
            if name in OF_COEFFICIENTS:
                _pass_on(fn.__call__, functools.partial(_evaluate, own, OF_COEFFICIENTS[name]), changes)
        elif home == "scipy.stats":
            kind = fn.__class__
            for method in [m for m in OF_LAWS if hasattr(own, m) and hasattr(fn, m)]:
                answer = functools.partial(_without_self, getattr(own, method))
                changes.replace(kind, method, _choosing(getattr(kind, method), answer))


def _without_self(fn: Callable[..., Any], _: Any, *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


def _translate(fn: Callable[..., Any], own: Callable[..., Any], shown: str, *args: Any, **kwargs: Any) -> Any:
    """Return what afx's function gives of SciPy's arguments."""
    values, options = translate_arguments(fn, own, args, kwargs, shown)
    return own(*values, **options)


def _evaluate(own: type, fields: str, spline: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the values of a spline of SciPy's, by afx's of the same coefficients."""
    return own(*[getattr(spline, field) for field in fields.split()])(*args, **kwargs)


def _choosing(asked: Callable[..., Any], own: Callable[..., Any]) -> Any:
    """Return a function as it was of all but traced Arrays, for which afx's own answers."""

    @functools.wraps(asked)
    def answer(*args: Any, **kwargs: Any) -> Any:
        if holds_traced((*args, *kwargs.values())):
            with contextlib.suppress(UntranslatedError):  # what afx's has no argument for may go through the namespace
                return own(*args, **kwargs)
        return asked(*args, **kwargs)

    return answer


def _pass_on(fn: Any, own: Callable[..., Any], changes: ArrayApi) -> None:
    """Give a function the code of one that passes traced Arrays on, so that who has imported it before has that too."""
    asked = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    asked.__kwdefaults__ = fn.__kwdefaults__
    # new code must have the old one's free names, read where it never comes; its constant becomes the function to call
    names = ", ".join(fn.__code__.co_freevars)
    body = f"def {fn.__name__}(*args, **kwargs):\n  answer = 'answer'\n  return answer(*args, **kwargs)\n  [{names}]"
    text = f"def around({names}):\n {body}"
    code = _code_within(_code_within(compile(text, fn.__code__.co_filename, "exec"), "around"), fn.__name__)
    constants = tuple([_choosing(asked, own) if c == "answer" else c for c in code.co_consts])
    changes.replace(fn, "__code__", code.replace(co_consts=constants))


def _making(kind: Any, own: Callable[..., Any] | None = None) -> Any:
    """Return ``__new__`` of a class, whose calls on traced Arrays make ``own`` objects, but not those of its heirs."""

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if own is not None and cls is kind and holds_traced((*args, *kwargs.values())):
            return own(*args, **kwargs)
        return object.__new__(cls)

    vars(make)["__signature__"] = inspect.signature(kind.__init__)
    return make


def _find(name: str, carried: str) -> Any:
    """Return what a library carries, wherever its version keeps that."""
    homes = [home for home in COPIES[name] if not home or importlib.util.find_spec(home)]
    places = [".".join(filter(None, (home, carried))) for home in homes]
    place = next((place for place in places if importlib.util.find_spec(place)), None)
    if place is None:
        raise ArgumentError(
            f"interop.array_api: {name} has {carried} where afx does not know it: got version "
            f"{importlib.metadata.version('scikit-learn' if name == 'sklearn' else name)}, looked in {', '.join(COPIES[name])}; "
            f"leave {name} out of libraries=, or install another version of it"
        )
    module = importlib.import_module(place)
    version: str = module.__version__
    if ".".join(version.split(".")[:2]) not in KNOWN[carried]:
        raise ArgumentError(
            f"interop.array_api: {place} has a version that afx does not know: got {version}; known are "
            f"{', '.join(KNOWN[carried])}: leave {name} out of libraries=, or install another version of it"
        )
    return module


def _denying(ask: Callable[[type], bool | None], kind: type, but: type | None = None) -> Any:
    """Return a question about classes whose answer is no for one, its subclass apart, and that is asked as before of others.

    Traced arrays are asked for their truth value: those of derivatives have one, those of `jit` and `vmap` are lazy.
    """

    @functools.wraps(ask)
    def asked(cls: type) -> bool | None:
        known = issubclass(cls, kind) and not (but is not None and issubclass(cls, but))
        return False if known else ask(cls)

    return asked


def _updating(op: Callable[..., Any]) -> Any:
    """Return ``at._op`` of array-api-extra with a branch for Arrays, whose results have the dtype that they had."""

    @functools.wraps(op)
    def updated(self: Any, at_op: Any, *args: Any, copy: bool | None, xp: Any) -> Any:
        x, index, value = self._x, self._idx, args[-1]
        if copy is False or not any(isinstance(v, Array) for v in (x, index, value)):
            return op(self, at_op, *args, copy=copy, xp=xp)
        x = asarray(x)
        update, name = x.at[index], at_op.value
        return astype(update.set(x[index] ** value) if name == "power" else getattr(update, name)(value), x.dtype)

    return updated


def notebook(show: bool = True) -> None:
    """Let IPython, as in Jupyter, show all trees as lines that open, with shapes, dtypes and counts.

    Without it afx's own layers, states, results and functions are shown so; with it frozen classes of one's own too, and
    tuples, lists and dicts that hold Arrays. What has a picture of its own keeps it.

    Args:
        show: False takes it back.

    Raises:
        ArgumentError: it is not called in IPython.
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None:
        raise ArgumentError("interop.notebook: there is no notebook: got plain Python; call it in IPython or Jupyter")
    formatter = shell.display_formatter.formatters["text/html"]
    if show:
        formatter.for_type(object, picture)
    else:
        formatter.pop(object, None)


def picture(x: Any) -> str | None:
    """Return the HTML that a value has of its own, that of a tree, or None of everything else."""
    own: Callable[[], str | None] | None
    own = importlib.import_module("IPython.utils.dir2").get_real_method(x, "_repr_html_")
    if own is not None:
        return own()
    return tree_html(x) if is_shown(x) else None


def is_shown(x: Any) -> bool:
    """Tell whether a value is a tree with leaves, and of plain containers whether one is an Array."""
    is_plain = type(x) in (tuple, list, dict)
    if isinstance(x, type) or (is_plain and len(x) > MOST_CHILDREN):
        return False
    try:
        leaves, treedef = flatten(x)
    except TreeError:
        return False
    if is_plain:
        return any(isinstance(leaf, Array) for leaf in leaves)
    return isinstance(treedef.tokens[0], Node) and bool(leaves)
