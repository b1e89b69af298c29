"""Forged files: whatever a header says, `afx.io.load` calls nothing that the file names, and raises `FileFormatError`."""

import base64
import collections
import enum
import functools
import json
import os
import random
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import afx
from afx import io, nn, optim
from afx.core import primitive
from afx.errors import FileFormatError
from afx.io import archive, naming
from tests.core.test_pickling import X, flow, wave

FILES = 2000
HERE = __name__
HARMLESS = {"builtins.id", "object.__getattr__", "sys._getframe", "sys.setprofile"}
ARRAYS = {"x": np.ones(2), "n": np.arange(3), "s": np.array(1.5), "t": np.array(["a"])}


def canary(*args: Any, **kwargs: Any) -> Any:
    """Stand for a function of the program that no file may reach."""
    raise AssertionError(f"a file called a function: {args}, {kwargs}")


@attrs.frozen
class Trap:
    """A class of the program whose own code no file may run."""

    x: Any = None

    def __attrs_post_init__(self) -> None:
        canary(self)

    def __call__(self, *args: Any) -> Any:
        return canary(*args)


class Choice(enum.Enum):
    """An enumeration of the program."""

    ONE = 1


PRIVATE = [
    "os:system",
    "subprocess:run",
    "builtins:eval",
    "builtins:exec",
    "builtins:getattr",
    "importlib:import_module",
    "antigravity:fly",
    "this:s",
    "numpy:load",
    "numpy:fromfile",
    "numpy.lib._npyio_impl:load",
    f"{HERE}:canary",
    f"{HERE}:Trap",
    f"{HERE}:Choice",
    "__main__:main",
    "afx:jit",
    "afx:grad",
    "afx:set_backend",
    "afx:from_dlpack",
    "afx:custom_vjp",
    "afx:evaluate",
    "afx.io:save",
    "afx.io:load",
    "afx.io.naming:importlib.import_module",
    "afx.io.files:save",
    "afx.io.archive:write_archive",
    "afx.core.primitive:lookup",
    "afx.compiler.numpy_backend.exec:_compiled",
    "afx.compiler.executable:make_plan",
    "afx.runtime.thread_pool:get_threads",
    "afx.transforms.custom_call:CustomRules",
    "afx.transforms.custom_call:custom_call",
    "afx.control.while_loop:WhileLoop",
    "afx.ops.linalg.matrix_functions:Power",
    "afx.ops.linalg.matrix_functions:Sampled",
    "afx.ops.callback:callback",
    "afx.ops.callback:Callback",
    "afx.distributed:map_over",
    "afx.train:resume",
    "afx.data:load_npz",
    "afx.plot:loss_curve",
    "afx.testing:check_grads",
    "afx.optim.clipping:_ClipByGlobalNorm",
    "afx.optim.solvers.scipy_bridge:importlib.import_module",
    "afx.nn:layer",
    "afx.nn:__doc__",
    "afx.nn:Linear.create",
    "afx.nn:no_such_layer",
    "afx:",
    ":",
    "",
]


