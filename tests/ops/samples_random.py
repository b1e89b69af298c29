"""Keys and parameters for draws."""

import numpy as np

from tests.ops.samples import Sample

KEY = np.array([1, 2], np.uint32)
KEYS = np.array([[1, 2], [1, 3], [7, 0]], np.uint32)
U8, U32, U64, F32, F64 = (np.dtype(name) for name in ("uint8", "uint32", "uint64", "float32", "float64"))
I8, I64 = np.dtype("int8"), np.dtype("int64")

SAMPLES: dict[str, list[Sample]] = {
    "random_bits": [
        Sample((key,), {"shape": shape, "dtype": dtype, "purpose": 0})
        for key, shape, dtype in [(KEY, (), U32), (KEY, (0, 2), U64), (KEYS, (2, 5), U64), (KEYS, (40,), U8)]
    ],
    "random_fold": [Sample((KEY, np.int64(5))), Sample((KEYS, np.arange(3))), Sample((KEY, np.arange(2)[:, None]))],
    "random_draw": [
        Sample((key,), {"distribution": distribution, "shape": shape, "dtype": dtype})
        for key, shape, distribution, dtype in [
            (KEY, (), "uniform", F32),
            (KEYS, (0, 2), "uniform", F64),
            (KEYS, (30,), "uniform", np.dtype("float16")),
            (KEY, (40,), "normal", F32),
            (KEYS, (2, 30), "normal", F64),
            (KEY, (3,), "normal", np.dtype("float16")),
            (KEY, (30,), "exponential", F64),
            (KEY, (30,), "logistic", F32),
            (KEYS, (30,), "laplace", F64),
            (KEY, (30,), "cauchy", F64),
        ]
    ],
    "random_integers": [
        Sample((KEY, np.int64(-3), np.int64(9)), {"shape": (2, 5), "dtype": I64}),
        Sample((KEYS, np.int64(0), np.array([1, 2, 100])), {"shape": (4, 3), "dtype": I8}),
        Sample((KEY, np.int64(0), np.int64(1)), {"shape": (), "dtype": I64}),
    ],
    "random_order": [Sample((KEY,), {"shape": (7,)}), Sample((KEYS,), {"shape": (0,)})],
    "random_between": [
        Sample((KEY, np.float64(-1.0), np.float64(2.0)), {"shape": (3,), "dtype": F64}),
        Sample((KEYS, np.array([-1.0, 14.0]), np.array([0.5, np.inf])), {"shape": (4, 2), "dtype": F64}),
        Sample((KEY, np.float64(-1.0), np.float64(2.0)), {"shape": (), "dtype": F64}),
    ],
    "random_gamma": [
        Sample((KEY, np.float64(0.3)), {"shape": (4,), "dtype": F64, "logarithm": False}, drawn=True),
        Sample((KEYS, np.array([0.2, 7.0])), {"shape": (4, 2), "dtype": F64, "logarithm": True}, drawn=True),
        Sample((KEY, np.float64(1.5)), {"shape": (), "dtype": F64, "logarithm": False}, drawn=True),
    ],
    "random_wald": [
        Sample((KEY, np.float64(0.3)), {"shape": (4,), "dtype": F64}, drawn=True),
        Sample((KEYS, np.array([0.2, 7.0])), {"shape": (4, 2), "dtype": F64}, drawn=True),
        Sample((KEY, np.float64(1.5)), {"shape": (), "dtype": F64}, drawn=True),
    ],
    "random_poisson": [
        Sample((KEY, np.float64(3.0)), {"shape": (4,)}),
        Sample((KEYS, np.array([0.5, 50.0])), {"shape": (4, 2)}),
    ],
    "random_binomial": [
        Sample((KEY, np.float64(40.0), np.float64(0.3)), {"shape": (4,)}),
        Sample((KEYS, np.array([4.0, 80.0]), np.float64(0.4)), {"shape": (4, 2)}),
    ],
    "random_orthogonal": [
        Sample((KEY,), {"shape": (3, 3), "dtype": F64}),
        Sample((KEYS,), {"shape": (2, 2, 2), "dtype": F32}),
    ],
}
