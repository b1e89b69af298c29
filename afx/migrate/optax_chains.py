"""Optax's transformations: optimizers and rules of gradients with its arguments, on those of `afx.optim`, and chains of them."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np

from afx import optim, pytree, random
from afx.control.cond import cond
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.migrate.for_jax import by_name, named
from afx.migrate.for_trees import tree_map
from afx.migrate.optax_trees import vdot
from afx.ops.creation.creation import asarray, ones_like, zeros, zeros_like
from afx.ops.elementwise.arithmetic import sign as sign_, sqrt
from afx.ops.elementwise.comparison import isinf, isnan, logical_and, maximum, minimum, where
from afx.transforms.derivatives.grad import value_and_grad

# factories by Optax's arguments in their order: afx's name of one behind =, its default behind :, Optax's own behind !
_TABLE = """adabelief: adabelief learning_rate b1 b2 eps eps_root
adafactor: adafactor learning_rate:1.0 min_dim_size_to_factor=least_length decay_rate=decay decay_offset!
  multiply_by_parameter_scale=scale_by_parameters clipping_threshold=clipping momentum dtype_momentum!
  weight_decay_rate=weight_decay eps factored! weight_decay_mask=mask
adadelta: adadelta learning_rate rho eps weight_decay weight_decay_mask=mask
adagrad: adagrad learning_rate initial_accumulator_value=initial:0.1 eps:1e-7 eps_in_root:True
adam: adam learning_rate b1 b2 eps eps_root mu_dtype! nesterov
adamax: adamax learning_rate b1 b2 eps
adamaxw: adamax learning_rate b1 b2 eps weight_decay:1e-4 mask
adamw: adamw learning_rate b1 b2 eps eps_root mu_dtype! weight_decay:1e-4 mask nesterov
amsgrad: amsgrad learning_rate b1 b2 eps eps_root! mu_dtype! correct_first:True
lamb: lamb learning_rate b1 b2 eps eps_root! weight_decay mask
lars: lars learning_rate weight_decay weight_decay_mask=mask trust_coefficient=coefficient eps trust_ratio_mask=trust_mask
  momentum nesterov
lion: lion learning_rate b1 b2 mu_dtype! weight_decay:1e-3 mask
muon: muon learning_rate ns_coeffs=coefficients ns_steps=iterations beta eps weight_decay weight_decay_mask=mask mu_dtype!
  nesterov adaptive! preconditioning! adam_b1 adam_b2 adam_eps_root! adam_weight_decay adam_learning_rate
  muon_weight_dimension_numbers! consistent_rms
