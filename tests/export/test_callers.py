"""Exported functions are called by programs of others: a C driver under sanitizers, Rust, and a page in a browser."""

from __future__ import annotations

import functools
import html
import http.server
import importlib.util
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from tests.export.cases import CASES
from tests.export.drivers import build_driver, leaves_of, run_program

pytest.importorskip("llvmlite", reason="machine code is an extra")

HAS_ZIG = importlib.util.find_spec("ziglang") is not None
SANITIZERS = ["gcc", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
HOSTILE_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324)
HOSTILE_INTEGERS = (-1, 2**62, -(2**63), 2**63 - 1, 0)


@functools.cache
def exported(name: str, target: str = "host") -> export.Exported:
    """Return an exported case, made once."""
    case = CASES[name]
    return export.compile(case.fn, *case.args, name=name, target=target)


def spoil(args: Any, rng: np.random.Generator, share: float) -> Any:
    """Return arguments of which a share of numbers is hostile: nan, infinities, extremes, indices far outside."""

    def spoil_leaf(x: Any) -> Any:
        value = np.array(x)
        choices = HOSTILE_FLOATS if value.dtype.kind == "f" else HOSTILE_INTEGERS
        with np.errstate(over="ignore"):
            drawn = np.array(rng.choice(np.array(choices), value.shape)).astype(value.dtype)
        return np.where(rng.uniform(size=value.shape) < share, drawn, value).astype(value.dtype)

    return afx.pytree.map(spoil_leaf, args)


def links_sanitizers(folder: Path) -> bool:
    """Tell whether gcc is there with its sanitizers' libraries."""
    if shutil.which("gcc") is None:
        return False
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [*SANITIZERS, "-o", str(folder / "empty"), str(folder / "empty.c")]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def test_hostile_inputs_touch_no_memory_of_others(tmp_path: Path) -> None:
    """Under sanitizers, between pages that must not be touched, any numbers give results or a code, and the program ends well."""
    if not links_sanitizers(tmp_path):
        pytest.skip("no gcc with sanitizers is installed")
    made = {name: exported(name) for name in CASES}
    program, rng = build_driver(tmp_path, made, SANITIZERS), np.random.default_rng(0)
    for share in (0.0, 0.1, 1.0):
        args = {name: spoil(case.args, rng, share) for name, case in CASES.items()}
        found = run_program([str(program)], made, args)
        assert {status for status, _ in found.values()} <= ({0} if share == 0.0 else {0, 1, 2, 3})
        if share == 1.0:
            assert found["indices"][0] == 1


# -- Rust --
RUST = """
#[link(name = "rosenbrock", kind = "static")]
extern "C" {{
    fn rosenbrock(x: *const f64, value: *mut f64, gradient: *mut f64, work: *mut u8) -> i32;
    fn rosenbrock_work_bytes() -> usize;
}}
fn main() {{
    let x = [1.0f64; {n}];
    let (mut value, mut gradient) = (-1.0f64, [1.0f64; {n}]);
    let layout = std::alloc::Layout::from_size_align(unsafe {{ rosenbrock_work_bytes() }}.max(1), 64).unwrap();
    let status = unsafe {{
        rosenbrock(x.as_ptr(), &mut value, gradient.as_mut_ptr(), std::alloc::alloc(layout))
    }};
    assert!(status == 0 && value == 0.0 && gradient.iter().all(|g| *g == 0.0));
}}
"""


@pytest.mark.skipif(shutil.which("rustc") is None or shutil.which("ar") is None, reason="no rustc is installed")
def test_rust_calls_a_function(tmp_path: Path) -> None:
    """A program of Rust links the archive; at its minimum the function and its gradient are 0."""
    exported("rosenbrock").save(tmp_path, "static")
    (tmp_path / "main.rs").write_text(RUST.format(n=CASES["rosenbrock"].args[0].size))
    probe = subprocess.run(["rustc", "--version"], capture_output=True, check=False, timeout=60)
    if probe.returncode:
        pytest.skip("rustc is installed without a toolchain")
    subprocess.run(["rustc", "-L", ".", "main.rs"], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    subprocess.run([str(tmp_path / "main")], check=True, timeout=60)


# -- a browser --
PAGE = """<!doctype html><meta charset="utf-8"><title>waiting</title><body><script type="module">
const {{ instance }} = await WebAssembly.instantiate(await (await fetch("catenary.wasm")).arrayBuffer(), {{}});
const {{ memory, __heap_base, catenary, catenary_work_bytes }} = instance.exports;
let top = Number(__heap_base.value);
const take = bytes => {{ const at = (top + 63) & ~63; top = at + bytes; return at; }};
const x = {x}, at = take(8 * x.length), value = take(8), gradient = take(8 * x.length), work = take(catenary_work_bytes());
const missing = Math.ceil((top - memory.buffer.byteLength) / 65536);
if (missing > 0) memory.grow(missing);
new Float64Array(memory.buffer, at, x.length).set(x);
const status = catenary(at, value, gradient, work);
const read = (where, n) => [...new Float64Array(memory.buffer, where, n)];
document.body.textContent = JSON.stringify([status, read(value, 1), read(gradient, x.length)]);
</script>"""


def find_browser() -> str | None:
    """Return the path of a browser that runs without a screen."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture
def folder_server(tmp_path: Path) -> Iterator[str]:
    """Serve a folder to this machine."""
    handler = functools.partial(QuietHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.skipif(find_browser() is None or not HAS_ZIG, reason="no Chromium, or no ziglang, is installed")
def test_a_page_calls_a_function(tmp_path: Path, folder_server: str) -> None:
    """In a browser, WebAssembly gives the value and the gradient up to rounding."""
    browser, e = find_browser(), exported("catenary", "wasm32")
    assert browser is not None
    e.save(tmp_path, "wasm")
    (x,) = leaves_of(CASES["catenary"].args, e)
    (tmp_path / "index.html").write_text(PAGE.format(x=json.dumps(x.tolist())))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [browser, *flags, "--virtual-time-budget=10000", "--dump-dom", f"{folder_server}/index.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    text = html.unescape(done.stdout).partition("<body>")[2].partition("</body>")[0]
    status, value, gradient = json.loads(text)
    wanted = [np.asarray(leaf) for leaf in afx.pytree.leaves(exported("catenary")(*CASES["catenary"].args))]
    assert status == 0
    np.testing.assert_allclose(value[0], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted[1], rtol=0, atol=1e-12 * np.max(np.abs(wanted[1])))
