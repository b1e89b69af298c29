"""Export: a function or its gradient leaves Python: as an object file with a C header, a library, WebAssembly, or text.

======================  =====================================================================================
`compile`               a function as machine code for this or another processor, with one function of C
`load`                  what such a file holds: the function's name, arguments and results
`Exported`              object, header, library; callable here, as a callback of ctypes, SciPy or numba
`Machine`, `MACHINES`   processors: LLVM's triple, processor and features, with names for common ones
`to_numpy`              one file of Python that needs NumPy alone
`to_onnx`, `from_onnx`  a model of ONNX, for other runtimes, and back as an `OnnxFunction`
`to_stablehlo`          text that XLA and its kin compile
`to_sympy`              expressions of SymPy, to be read
======================  =====================================================================================

``python -m afx.export module:function "float64[3]" --target wasm32`` does the same from a shell.
"""

from afx.export.compiled import compile, load
from afx.export.exported import MACHINES, Exported, Machine
from afx.export.numpy_text.export import to_numpy
from afx.export.onnx.from_onnx import OnnxFunction, from_onnx
from afx.export.onnx.to_onnx import to_onnx
from afx.export.stablehlo.export import to_stablehlo
from afx.export.sympy_form import to_sympy
from afx.export.traced import Slot

__all__ = [
    "MACHINES",
    "Exported",
    "Machine",
    "OnnxFunction",
    "Slot",
    "compile",
    "from_onnx",
    "load",
    "to_numpy",
    "to_onnx",
    "to_stablehlo",
    "to_sympy",
]


def __dir__() -> list[str]:
    return __all__
