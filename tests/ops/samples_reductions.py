"""Operands for reductions, products, windows, sorting and complex parts."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(4)
A, B, V, S = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=5), np.array(0.7)
EMPTY = np.zeros((0, 3))
C = A + 1j * RNG.normal(size=(2, 3, 4))
STRIP = RNG.normal(size=(2, 7, 4))
IMAGE = RNG.normal(size=(2, 6, 5, 3))
WINDOW = {"window": (3, 2), "stride": (2, 1), "dilation": (1, 2), "padding": ((1, 0), (0, 1))}
ROWS = RNG.normal(size=(2, 3, 4, 18))


def _convolutions(which: str) -> list[Sample]:
    """Return operands of the convolution or one of its transposes: two axes, groups, and one channel for each group."""
    moves = {k: v for k, v in WINDOW.items() if k != "window"}
    line = {"stride": (2,), "dilation": (1,), "padding": ((1, 0),)}
    found: list[Sample] = []
    for x, kernel, z, params in (
        (IMAGE, (3, 2, 3, 4), (2, 3, 4, 4), {**moves, "groups": 1}),
        (STRIP, (3, 2, 6), (2, 3, 6), {**line, "groups": 2}),
        (STRIP, (2, 1, 8), (2, 4, 8), {**line, "groups": 4}),
        (STRIP[:0], (2, 1, 8), (0, 4, 8), {**line, "groups": 4}),
    ):
        w, ct = RNG.normal(size=kernel), RNG.normal(size=z)
        found.append(
            Sample((x, w), params)
            if which == "conv"
            else Sample((ct, w), {**params, "shape": x.shape})
            if which == "conv_input"
            else Sample((x, ct), {**params, "window": kernel[:-2]})
        )
    return found


OVER_AXES = [
    Sample((A,), {"axis": (0, 2)}),
    Sample((A,), {"axis": (1,)}),
    Sample((V,), {"axis": ()}),
    Sample((S,), {"axis": ()}),
]
ALSO_EMPTY = [*OVER_AXES, Sample((EMPTY,), {"axis": (0,)})]
ONE_AXIS = [Sample((A,), {"axis": -2}), Sample((V,), {"axis": -1})]

RUNNING = [Sample((A,), {"axis": 1}), Sample((V,), {"axis": 0}), Sample((EMPTY,), {"axis": 0})]

PAIRS, SQUARES = RNG.normal(size=(2, 3, 2, 2)), RNG.normal(size=(3, 2, 1, 2, 2))
ONE_OF_TWO, ONE_OF_FOUR = np.array([[[0, 1], [1, 0], [0, 0]]] * 2), np.array([[[0, 1]], [[1, 1]], [[1, 0]]])

SAMPLES: dict[str, list[Sample]] = {
    **dict.fromkeys(("sum", "prod", "all", "any", "vector_norm"), ALSO_EMPTY),
    **dict.fromkeys(("max", "min", "max_first", "logsumexp", "softmax", "log_softmax"), OVER_AXES),
    "standardize": [
        Sample((A,), {"axis": (0, 2), "eps": 0.01}),
        Sample((A,), {"axis": (1,), "eps": 0.01}),
        Sample((EMPTY,), {"axis": (0,), "eps": 0.01}),
    ],
    **dict.fromkeys(("argmax", "argmin"), ONE_AXIS),
    "argsort": [*ONE_AXIS, Sample((A,), {"axis": -1, "count": 2})],
    "sort": [*ONE_AXIS, Sample((A,), {"axis": -1, "count": 2})],
    **{name: [Sample((C,)), Sample((np.array(1 + 2j),))] for name in ("real", "imag", "conj")},
    "join_parts": [Sample((C.real, C.imag))],
    "cumulative_sum": [
        Sample((A,), {"axis": 1, "reverse": False}),
        Sample((V,), {"axis": 0, "reverse": True}),
        Sample((EMPTY,), {"axis": 0, "reverse": False}),
    ],
    "first_of_window": [
        Sample((PAIRS, PAIRS.max(2)), {"axis": (2,)}),
        Sample((SQUARES, SQUARES.max((1, 3))), {"axis": (1, 3)}),
    ],
    "put_into_window": [
        Sample((PAIRS[:, :, 0], ONE_OF_TWO), {"axis": (2,), "window": (2,)}),
        Sample((PAIRS[:, :, 0], 2 * ONE_OF_TWO), {"axis": (1, 3), "window": (2, 3)}),
    ],
    "pick_from_window": [
        Sample((PAIRS, ONE_OF_TWO), {"axis": (2,)}),
        Sample((SQUARES, 2 * ONE_OF_FOUR), {"axis": (1, 3)}),
    ],
    **dict.fromkeys(("cummax", "cummin", "cumulative_prod"), RUNNING),
    "stop_gradient": [Sample((A,)), Sample((S,))],
    "matmul": [Sample((A, B)), Sample((A[0], B)), Sample((A, RNG.normal(size=(2, 4, 1)))), Sample((A[:, :0], B))],
    **{name: _convolutions(name) for name in ("conv", "conv_input", "conv_kernel")},
    "correlate": [
        Sample((RNG.normal(size=7), RNG.normal(size=3)), {"full": False}),
        Sample((RNG.normal(size=3), RNG.normal(size=4)), {"full": True}),
        Sample((RNG.normal(size=1), RNG.normal(size=1)), {"full": False}),
    ],
    "im2col": [Sample((IMAGE,), WINDOW)],
    "col2im": [Sample((ROWS,), {"shape": IMAGE.shape, **WINDOW})],
    "searchsorted": [Sample((np.sort(V), A), {"side": "left"}), Sample((np.sort(V), S), {"side": "right"})],
}
