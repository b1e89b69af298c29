"""Code that is linked and dropped leaves nothing behind that a walk up the stack would read."""

import ctypes

import numpy as np
import pytest

import afx
from afx import export
from afx.compiler.native_backend.service.child import compile_text
from tests.compiler.native_backend.native_run import Native, run_python

X = np.linspace(-2.0, 2.0, 100)
WALKS = """
    import ctypes
    import numpy as np
    import afx
    from afx import export
    from afx.compiler.native_backend.service.child import compile_text
    from afx.compiler.native_backend.service.image import Image, make_image
    from afx.compiler.native_backend.service.link import link
    from afx.compiler.native_backend.standalone.emit import load_function
    from tests.compiler.native_backend.native_run import Native

    walk, places = ctypes.CDLL(None).backtrace, (ctypes.c_void_p * 64)()
    x = np.linspace(-2.0, 2.0, 100)
    native = Native(lambda x: afx.sum(afx.sin(x) * x), x)
    code = compile_text(native.text, "")
    exported = export.compile(afx.sin, x, name="f").object
    image = make_image(code, ["kernel_0"])
    ways = [lambda: link([native.program], code), lambda: load_function(exported, ["f"])]
    if isinstance(image, Image):
        ways.append(lambda: link([native.program], image))
    for way in ways:
        for _ in range(1000):
            linked = way()
            assert walk(places, 64) > 0
            del linked
            assert walk(places, 64) > 0
"""


def test_objects_have_no_unwind_tables() -> None:
    """No function of machine code throws, and none brings a table for those who do, in any tier, here and on ARM."""
    texts = [Native(lambda x: afx.sum(afx.sin(x) * x), X, tier=tier).text for tier in (1, 2)]
    objects = [compile_text(text, "") for text in texts]
    for target in ("host", "aarch64-unknown-linux-gnu"):
        compiled = [export.compile(afx.sin, X, target=target, name="f", bits=bits) for bits in ("target", "portable")]
        objects += [exported.object for exported in compiled]
    for code in objects:
        assert b".text" in code
        assert b".eh_frame" not in code


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "backtrace"), reason="backtrace is of glibc")
def test_stacks_are_walked_between_links() -> None:
    """The stack is walked a thousand times while code is linked and dropped, by LLVM's linker and as an image."""
    run_python(WALKS)