class Forger:
    """Draws headers from the format's own grammar, with functions wherever a value may stand."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.public = sorted(naming.public_names())
        self.primitives = [p.name for p in primitive.primitives()]
        self.kinds: list[Callable[[int], Any]] = [
            lambda _: self.draw.choice([None, True, -1, 0, 3, 10**30, "", "word", "__import__('os').system('x')"]),
            lambda _: {"float": self.draw.choice(["0.5", "nan", "x", 1, [], "1e999"])},
            lambda _: {"complex": self.draw.choice([["1", "2"], ["1"], [], "12", None])},
            lambda _: {"bytes": self.draw.choice([base64.b64encode(b"ab").decode(), "?", 3])},
            lambda _: {"dtype": self.draw.choice(["<f4", "|O", "i4,f8", "bogus", 3, "V8"])},
            lambda _: {self.draw.choice(["array", "scalar"]): self.draw.choice([*ARRAYS, "missing", 0, None])},
            lambda depth: {self.draw.choice(["tuple", "frozenset"]): self.values(depth)},
            lambda _: {"range": self.draw.choice([[0, 3, 1], [0, 1, 0], [1], "abc", [None]])},
            lambda _: {self.draw.choice(["class", "function"]): self.name()},
            lambda _: {"enum": self.name(), "name": self.draw.choice(["ONE", "__class__", "CONVERGED", 0])},
            lambda depth: {"record": self.name(), "values": self.fields(depth)},
            lambda _: {"primitive": self.draw.choice([*self.primitives[:5], "custom_call", "callback", "no_such", 3])},
            lambda depth: {"graph": [["<f4", [2], False]], **self.rest_of_graph(depth)},
            lambda depth: {"program": {"graph": [["<f4", [2], False]], **self.rest_of_graph(depth)}},
            self.partial,
            lambda depth: {"unknown": self.value(depth)},
            self.values,
        ]

    def name(self) -> Any:
        """Name something: public, private, or not a name at all."""
        return self.draw.choice([self.draw.choice(self.public), *[self.draw.choice(PRIVATE)] * 2, 3, None][:4])

    def value(self, depth: int) -> Any:
        """Make a value."""
        return self.draw.choice(self.kinds[:6] if depth <= 0 else self.kinds)(depth - 1)

    def values(self, depth: int) -> Any:
        """Make a list of values, or what stands in its place."""
        if self.draw.random() < 0.1:
            return self.draw.choice([None, 3, "text", {}])
        return [self.value(depth) for _ in range(self.draw.randrange(3))]

    def fields(self, depth: int) -> Any:
        """Make fields by name, or what stands in their place."""
        if self.draw.random() < 0.1:
            return self.draw.choice([None, 3, [], [1]])
        names = ["x", "weight", "bias", "rate", "fn", "name", "rules", "p", "derivative", "graph", "backward"]
        return {name: self.value(depth) for name in self.draw.sample(names, self.draw.randrange(4))}

    def partial(self, depth: int) -> Any:
        """Make a partial function of anything."""
        function = self.draw.choice([{"function": self.name()}, {"class": self.name()}, self.value(depth)])
        return {"partial": function, "args": self.values(depth), "keywords": self.fields(depth)}

    def rest_of_graph(self, depth: int) -> dict[str, Any]:
        """Make constants, equations and outputs."""
        equations = [self.equation(depth) for _ in range(self.draw.randrange(3))]
        outputs = self.draw.choice(
            [[0], [-1], [9], [True], [{"literal": self.value(depth), "aval": ["<f4", [], True]}]]
        )
        return {"constants": self.draw.choice([[], ["x"], ["t"], [3]]), "equations": equations, "outputs": outputs}

    def equation(self, depth: int) -> Any:
        """Make an equation."""
        odd = [
            "custom_call",
            "callback",
            "scan",
            "while_loop",
            "switch",
            "call",
            "hermitian_function",
            "sin",
            "sin",
            "reshape",
        ]
        known = {
            "custom_call": ["rules"],
            "callback": ["call", "axes"],
            "scan": ["body", "counts", "length", "reverse"],
            "while_loop": ["loop"],
            "switch": ["branches"],
            "call": ["program"],
            "hermitian_function": ["fn"],
            "sin": [],
            "reshape": ["shape"],
        }
        op = self.draw.choice([*odd, self.draw.choice(self.primitives)])
        keys = known.get(op, ["axis", "shape", "index", "dtype", "fn", "axis=0); x("])
        ignored = self.draw.choice([[], ["divide"], ["all=__import__('os').system('x'), divide"], 3])
        return {
            "primitive": op,
            "inputs": self.draw.choice(
                [[0], [0, 0], [-1], [True], [{"literal": self.value(depth), "aval": ["<f4", [2], 1]}]]
            ),
            "outputs": [["<f4", self.draw.choice([[2], [-1], [2.0], "ab", [1 << 60]]), False]],
            "params": {key: self.value(depth) for key in keys},
            "ignored_fp_errors": ignored,
        }

    def item(self) -> Any:
        """Make an item of a structure."""
        depth = self.draw.choice([0, 1, 2, 3, 3])
        return self.draw.choice(
            [
                lambda: ["static", self.value(depth)],
                lambda: ["leaf", self.draw.choice(["array", "ndarray", "scalar", "number", "x"]), self.value(depth)],
                lambda: ["leaf", self.draw.choice(["array", "ndarray", "scalar"]), "x"],
                lambda: [self.draw.choice(["tuple", "list"]), self.draw.choice([0, 1, 2, -1, True, "2"])],
                lambda: ["dict", self.values(depth)],
                lambda: ["class", self.name(), self.draw.choice([["weight", "bias"], [], "ab", [[]], None])],
                lambda: self.value(depth),
            ]
        )()

    def content(self) -> Any:
        """Make what an archive holds beside its arrays."""
        if self.draw.random() < 0.2:
            return {"graph": self.value(4)}
        count = self.draw.randrange(4)
        return {"tree": [["list", count], *[self.item() for _ in range(count)]]}

    def mutate(self, content: Any) -> Any:
        """Put a value in the place of a part of a content that `save` wrote, or take it away."""
        changed = json.loads(json.dumps(content))
        spots = list(_spots(changed))
        for holder, key in self.draw.sample(spots, min(len(spots), self.draw.choice([1, 1, 2, 3]))):
            if self.draw.random() < 0.1 and isinstance(holder, dict):
                holder.pop(key, None)
            else:
                holder[key] = self.draw.choice([self.value(3), {"function": self.name()}, self.name()])
        return changed


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the places within a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(pairs):
        yield value, key
        yield from _spots(item)


class Watch:
    """Notes calls of what files may name, and what the interpreter is asked to do, while a file is read."""

    def __init__(self) -> None:
        things = [naming.find_public(name) for name in naming.public_names()]
        self.codes = {x.__code__: x for x in [*things, canary, io.save] if isinstance(x, types.FunctionType)}
        for cls in [x for x in [*things, Trap] if isinstance(x, type)]:
            own = [vars(cls).get(name) for name in ("__init__", "__call__", "__attrs_post_init__", "create", "__new__")]
            self.codes.update({f.__code__: f for f in own if isinstance(f, types.FunctionType)})
        self.is_on = False
        self.thread = threading.get_ident()  # others may receive machine code meanwhile
        self.found: list[Any] = []
        sys.addaudithook(self.audit)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Note an event that reading a file has no need of."""
        reads = event == "open" and Path(str(args[0])).name == "forged.npz" and args[1] in ("rb", "r", None)
        if self.is_on and threading.get_ident() == self.thread and not reads and event not in HARMLESS:
            self.found.append((event, args))

    def profile(self, frame: types.FrameType, event: str, _: Any) -> None:
        """Note a call of a function that a file may name."""
        if event == "call" and frame.f_code in self.codes and not _is_tracing(frame):
            self.found.append(self.codes[frame.f_code])

    def load(self, path: Path) -> bool:
        """Load a file under watch, and tell whether it is taken."""
        self.is_on = True
        sys.setprofile(self.profile)
        try:
            io.load(path)
        except FileFormatError:
            return False
        finally:
            sys.setprofile(None)
            self.is_on = False
        return True