nadam: adam learning_rate b1 b2 eps eps_root mu_dtype! nesterov:True
nadamw: adamw learning_rate b1 b2 eps eps_root mu_dtype! weight_decay:1e-4 mask nesterov:True
novograd: novograd learning_rate b1 b2 eps eps_root! weight_decay
radam: radam learning_rate b1 b2 eps eps_root! threshold
reduce_on_plateau: reduce_on_plateau factor patience rtol atol cooldown accumulation_size=window min_scale=least
rmsprop: rmsprop learning_rate decay:0.9 eps initial_scale! eps_in_sqrt=eps_in_root:True centered momentum:None
sgd: sgd learning_rate momentum:None nesterov accumulator_dtype!
yogi: yogi learning_rate b1 b2 eps
add_decayed_weights: add_decayed_weights weight_decay=strength:0.0 mask
clip: clip_by_value max_delta=limit
clip_by_block_rms: clip_by_block_rms threshold=limit
clip_by_global_norm: clip_by_global_norm max_norm=limit
ema: ema decay debias
scale_by_adadelta: scale_by_adadelta rho eps
scale_by_adamax: scale_by_adamax b1 b2 eps
scale_by_amsgrad: scale_by_amsgrad b1 b2 eps eps_root! mu_dtype! correct_first:True
scale_by_radam: scale_by_radam b1 b2 eps eps_root! threshold
scale_by_yogi: scale_by_yogi b1 b2 eps
scale_by_param_block_rms: scale_by_param_block_rms min_scale=least
scale_by_trust_ratio: scale_by_trust_ratio min_norm! trust_coefficient=coefficient eps
scale_by_adam: scale_by_adam b1 b2 eps eps_root mu_dtype! nesterov
scale_by_lion: scale_by_lion b1 b2
scale_by_rms: scale_by_rms decay:0.9 eps initial_scale! eps_in_sqrt=eps_in_root:True
scale_by_rss: scale_by_rss initial_accumulator_value=initial:0.1 eps:1e-7 eps_in_root:True
trace: trace decay=momentum nesterov
constant_schedule: constant value
cosine_decay_schedule: cosine_decay init_value=start decay_steps=steps alpha exponent
piecewise_constant_schedule: piecewise_constant init_value=start boundaries_and_scales=factors"""
TABLE: dict[str, str] = by_name(_TABLE)
np_: Any = np  # NumPy's functions, of Arrays
__all__ = [
    "EmptyState", "GradientTransformation", "GradientTransformationExtraArgs", "MultiSteps", "add_noise", "centralize",
    "chain", "freeze", "identity", "inject_hyperparams", "keep_params_nonnegative", "lbfgs", "masked", "multi_transform",
    "noisy_sgd", "optimistic_adam", "optimistic_gradient_descent", "partition", "scale", "scale_by_backtracking_linesearch",
    "scale_by_lbfgs", "scale_by_learning_rate", "scale_by_optimistic_gradient", "scale_by_schedule", "scale_by_sign",
    "scale_by_zoom_linesearch", "selective_transform", "set_to_zero", "sign_sgd", "stateless", "stateless_with_tree_map",
    "zero_nans",
]  # fmt: skip


@attrs.frozen
class _Rule:
    """A rule of `afx.optim` whose `update` returns updates, as Optax's do."""

    rule: Any
    is_chain: bool = False

    def init(self, params: Any) -> Any:
        """Return the first state, in Optax's chain of two where there is a learning rate."""
        state = _count_in(np.int32, self.rule.init(params))
        return (state, ()) if self.is_chain else state

    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Return what is to be added to the parameters, or what the next transformation takes, and the next state."""
        updates, at = as_arrays(updates), as_arrays(params)
        at = pytree.map(zeros_like, updates) if params is None else at
        change = self.rule.descend if hasattr(self.rule, "descend") else self.rule.update
        own = _count_in(np.float64, state[0] if self.is_chain else state)
        changed, own = change(updates, own, at, extra.get("value"))
        own = _count_in(np.int32, own)
        return changed, (own, ()) if self.is_chain else own


def _count_in(dtype: Any, state: Any) -> Any:
    """Return a state whose number of steps has a dtype: Optax's are int32, and afx's float64."""
    if not (attrs.has(state.__class__) and isinstance(getattr(state, "count", None), Array)):
        return state
    return attrs.evolve(state, count=state.count.astype(dtype))


def as_arrays(tree: Any) -> Any:
    """Return a tree whose numbers of Python's are Arrays: parameters and gradients may be numbers in Optax."""
    return pytree.map(lambda x: asarray(x) if isinstance(x, (float, complex)) else x, tree)


class Pair(NamedTuple):
    """A transformation of two functions, as programs write their own."""

    init: Callable[..., Any]
    update: Callable[..., Any]


class EmptyState(NamedTuple):
    """The state of what has none."""


GradientTransformation: type = Pair
GradientTransformationExtraArgs: type = Pair


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a factory with Optax's arguments and defaults."""
    if name not in TABLE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(_make, name)