def _is_tracing(frame: types.FrameType | None) -> bool:
    """Tell whether afx itself calls an op for the derivative of a loop, which the rule of its equation makes anew."""
    while frame is not None:
        if frame.f_code.co_name in ("_back_control", "abstract_eval", "_abstract"):
            return True
        frame = frame.f_back
    return False


@functools.cache
def watch() -> Watch:
    """Return the one watch: audit hooks stay for good."""
    return Watch()


def saved(folder: Path) -> list[tuple[Any, dict[str, Any]]]:
    """Return contents and arrays that `save` writes."""
    layer = nn.Sequential(
        nn.Linear.create(afx.random.key(0), 3, 2), nn.relu, functools.partial(nn.leaky_relu, slope=0.1)
    )
    graphs = [afx.trace(wave)(X), afx.trace(flow)(X), afx.trace(afx.linalg.sqrtm)(afx.eye(2))]
    trees = [layer, optim.adam(0.1).init(layer), {"a": [1, 2.0], 3: (None, "text")}, *graphs]
    for k, tree in enumerate(trees):
        io.save(folder / f"{k}.npz", tree)
    return [archive.read_archive(folder / f"{k}.npz") for k in range(len(trees))]


def test_forged_files_call_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,000 forged files each is read without a call of what it names, or refused with `FileFormatError`."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk has no part in it
    forger, guard, models = Forger(0), watch(), saved(tmp_path)
    taken = 0
    for k in range(FILES):
        base, arrays = forger.draw.choice(models)
        content = forger.content() if k % 2 else forger.mutate(base)
        (tmp_path / "forged.npz").unlink(missing_ok=True)  # a new file is quicker than one that is replaced
        archive.write_archive(tmp_path / "forged.npz", content, ARRAYS if k % 2 else arrays)
        taken += guard.load(tmp_path / "forged.npz")
        assert not guard.found, (content, guard.found)
    assert FILES // 20 < taken < FILES  # many are sound after all: the grammar is that of the format