def _make(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return what afx's factory makes of Optax's arguments; what is None there is left to afx."""
    target, _, rest = TABLE[name].partition(" ")
    words = [word.partition(":") for word in rest.split()]
    given = named(name, " ".join([head.rstrip("!") for head, _, _ in words]), args, kwargs)
    known = {head.partition("=")[2] or head.partition("=")[0]: default for head, _, default in words}
    for own, default in known.items():
        if default and given.get(own) is None:
            given[own] = ast.literal_eval(default)
    dropped = [head.rstrip("!") for head, _, _ in words if head.endswith("!")]
    for word in dropped:
        value = given.pop(word, None)
        if value not in (None, 0, 0.0):
            raise ArgumentError(f"{name}: afx.optim.{target} has no {word}: got {value!r}; leave it out")
    rate = given.get("learning_rate")
    if isinstance(rate, Array):  # afx would keep it in the optimizer's own state
        if name == "lars" or (name == "rmsprop" and given.get("momentum")):
            raise ArgumentError(f"{name}: its momentum holds the learning rate: got one that changes; give a number")
        given["learning_rate"] = 1.0
        return chain(_build(target, given), scale(rate))
    return _build(target, given)


def _build(target: str, given: dict[str, Any]) -> Any:
    made = getattr(optim, target)(**{own: value for own, value in given.items() if value is not None})
    return _Rule(made, "learning_rate" in given) if hasattr(made, "init") else made


# --- Transformations of transformations: trees of leaves, each with its own rule


def chain(*parts: Any) -> Pair:
    """Return a transformation that applies one after the other."""

    def init(params: Any) -> Any:
        return tuple([part.init(params) for part in parts])

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        after = list[Any]()
        for part, own in zip(parts, state, strict=True):
            takes = extra and any(p.kind == p.VAR_KEYWORD for p in inspect.signature(part.update).parameters.values())
            updates, new = part.update(updates, own, params, **(extra if takes else {}))
            after.append(new)
        return updates, tuple(after)

    return Pair(init, update)


def stateless(change: Callable[[Any, Any], Any]) -> Pair:
    """Return a transformation of updates and parameters that has no state."""

    def init(_: Any) -> tuple[()]:
        return ()

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        return change(updates, params), state

    return Pair(init, update)


def identity() -> Pair:
    """Return what changes nothing."""
    return stateless(lambda updates, _: updates)


def set_to_zero() -> Pair:
    """Return a transformation that makes updates 0."""
    return stateless(lambda updates, _: pytree.map(zeros_like, updates))


class ZeroNansState(NamedTuple):
    """The state of `zero_nans`."""

    found_nan: Any


def zero_nans() -> Pair:
    """Return a transformation that makes 0 of nan in updates; its state tells where the last ones had some."""

    def init(params: Any) -> ZeroNansState:
        return ZeroNansState(pytree.map(lambda _: zeros((), np.bool_), params))

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        del state, params
        changed = pytree.map(lambda u: where(isnan(u), 0.0, u), updates)
        return changed, ZeroNansState(pytree.map(lambda u: isnan(u).any(), updates))

    return Pair(init, update)


def centralize() -> Pair:
    """Return a transformation that takes the mean over all axes but the first from updates that have several."""

    def change(u: Any) -> Any:
        return u - u.mean(tuple(range(1, u.ndim)), keepdims=True) if u.ndim > 1 else u

    return stateless(lambda updates, _: pytree.map(change, updates))


def scale(step_size: Any) -> Pair:
    """Return a transformation that multiplies updates."""
    return stateless(lambda updates, _: pytree.map(lambda u: u * step_size, updates))


def scale_by_learning_rate(learning_rate: Any, *, flip_sign: bool = True) -> Any:
    """Return a transformation that multiplies by a rate, or by a schedule of it, and turns the sign."""
    sign: Any = -1.0 if flip_sign else 1.0
    schedule: Any = learning_rate
    if not callable(learning_rate):
        return scale(sign * learning_rate)

    def rate(step: Any) -> Any:
        return sign * schedule(step)

    return scale_by_schedule(rate)


def scale_by_schedule(step_size_fn: Callable[[Any], Any]) -> Pair:
    """Return a transformation that multiplies by a function of the number of steps, which may be below 0 here, to go downhill."""
    rule, size = optim.scale_by_schedule(step_size_fn), optim.scale_by_schedule(lambda count: abs(step_size_fn(count)))

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        return rule.update(updates, state, params, None)

    return Pair(size.init, update)


def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> Pair:
    """Return a transformation of each update and its parameter."""
    return stateless(lambda updates, params: pytree.map(f, updates, updates if params is None else params))


def scale_by_sign() -> Pair:
    """Return signs."""
    return stateless(lambda updates, _: pytree.map(sign_, updates))


def sign_sgd(learning_rate: Any) -> Pair:
    """Return descent by signs."""
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


def keep_params_nonnegative() -> Pair:
    """Return what leads parameters to 0 at least."""
    return stateless_with_tree_map(lambda u, p: where(p + u < 0, -p, u))


def add_noise(eta: float, gamma: float, key: Any) -> Any:
    """Return a transformation that adds normal numbers of variance ``eta / (1 + step)^gamma``."""
    return _Rule(optim.add_noise(random.key(key) if isinstance(key, int) else key, eta, decay=gamma))


def noisy_sgd(learning_rate: Any, eta: float = 0.01, gamma: float = 0.55, key: Any = 0) -> Pair:
    """Return descent by noisy gradients (Neelakantan and others 2014)."""
    return chain(add_noise(eta, gamma, key), scale_by_learning_rate(learning_rate))


def scale_by_optimistic_gradient(alpha: float = 1.0, beta: float = 1.0) -> Pair:
    """Return a transformation that gives ``(α + β) g`` less β times the gradient before; of the first, itself."""

    def init(params: Any) -> Any:
        return zeros((), np.bool_), pytree.map(zeros_like, params)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        has_old, before = state
        before = pytree.map(lambda g, old: where(has_old, old, g), updates, before)
        return pytree.map(lambda g, old: (alpha + beta) * g - beta * old, updates, before), (has_old | True, updates)

    return Pair(init, update)


def optimistic_gradient_descent(learning_rate: Any, alpha: float = 1.0, beta: float = 1.0) -> Pair:
    """Return optimistic descent."""
    return chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate))


def optimistic_adam(learning_rate: float, optimism: float | None = None, *moments: Any, **options: Any) -> Pair:
    """Return optimistic Adam (Daskalakis and others 2018)."""
    share = learning_rate if optimism is None else optimism
    rule = _make("scale_by_adam", *moments, **{"nesterov": True, **options})
    return chain(rule, scale_by_optimistic_gradient(learning_rate, share), scale(-1.0))


def freeze(mask: Any) -> Pair:
    """Return a transformation that makes updates 0 where a tree of truth values says so."""
    return masked(set_to_zero(), mask)


def selective_transform(optimizer: Any, *, freeze_mask: Any) -> Pair:
    """Return an optimizer of the other leaves."""
    return partition({True: set_to_zero(), False: optimizer}, freeze_mask)


def masked(inner: Any, mask: Any) -> Pair:
    """Return a transformation of the leaves that a tree of truth values, or a function to one, chooses."""
    return partition({True: inner, False: identity()}, mask)


def _is_truth(x: Any) -> bool:
    return isinstance(x, bool)


def partition(transforms: Mapping[Any, Any], param_labels: Any) -> Pair:
    """Return a transformation that takes another one for the leaves of each label.

    Args:
        transforms: by label.
        param_labels: a tree of labels, or a function of parameters to one; a label may stand for all leaves below it.
    """

    def groups(tree: Any) -> tuple[dict[Any, list[int]], list[Any], Any]:
        leaves, treedef = pytree.flatten(tree)
        numbers = pytree.unflatten(treedef, list(map(float, range(len(leaves)))))  # whole ones in fields are no leaves
        found: dict[Any, list[int]] = {label: [] for label in transforms}

        def note(label: Any, below: Any) -> Any:
            found[label].extend(map(int, pytree.leaves(below)))
            return label

        labels = param_labels(tree) if callable(param_labels) else param_labels
        tree_map(note, labels, numbers, is_leaf=_is_truth)
        return found, leaves, treedef

    def init(params: Any) -> Any:
        places, leaves, _ = groups(params)
        return {label: transforms[label].init([leaves[k] for k in at]) for label, at in places.items()}

    def update(updates: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        places, leaves, treedef = groups(updates)
        known = pytree.leaves(params) if params is not None else None
        after = dict[Any, Any]()
        for label, at in places.items():
            own = [known[k] for k in at] if known is not None else None
            changed, after[label] = transforms[label].update([leaves[k] for k in at], state[label], own)
            for k, leaf in zip(at, changed, strict=True):
                leaves[k] = leaf
        return pytree.unflatten(treedef, leaves), after

    return Pair(init, update)


multi_transform: Callable[..., Pair] = partition


class InjectHyperparamsState(NamedTuple):
    """The state of `inject_hyperparams`; ``hyperparams`` may be set between steps."""

    count: Any
    hyperparams: dict[str, Any]
    inner_state: Any


def _signature_of(factory: Any) -> inspect.Signature:
    """Return the signature of a factory, for those of the table with Optax's defaults."""
    if getattr(factory, "func", None) is not _make:
        return inspect.signature(factory)
    target, _, rest = TABLE[factory.args[0]].partition(" ")
    known, parameters = inspect.signature(getattr(optim, target)).parameters, list[inspect.Parameter]()
    for head, _, default in [word.partition(":") for word in rest.split()]:
        name, _, own = head.rstrip("!").partition("=")
        value: Any = ast.literal_eval(default) if default else getattr(known.get(own or name), "default", None)
        value = None if value is inspect.Parameter.empty else value
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value))
    return inspect.Signature(parameters)