# ------------------------------------------------------------------------------------------------- attacks by name


def refuse(path: Path, content: Any, match: str = "load: ", **options: Any) -> None:
    """Write a forged file and see it refused, with nothing called."""
    archive.write_archive(path / "a.npz", content, ARRAYS)
    with pytest.raises(FileFormatError, match=match):
        io.load(path / "a.npz", **options)


def one(value: Any) -> Any:
    """Return a tree of one static value."""
    return {"tree": [["static", value]]}


@pytest.mark.parametrize("name", PRIVATE)
def test_names_beyond_the_closed_list_are_refused(tmp_path: Path, name: str) -> None:
    """Nothing of afx's inside, of the script or of other modules is found: as function, class, record or partial."""
    for value in (
        {"function": name},
        {"class": name},
        {"record": name, "values": {}},
        {"enum": name, "name": "ONE"},
        {"partial": {"function": name}, "args": ["1"], "keywords": {}},
        {"tuple": [{"frozenset": [{"function": name}]}]},
    ):
        refuse(tmp_path, one(value))
    refuse(tmp_path, {"tree": [["class", name, []]]})
    refuse(tmp_path, {"tree": [["dict", [{"function": name}]], ["static", 1]]})


def test_every_name_of_the_closed_list_comes_back(tmp_path: Path) -> None:
    """Public classes and functions are named by `save` as `load` finds them."""
    names = naming.public_names()
    assert {"afx.nn:Linear", "afx.optim:AdamState", "afx:tanh", "afx.special:erf", "afx.linalg:norm"} <= set(names)
    things = tuple(naming.find_public(name) for name in names)
    io.save(tmp_path / "a.npz", things)
    assert io.load(tmp_path / "a.npz") == things


def equation(**changes: Any) -> Any:
    """Return a graph of one equation, changed."""
    eq = {"primitive": "sin", "inputs": [0], "outputs": [["<f4", [2], False]], "params": {}, "ignored_fp_errors": []}
    return {"graph": {"graph": [["<f4", [2], False]], "constants": [], "equations": [eq | changes], "outputs": [1]}}


INJECTED = "__import__('os').system('x')"


@pytest.mark.parametrize(
    "changes",
    [
        {"ignored_fp_errors": [f"divide=({INJECTED}), invalid"]},
        {"params": {f"x={INJECTED}, y": 1}},
        {"params": {"axis": INJECTED}},
        {"params": {"axis": {"tuple": [INJECTED]}}},
        {"params": {"axis": {"function": "afx.nn:relu"}}},
        {
            "primitive": "reshape",
            "params": {"shape": {"partial": {"function": "afx.nn:relu"}, "args": [], "keywords": {}}},
        },
        {"inputs": [-1]},
        {"inputs": [True]},
        {"inputs": [{"literal": "1", "aval": ["<f4", [], False]}]},
        {"inputs": [{"literal": {"float": "1.0"}, "aval": ["<f4", [2], False]}]},
        {"inputs": [{"literal": 10**400, "aval": ["<i8", [], False]}]},
        {"outputs": [["<f4", [2.0], False]]},
        {"outputs": [["|O", [2], False]]},
        {"outputs": [["<f4", [2], "yes"]]},
        {
            "primitive": "callback",
            "outputs": [],
            "params": {"call": {"function": "afx.nn:relu"}, "axes": {"tuple": []}},
        },
        {
            "primitive": "custom_call",
            "params": {
                "rules": {
                    "record": "afx.transforms.custom_call:CustomRules",
                    "values": {
                        key: {"function": "afx.nn:relu"} for key in ["name", "fn", "forward", "backward", "push"]
                    },
                }
            },
        },
        {
            "primitive": "hermitian_function",
            "params": {
                "fn": {
                    "record": "afx.ops.linalg.matrix_functions:Sampled",
                    "values": {"derivative": {"function": f"{HERE}:canary"}},
                }
            },
        },
    ],
)
def test_forged_equations_are_refused(tmp_path: Path, changes: Any) -> None:
    """Parameters reach compiled source: texts are words, names are names, and functions stand in none."""
    refuse(tmp_path, equation(**changes))