def inject_hyperparams(inner_factory: Callable[..., Any], static_args: Any = (), **_: Any) -> Callable[..., Pair]:
    """Return a factory whose numbers, defaults too, and values of schedules stand in the state."""

    def make(*args: Any, **kwargs: Any) -> Pair:
        bound = _signature_of(inner_factory).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments | bound.arguments.pop("kwargs", {})
        fixed = {"key", *([static_args] if isinstance(static_args, str) else static_args)}
        moving = {n: v for n, v in given.items() if n not in fixed and not isinstance(v, bool)}
        schedules: dict[str, Any] = {name: value for name, value in moving.items() if callable(value)}
        numbers = {n: asarray(v) for n, v in moving.items() if hasattr(v, "__float__")}
        rest = {name: value for name, value in given.items() if name not in schedules and name not in numbers}

        def init(params: Any) -> Any:
            start = zeros((), np.int64)
            values = numbers | {name: asarray(schedule(start)) for name, schedule in schedules.items()}
            return InjectHyperparamsState(start, values, inner_factory(**rest, **values).init(params))

        def update(updates: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
            values = state.hyperparams | {name: s(state.count) for name, s in schedules.items()}
            values = {name: asarray(value) for name, value in values.items()}
            updates, inner = inner_factory(**rest, **values).update(updates, state.inner_state, params)
            return updates, InjectHyperparamsState(state.count + 1, values, inner)

        return Pair(init, update)

    return make


class MultiStepsState(NamedTuple):
    """The state of `MultiSteps`."""

    mini_step: Any
    gradient_step: Any
    inner_opt_state: Any
    acc_grads: Any


class MultiSteps:
    """An optimizer that steps by the mean, or sum, of several gradients, kept in float32; its other updates are 0."""

    def __init__(
        self, opt: Any, every_k_schedule: Any, use_grad_mean: bool = True, *, accumulator_dtype: Any = np.float32
    ) -> None:
        self._opt, self._every, self._is_mean, self._dtype = opt, every_k_schedule, use_grad_mean, accumulator_dtype

    def init(self, params: Any) -> MultiStepsState:
        """Return the first state."""
        none = zeros((), np.int32)
        gathered = pytree.map(lambda p: zeros(np.shape(p), self._dtype), params)
        return MultiStepsState(none, none, self._opt.init(params), gathered)

    def update(self, updates: Any, state: MultiStepsState, params: Any = None, **_: Any) -> tuple[Any, Any]:
        """Return zeros, or the step after the last of some gradients."""
        every = self._every(state.gradient_step) if callable(self._every) else self._every
        count = state.mini_step + 1 if self._is_mean else 1
        gathered = pytree.map(lambda a, g: a + (g - a if self._is_mean else g) / count, state.acc_grads, updates)
        is_last = state.mini_step + 1 == every
        stepped, inner = self._opt.update(gathered, state.inner_opt_state, params)

        def choose(new: Any, old: Any) -> Any:
            return pytree.map(lambda a, b: where(is_last, a, b), new, old)

        nothing = pytree.map(zeros_like, gathered)
        after = MultiStepsState(
            where(is_last, 0, state.mini_step + 1),
            state.gradient_step + is_last,
            choose(inner, state.inner_opt_state),
            pytree.map(lambda new, old: where(is_last, 0, new).astype(old.dtype), gathered, state.acc_grads),
        )
        return choose(stepped, nothing), after

    def has_updated(self, state: MultiStepsState) -> Array:
        """Tell whether the last call made a step."""
        return logical_and(state.mini_step == 0, state.gradient_step > 0)

    def gradient_transformation(self) -> Pair:
        """Return the two functions."""
        return Pair(self.init, self.update)


# --- Line searches, from ``update(…, value=value, grad=grad, value_fn=fn)``, and limited-memory BFGS: Optax's, number by number


class LinesearchInfo(NamedTuple):
    """How a search ended."""

    num_linesearch_steps: Any
    decrease_error: Any
    curvature_error: Any = None


class LinesearchState(NamedTuple):
    """The state of a line search: the last length, and what is known at the parameters that it leads to."""

    learning_rate: Any
    value: Any
    grad: Any
    info: LinesearchInfo


class Probe(NamedTuple):
    """A point of a ray: how far, and value, slope and gradient there."""

    far: Any
    value: Any
    slope: Any = 0.0
    grad: Any = None


class Search(NamedTuple):
    """A search of Nocedal & Wright 2006, algorithms 3.5 and 3.6: the last point, the interval, and the best point."""

    count: Any
    at: Probe
    low: Probe
    high: Probe
    other: Probe
    safe: Probe
    errors: tuple[Any, Any]
    is_between: Any
    ends: Any
    fails: Any


def _positive(error: Any) -> Any:
    return where(isnan(error), np.inf, maximum(error, 0.0))


def _start(params: Any, grad: Any, error: Any = None) -> LinesearchState:
    """Return the state before the first search; a search without gradients has no second error."""
    one = ones_like(pytree.leaves(params)[0], shape=())
    return LinesearchState(one, one * np.inf, grad, LinesearchInfo(asarray(0), one * np.inf, error and one * error))


def scale_by_backtracking_linesearch(
    max_backtracking_steps: int,
    slope_rtol: float = 1e-4,
    decrease_factor: float = 0.8,
    increase_factor: float = 1.5,
    max_learning_rate: float = 1.0,
    atol: float = 0.0,
    rtol: float = 0.0,
    store_grad: bool = False,
    verbose: bool = False,
) -> Pair:
    """Return updates times the first length of a falling sequence that lowers the value enough (Armijo's rule)."""
    del verbose

    def init(params: Any) -> LinesearchState:
        return _start(params, pytree.map(zeros_like, params) if store_grad else None)

    def update(
        updates: Any, state: LinesearchState, params: Any = None, *, value: Any, grad: Any, value_fn: Any, **extra: Any
    ) -> Any:
        slope = vdot(updates, grad)

        def ahead(far: Any) -> Any:
            return pytree.map(lambda p, u: p + far * u, params, updates)

        def shorten(s: Any) -> Any:
            count, far, _, _ = s
            far = where(count > 0, decrease_factor * far, far)
            new = asarray(value_fn(ahead(far), **extra))
            return count + 1, far, new, _positive(new - (1.0 + rtol) * value - far * slope_rtol * slope)

        first = minimum(increase_factor * state.learning_rate, max_learning_rate)
        begin = asarray(0), first, asarray(value), ones_like(first) * np.inf
        count, far, new, error = while_loop(lambda s: (s[3] > atol) & (s[0] <= max_backtracking_steps), shorten, begin)
        slopes = value_and_grad(value_fn)(ahead(far), **extra)[1] if store_grad else None
        far = where(isinf(error), 0.0, far)
        return pytree.map(lambda u: far * u, updates), LinesearchState(far, new, slopes, LinesearchInfo(count, error))

    return Pair(init, update)


@attrs.frozen
class ZoomLinesearch:
    """Updates times a length that meets the strong Wolfe conditions, or those of Hager & Zhang 2006 near a minimum."""

    max_linesearch_steps: int
    max_learning_rate: float | None = None
    tol: float = 0.0
    increase_factor: float = 2.0
    slope_rtol: float = 1e-4
    curv_rtol: float = 0.9
    approx_dec_rtol: float | None = 1e-6
    stepsize_precision: float = 1e-5
    initial_guess_strategy: str = "keep"
    verbose: bool = False

    def init(self, params: Any) -> LinesearchState:
        """Return the state before the first search."""
        return _start(params, pytree.map(zeros_like, params), np.inf)

    def update(
        self,
        updates: Any,
        state: LinesearchState,
        params: Any = None,
        *,
        value: Any,
        grad: Any,
        value_fn: Any,
        **extra: Any,
    ) -> tuple[Any, LinesearchState]:
        """Return updates of this length, and the state that has value and gradient where they lead."""

        def probe(far: Any) -> Probe:
            there = pytree.map(lambda p, u: p + far * u, params, updates)
            new, slopes = value_and_grad(value_fn)(there, **extra)
            return Probe(far, new, vdot(slopes, updates), slopes)

        origin = Probe(zeros_like(state.learning_rate), asarray(value), vdot(updates, grad), grad)
        guess = state.learning_rate if self.initial_guess_strategy == "keep" else 1.0
        no, most = asarray(False), asarray(np.inf, origin.value.dtype)

        def advance(s: Search) -> Search:
            return cond(s.is_between, narrow, widen, s)

        def widen(s: Search) -> Search:
            far = where(s.count == 0, guess, self.increase_factor * s.at.far)
            return self._widen(s, far, probe(minimum(far, self._limit)), origin)

        def narrow(s: Search) -> Search:
            return self._narrow(s, probe(_between(s.low, s.high, s.other)), origin)

        begin = Search(asarray(0), origin, origin, origin, origin, origin, (most, most), no, no, no)
        s = while_loop(lambda s: ~(s.ends | s.fails), advance, begin)
        end = _choose(s.fails & ((s.safe.far > 0) | isinf(s.errors[0])), s.safe, s.at)
        after = LinesearchState(end.far, end.value, end.grad, LinesearchInfo(s.count, *s.errors))
        return pytree.map(lambda u: end.far * u, updates), after

    @property
    def _limit(self) -> float:
        return np.inf if self.max_learning_rate is None else self.max_learning_rate

    def _judge(self, new: Probe, origin: Probe) -> tuple[Any, Any]:
        """Return by how much a point misses the decrease and the flatness that are asked for."""
        rise = new.value - origin.value
        decrease = rise - self.slope_rtol * new.far * origin.slope
        if self.approx_dec_rtol is not None:
            excess = rise - self.approx_dec_rtol * np_.abs(origin.value)
            decrease = minimum(maximum(new.slope - (2 * self.slope_rtol - 1.0) * origin.slope, excess), decrease)
        return _positive(decrease), _positive(np_.abs(new.slope) - self.curv_rtol * np_.abs(origin.slope))

    def _widen(self, s: Search, far: Any, new: Probe, origin: Probe) -> Search:
        """Return the search after a longer step, whose end may be that of an interval."""
        errors = self._judge(new, origin)
        is_good = maximum(*errors) <= self.tol
        is_above = (errors[0] > 0) | ((new.value >= s.at.value) & (s.count > 0))
        turns = (new.slope >= 0) & ~is_above
        low, high = _choose(turns, (new, s.at), (s.at, new))
        is_between = is_above | turns | is_good
        ends = is_good | ((far >= self._limit) & ~is_between)
        fails = (s.count + 1 >= self.max_linesearch_steps) & ~ends
        safe = _choose(errors[0] <= self.tol, new, s.safe)
        return Search(s.count + 1, new, low, high, low, safe, errors, is_between, ends, fails)

    def _narrow(self, s: Search, new: Probe, origin: Probe) -> Search:
        """Return the search after a point between the ends of its interval, which replaces one of them."""
        errors = self._judge(new, origin)
        ends = maximum(*errors) <= self.tol
        safe = _choose((errors[0] <= self.tol) & (new.value < s.safe.value), new, s.safe)
        is_above = (errors[0] > 0) | (new.value >= s.low.value)
        is_past = (new.slope * (s.high.far - s.low.far) >= 0) & ~is_above
        is_short = np_.abs(s.high.far - s.low.far) <= self.stepsize_precision
        fails = ((s.count + 1 >= self.max_linesearch_steps) | (is_short & (safe.far > 0))) & ~ends
        high = _choose(is_above, new, _choose(is_past, s.low, s.high))
        low, other = _choose(is_above, s.low, new), _choose(is_above | is_past, s.high, s.low)
        return Search(s.count + 1, new, low, high, other, safe, errors, s.is_between, ends, fails)


scale_by_zoom_linesearch: type = ZoomLinesearch


def _choose(condition: Any, first: Any, second: Any) -> Any:
    return pytree.map(functools.partial(where, condition), first, second)


def _between(low: Probe, high: Probe, other: Probe) -> Any:
    """Return where the cubic through three points is least, or the parabola through two, or the middle of the interval."""
    gap, off = high.far - low.far, other.far - low.far
    bend, bend_off = [p.value - low.value - low.slope * d for p, d in ((high, gap), (other, off))]
    with np.errstate(all="ignore"):  # of points that coincide
        size = (gap * off) ** 2 * (gap - off)
        a, b = (off**2 * bend - gap**2 * bend_off) / size, (gap**3 * bend_off - off**3 * bend) / size
        cubic = low.far + (-b + sqrt(b * b - 3.0 * a * low.slope)) / (3.0 * a)
        parabola = low.far - low.slope / (2.0 * (bend / gap**2))
    far, (left, right) = (low.far + high.far) / 2.0, (minimum(low.far, high.far), maximum(low.far, high.far))
    for trial, share in ((parabola, 0.1), (cubic, 0.2)):
        margin = share * np_.abs(gap)
        far = where((trial > left + margin) & (trial < right - margin), trial, far)
    return far


class LbfgsState(NamedTuple):
    """The state of `scale_by_lbfgs`: pairs of differences, as rows."""

    count: Any
    params: Any
    updates: Any
    diff_params_memory: Any
    diff_updates_memory: Any
    weights_memory: Any


def scale_by_lbfgs(memory_size: int = 10, scale_init_precond: bool = True) -> Pair:
    """Return gradients times an estimate of the inverse Hessian (Nocedal & Wright 2006, algorithm 7.4)."""

    def init(params: Any) -> LbfgsState:
        x, none = pytree.ravel(params)[0], pytree.map(zeros_like, params)
        rows = zeros((memory_size, x.size), x.dtype)
        return LbfgsState(zeros((), np.int32), none, none, rows, rows, rows[:, 0])

    def update(updates: Any, state: LbfgsState, params: Any = None) -> Any:
        g, unravel = pytree.ravel(updates)
        x, last, before = [pytree.ravel(tree)[0] for tree in (params, state.params, state.updates)]
        is_later = state.count > 0
        step, change = [where(is_later, d, 0.0) for d in (x - last, g - before)]
        curve, square = step @ change, change @ change
        pair = step, change, where(curve == 0, 0.0, 1.0 / where(curve == 0, 1.0, curve))
        place = (state.count - 1) % memory_size
        memory = [kept.at[place].set(new) for kept, new in zip(state[3:], pair, strict=True)]
        order = (state.count + np.arange(memory_size)) % memory_size
        rows = list(zip(*[kept[order] for kept in memory], strict=True))
        z, shares = g, list[Any]()
        for s, y, weight in reversed(rows):
            shares.append(weight * (s @ z))
            z = z - shares[-1] * y
        if scale_init_precond:
            size = where(square > 0, curve / where(square > 0, square, 1.0), 1.0)
            z = where(is_later, size, minimum(1.0, 1.0 / sqrt(g @ g))) * z
        for (s, y, weight), share in zip(rows, reversed(shares), strict=True):
            z = z + (share - weight * (y @ z)) * s
        return unravel(z), LbfgsState(state.count + 1, params, updates, *memory)

    return Pair(init, update)


def lbfgs(
    learning_rate: Any = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: Any = ZoomLinesearch(20, initial_guess_strategy="one"),
) -> Pair:
    """Return limited-memory BFGS with a line search."""
    rate = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    return chain(scale_by_lbfgs(memory_size, scale_init_precond), rate, linesearch or identity())