def test_functions_in_equations_must_be_allowed_by_name(tmp_path: Path) -> None:
    """What is public is not enough for a rule that runs while the graph is checked: the caller names it, or no one."""
    params = {"axis": {"function": "afx.nn:relu"}}
    refuse(tmp_path, equation(params=params), "of a module that is not allowed: got 'afx.nn:relu'")
    refuse(tmp_path, equation(params=params), "a graph that does not hold together", allow=["afx.nn"])


def graph(inputs: list[Any], outputs: list[int]) -> Any:
    """Return a graph that hands inputs on."""
    return {"graph": [["<f4", shape, False] for shape in inputs], "constants": [], "equations": [], "outputs": outputs}


def loop(test: list[Any], body: list[Any]) -> Any:
    """Return a while loop of float graphs with these inputs."""
    values = {"test": {"program": graph(test, [0])}, "body": {"program": graph(body, [0])}, "a": 0, "b": 0}
    return {"record": "afx.control.while_loop:WhileLoop", "values": values}


SCAN: dict[str, Any] = {"counts": {"tuple": [0, 1]}, "length": 2, "reverse": False}


@pytest.mark.parametrize(
    ("primitive", "params"),
    [
        ("call", {"program": {"program": graph([[1 << 20]], [0])}}),
        ("call", {"program": {"program": graph([], [])}}),
        ("scan", SCAN | {"body": {"program": graph([[2], [1 << 20]], [0])}}),
        ("scan", SCAN | {"body": {"program": graph([[9]], [0])}}),
        ("scan", SCAN | {"body": {"program": graph([[2]], [0])}, "length": "exit"}),
        ("scan", SCAN | {"body": {"program": graph([[2]], [0])}, "reverse": "exit"}),
        ("scan", SCAN | {"body": {"program": graph([[2]], [0])}, "counts": {"tuple": [-1, 2]}}),
        ("while_loop", {"loop": loop([[2]], [[2]])}),
        ("while_loop", {"loop": loop([[]], [[9]])}),
        ("switch", {"branches": {"tuple": [{"program": graph([[2]], [0])}]}}),
        ("switch", {"branches": {"tuple": []}}),
    ],
)
def test_control_flow_must_fit_its_graphs(tmp_path: Path, primitive: str, params: Any) -> None:
    """Machine code of a loop whose operands were shorter than its graph says would read memory of others."""
    refuse(tmp_path, equation(primitive=primitive, params=params), "does not hold together")


@pytest.mark.parametrize("depth", [100, 3_000, 100_000])
@pytest.mark.parametrize("kind", ["tuple", "partial", "program"])
def test_nested_headers_are_refused(tmp_path: Path, depth: int, kind: str) -> None:
    """A header nested beyond all measure is a damaged file, no RecursionError."""
    forms = {
        "tuple": ('{"tuple": [', "]}"),
        "partial": ('{"partial": ', ', "args": [], "keywords": {}}'),
        "program": ('{"program": {"graph": [], "constants": [], "equations": [', '], "outputs": []}}'),
    }
    front, back = forms[kind]
    text = json.dumps({"format": "afx", "version": 1, "arrays": [], "content": {"tree": [["static", "@"]]}})
    deep = text.replace('"@"', front * depth + "null" + back * depth).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "json", types.SimpleNamespace(dumps=lambda _: deep.decode(), loads=json.loads))
        archive.write_archive(tmp_path / "a.npz", {}, {})
    if kind == "tuple" and depth == 100:
        io.load(tmp_path / "a.npz")  # deep, and sound
    else:
        with pytest.raises(FileFormatError, match="load: "):
            io.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        3,
        "text",
        {"x": 1},
        [3],
        [[]],
        [["x", {"names": 3}, [2], "0"]],
        [["x", "<f8", {}, "0"]],
        [["x", "<f8", [1 << 80], "0"]],
    ],
)
def test_odd_declarations_are_refused(tmp_path: Path, arrays: Any) -> None:
    """Whatever stands where arrays are declared: an error of the format."""
    header = {"format": "afx", "version": 1, "arrays": arrays, "content": {"tree": [["static", None]]}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "json", types.SimpleNamespace(dumps=lambda _: json.dumps(header), loads=json.loads))
        archive.write_archive(tmp_path / "a.npz", {}, {})
    with pytest.raises(FileFormatError, match="load: "):
        io.load(tmp_path / "a.npz")


# ------------------------------------------------------------------------------------------------- what is allowed

PACKAGE = """
import sys
from pathlib import Path
from afx import io
from afx.errors import FileFormatError
from afx.io import archive

def attempt(allow):
    try:
        io.load("a.npz", allow=allow)
    except FileFormatError as error:
        return str(error)
    return "taken"

archive.write_archive("a.npz", {"tree": [["static", {"function": "mypkg.tool:run"}]]}, {})
print("imported" in attempt(["mypkg"]), Path("ran").exists())
import mypkg
print("imported" in attempt([mypkg]), Path("ran").exists())
print(attempt(["mypkg.tool"]), Path("ran").exists())
archive.write_archive("a.npz", {"tree": [["static", {"function": "mypkg.other:run"}]]}, {})
sys.modules["mypkg.other"] = sys.modules["mypkg.tool"]
print("defines no function" in attempt(["mypkg"]))
"""


def test_allowing_a_package_imports_none_of_its_modules(tmp_path: Path) -> None:
    """Modules inside a package that is allowed count where the program has imported them, or named them in full."""
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "__init__.py").write_text("")
    (tmp_path / "mypkg" / "tool.py").write_text("open('ran', 'w').close()\n\ndef run(x): return x\n")
    run = subprocess.run([sys.executable, "-c", PACKAGE], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert run.stdout.split("\n")[:4] == ["True False", "True False", "taken True", "True"]


class Own(NamedTuple):
    """A class of a program of several processes."""

    x: Any


def test_messages_name_only_what_is_imported() -> None:
    """Among processes of one program, classes and functions that it imported travel; nothing is imported for them."""
    names = naming.ImportedNames()
    assert names.find(f"{HERE}:Own", "class") is Own
    assert names.find(f"{HERE}:canary", "function") is canary
    for name in ("os:system", "subprocess:Popen", "antigravity:fly", f"{HERE}:HERE", "numpy:load", "afx.io:save"):
        with pytest.raises(FileFormatError, match="load: "):
            names.find(name, "function")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (np.ndarray, "numpy:load"),
        (collections.OrderedDict, "collections:namedtuple"),
        (list, "builtins:eval"),
        (nn.Linear, "afx.nn.layers:layer"),
        (afx.Graph, "afx.core.graph:check"),
    ],
)
def test_a_kind_of_a_library_opens_no_module(tmp_path: Path, kind: Any, name: str) -> None:
    """To expect an ndarray is no leave for NumPy's functions, nor for those of Python's or afx's own modules."""
    refuse(tmp_path, one({"partial": {"function": name}, "args": ["x"], "keywords": {}}), "not allowed", kind=kind)


def test_the_script_is_not_allowed_unasked(tmp_path: Path) -> None:
    """A file reaches no function of the running script; naming the class as the kind allows its module."""
    code = (
        "import attrs, afx\nfrom afx import io\n"
        "@attrs.frozen\nclass Model:\n    x: float\n"
        "io.save('a.npz', Model(1.0))\n"
        "print(io.load('a.npz', Model).x, io.load('a.npz', allow=[Model]).x)\n"
        "try:\n    io.load('a.npz')\nexcept afx.errors.FileFormatError as error:\n    print('allow=[Model]' in str(error))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["1.0", "1.0", "True"]
