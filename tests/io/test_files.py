"""`afx.io.save` and `load`: every tree and graph comes back, and nothing is written or believed by halves."""

import enum
import functools
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import afx
from afx import Array, io, nn, optim, pytree
from afx.errors import DtypeError, FileFormatError, TracerError, TreeError
from afx.io import archive
from tests.core.test_pickling import X, flow, wave


class Mode(enum.Enum):
    """A static choice."""

    FAST = 1
    SLOW = 2


class Pair(NamedTuple):
    """A named tuple."""

    left: Any
    right: Any


@attrs.frozen
class Part:
    """A class in a class."""

    weight: Array
    size: int
    rate: float = afx.static(default=0.1)


@attrs.frozen
class Numbered:
    """A field whose name is like those of arrays without one."""

    array_1: Array
    rest: Any


@attrs.frozen
class Model:
    """Fields of every kind."""

    parts: tuple[Part, ...]
    activation: Any
    mode: Mode
    note: str | None
    table: dict[Any, Any]
    pair: Pair
    dtype: Any = np.dtype("float32")
    codes: bytes = b"\x00\xff"
    plain: type = int
    shape: tuple[int, ...] = afx.static(default=(3, 4))


def double(x: Array) -> Array:
    """Return twice the operand."""
    return x * 2


def model() -> Model:
    """Make a tree with leaves and static values of every kind."""
    shared = afx.asarray(np.arange(6.0).reshape(2, 3))
    return Model(
        (Part(shared, 3), Part(shared, 4, -0.0)),
        functools.partial(double),
        Mode.SLOW,
        None,
        {
            "a/b ü\n": [afx.asarray(1 + 2j), 1.5, float("nan")],
            "n": np.arange(3, dtype=">i2"),
            "": np.float16(2.5),
            "e": [],
        },
        Pair(afx.zeros((0, 2)), afx.asarray(True)),
    )


def assert_same(got: Any, want: Any) -> None:
    """Compare structures, leaves bit for bit, and the kinds and dtypes of leaves."""
    (leaves, treedef), (expected, structure) = pytree.flatten(got), pytree.flatten(want)
    assert repr(treedef) == repr(structure)
    for a, b in zip(leaves, expected, strict=True):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).shape == np.asarray(b).shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize(
    "tree",
    [
        model(),
        None,
        2.5,
        afx.asarray(3),
        {},
        [[[]], ()],
        {1: 1, "1": 2, True and 2: (3,)},
        [np.arange(5), "text", np.datetime64("2026-01-01") - np.arange(2)],
        afx.random.key(7),
        np.float64(1e-300),
        2**62,
        functools.reduce(lambda tree, _: [tree], range(3000), 1.0),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_trees_come_back(tmp_path: Path, tree: Any) -> None:
    """Every leaf and static value comes back with its kind, dtype and bits, in the same structure."""
    io.save(tmp_path / "tree.npz", tree)
    assert_same(io.load(tmp_path / "tree.npz", allow=[__name__]), tree)


def test_optimizer_states_and_layers_come_back_without_a_template(tmp_path: Path) -> None:
    """Classes of afx need no leave: they are named by the package that users import them from."""
    layer = nn.Linear.create(afx.random.key(0), 3, 2)
    state = optim.adam(0.1).init(layer)
    io.save(tmp_path / "state.npz", (layer, state))
    assert_same(io.load(tmp_path / "state.npz"), (layer, state))
    assert '"afx.nn:Linear"' in zipfile.ZipFile(tmp_path / "state.npz").read("header.json").decode()


def test_shared_arrays_are_written_once(tmp_path: Path) -> None:
    """Weight tying survives: one array in two places is one array again."""
    io.save(tmp_path / "tied.npz", model())
    again = io.load(tmp_path / "tied.npz", Model)
    assert again.parts[0].weight is again.parts[1].weight


def test_no_name_is_given_to_two_arrays(tmp_path: Path) -> None:
    """Nor that of a field to an array whose own path is no name."""
    tree = Numbered(afx.ones(4), {"a b": afx.zeros(2), "c d": afx.ones(3)})
    io.save(tmp_path / "tree.npz", tree)
    assert afx.pytree.equal(io.load(tmp_path / "tree.npz", Numbered), tree)


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    """`numpy.load` finds the arrays under their key paths, without pickle."""
    io.save(tmp_path / "model.npz", model())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert file["parts[0].weight"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    """Files can be compared and cached by their bytes."""
    io.save(tmp_path / "a.npz", model())
    io.save(tmp_path / "b.npz", model())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("fn", [wave, flow])
def test_graphs_come_back_equal(tmp_path: Path, fn: Any) -> None:
    """A graph with constants, loops and branches is equal after a round trip, and runs."""
    graph = afx.trace(fn)(X)
    io.save(tmp_path / "graph.npz", graph)
    again = io.load(tmp_path / "graph.npz", afx.Graph)
    assert again == graph
    assert afx.evaluate(again, X)[0].tolist() == fn(X).tolist()


# ------------------------------------------------------------------------------------------------- what is refused


def local() -> Any:
    """Make a class that no file can name."""

    @attrs.frozen
    class Local:
        x: float

    return Local(1.0)


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"f": [lambda x: x]}, TreeError, r"save: a lambda, .*, at \['f'\]\[0\]: got '<lambda>'; define it at the top"),
        (local(), TreeError, r"local to a function, at the top: got 'local.<locals>.Local'"),
        ([np.array([{}])], DtypeError, r"save: an array of object at .*; save numbers alone"),
        ({"a": np.ma.masked_array([1.0, 2.0], [True, False])}, TreeError, r"save, at \['a'\]: .* lose its mask"),
        (OrderedDict(a=1.0), TreeError, "save: a container that no file can hold, at the top: got OrderedDict"),
    ],
)
def test_what_no_file_can_hold_is_refused_before_writing(tmp_path: Path, tree: Any, error: Any, message: str) -> None:
    """The message has the key path and the way out; no file is left behind."""
    with pytest.raises(error, match=message):
        io.save(tmp_path / "tree.npz", tree)
    assert not list(tmp_path.iterdir())


def test_traced_values_are_refused(tmp_path: Path) -> None:
    """A traced array has no numbers to save."""

    def loss(x: Array) -> Array:
        io.save(tmp_path / "x.npz", {"x": x})
        return x

    with pytest.raises(TracerError, match=r"save: a traced array has no numbers, at \['x'\]"):
        afx.grad(loss)(1.0)


def test_classes_of_other_modules_must_be_allowed(tmp_path: Path) -> None:
    """A file cannot reach classes and functions of any module; the message says how to allow one."""
    path = tmp_path / "part.npz"
    io.save(path, [Part(afx.ones(2), 3)])
    with pytest.raises(FileFormatError, match=r"module that is not allowed: got '.*test_files:Part'; .*allow=\[Part\]"):
        io.load(path)
    for allowed in (__name__, sys.modules[__name__], Part):
        assert_same(io.load(path, allow=[allowed]), [Part(afx.ones(2), 3)])
    with pytest.raises(FileFormatError, match="another kind than asked for: got list for Part"):
        io.load(path, Part)


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "afx.io.naming:importlib.import_module", "numpy:load", "x"]
)
def test_forged_functions_are_refused(tmp_path: Path, name: str) -> None:
    """A header made by hand names a function that runs commands: it is not even looked at."""
    archive.write_archive(tmp_path / "a.npz", {"tree": [["list", 1], ["static", {"function": name}]]}, {})
    with pytest.raises(FileFormatError, match="load: "):
        io.load(tmp_path / "a.npz")


@attrs.define
class Mutable:
    """A class that no tree takes."""

    x: float


@pytest.mark.parametrize(
    "tree",
    [
        [],
        [["leaf", "array", "missing"]],
        [["leaf", "number", {"float": "x"}]],
        [["leaf", "number", {"code": "1"}]],
        [["list", 2], ["static", None]],
        [["list", -1]],
        [["static", None], ["static", None]],
        [["class", f"{__name__}:Part", ["weight", "rate"]], ["static", 1], ["static", 1]],
        [["class", f"{__name__}:Part", ["weight", "size", "size"]], *[["static", 1]] * 3],
        [["class", f"{__name__}:Mutable", ["x"]], ["leaf", "number", {"float": "1.0"}]],
        [["class", f"{__name__}:double", []]],
        [["static", {"enum": f"{__name__}:Mode", "name": "LOST"}]],
        [["static", {"graph": [], "constants": [], "equations": [{"primitive": "no such"}], "outputs": []}]],
        [["static", {"partial": 3}]],
        [["static", {"tuple": 3}]],
        3,
        None,
        "tree",
        [[]],
    ],
)
def test_forged_structures_are_refused(tmp_path: Path, tree: Any) -> None:
    """A structure made by hand raises an error of the format, never anything else."""
    archive.write_archive(tmp_path / "a.npz", {"tree": tree}, {"x": np.ones(2)})
    with pytest.raises(FileFormatError, match="load: "):
        io.load(tmp_path / "a.npz", allow=[__name__])


def test_a_class_with_other_fields_says_which(tmp_path: Path) -> None:
    """A class that changed since is refused with the fields that are new and gone."""
    for fields in (["weight", "width"], ["weight", "size", "width"], ["weight"]):
        part = [["class", f"{__name__}:Part", fields], ["leaf", "array", "x"], *[["static", 3]] * (len(fields) - 1)]
        archive.write_archive(tmp_path / "a.npz", {"tree": part}, {"x": np.ones(2)})
        gone = "'width'" if "width" in fields else ""
        with pytest.raises(FileFormatError, match=rf"fields of Part changed .*new: \[.*'rate'\], gone: \[{gone}\]"):
            io.load(tmp_path / "a.npz", Part)


@attrs.frozen
class Grown:
    """A class whose fields moved and that gained two."""

    rate: float = attrs.field(default=2.0, converter=float)
    weight: Any = None
    parts: Any = attrs.field(factory=list)
    size: int = 1


class GrownPair(NamedTuple):
    """A named tuple that gained a field."""

    right: Any
    left: Any
    middle: Any = "new"


def test_classes_with_new_defaults_and_moved_fields_load(tmp_path: Path) -> None:
    """The file has the names of fields: they are found wherever they stand now, and new ones have their defaults."""
    grown = [["class", f"{__name__}:Grown", ["size", "weight"]], ["static", 7], ["leaf", "array", "x"]]
    pair = [["class", f"{__name__}:GrownPair", ["left", "right"]], ["static", 1], ["static", 2]]
    archive.write_archive(tmp_path / "a.npz", {"tree": [["list", 2], *grown, *pair]}, {"x": np.ones(2)})
    first, second = io.load(tmp_path / "a.npz", allow=[Grown, GrownPair])
    assert (first.rate, first.parts, first.size, first.weight.tolist()) == (2.0, [], 7, [1.0, 1.0])
    assert second == GrownPair(left=1, right=2)
    inner = {"record": f"{__name__}:Grown", "values": {"size": 5}}
    archive.write_archive(tmp_path / "a.npz", {"tree": [["static", inner]]}, {})
    assert io.load(tmp_path / "a.npz", Grown).size == 5


# ---------------------------------------------------------------------------------------------------- damaged files


def is_refused(path: Path, data: bytes) -> bool:
    """Tell whether these bytes are refused as a file."""
    path.write_bytes(data)
    try:
        io.load(path, Model)
    except FileFormatError:
        return True
    return False


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """No single bit of a file can change without an error: in numbers, structure, names or the archive itself."""
    io.save(tmp_path / "a.npz", model())
    data = (tmp_path / "a.npz").read_bytes()
    spots = random.Random(0).sample(range(len(data)), 600) + list(range(len(data) - 60, len(data)))
    for spot in spots:
        flipped = bytearray(data)
        flipped[spot] ^= 1 << (spot % 8)
        assert is_refused(tmp_path / "b.npz", bytes(flipped)), spot


def test_truncated_and_padded_files_are_refused(tmp_path: Path) -> None:
    """A file that is cut off anywhere, or has bytes behind or in front of it, is refused."""
    io.save(tmp_path / "a.npz", model())
    data = (tmp_path / "a.npz").read_bytes()
    for length in [*range(200), *random.Random(1).sample(range(len(data)), 200), len(data) - 1]:
        assert is_refused(tmp_path / "b.npz", data[:length]), length
    assert is_refused(tmp_path / "b.npz", data + b"\0")
    assert is_refused(tmp_path / "b.npz", b"\0" + data)


def forge(path: Path, header: Any, members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> None:
    """Write an archive whose outer checksum is right, whatever it declares."""
    with path.open("w+b") as file:
        with zipfile.ZipFile(file, "w", compression) as out:
            out.writestr(zipfile.ZipInfo("header.json"), json.dumps(header))
            for name, data in members:
                out.writestr(name, data)
        if compression == zipfile.ZIP_STORED and len({name for name, _ in members}) == len(members):
            archive._write_comment(file)
        else:
            file.seek(-2, os.SEEK_END)
            file.write((37).to_bytes(2, "little") + b"afx1:" + b"0" * 32)


def npy(array: Any) -> bytes:
    """Return an array as a ``.npy`` file."""
    return b"".join(archive._payload("x", array))


def header_of(*arrays: Any) -> dict[str, Any]:
    """Return a header that declares arrays."""
    return {"format": "afx", "version": 1, "arrays": list(arrays), "content": {"tree": [["leaf", "array", "x"]]}}


ONES = npy(np.ones(4))
DIGEST = archive._digest([ONES])


@pytest.mark.parametrize(
    ("header", "members", "message"),
    [
        (header_of(["x", "<f8", [4], DIGEST]), [("x.npy", ONES), ("x.npy", ONES)], "members twice"),
        (header_of(["x", "<f8", [4], DIGEST]), [("x.npy", ONES), ("y.npy", ONES)], r"extra \['y.npy'\]"),
        (header_of(["x", "<f8", [4], DIGEST], ["y", "<f8", [4], DIGEST]), [("x.npy", ONES)], r"missing \['y.npy'\]"),
        (header_of(["x", "<f8", [1 << 60], DIGEST]), [("x.npy", ONES)], "declares 9223372036854775808 bytes"),
        (header_of(["x", "<f8", [2, 2], DIGEST]), [("x.npy", ONES)], "another array than its header declares"),
        (header_of(["x", "<i8", [4], DIGEST]), [("x.npy", ONES)], "another array than its header declares"),
        (header_of(["x", "<f8", [4], "0" * 32]), [("x.npy", ONES)], "'x' is damaged: its checksum differs"),
        (header_of(["x", "|O", [4], DIGEST]), [("x.npy", ONES)], "declares an array wrongly"),
        (header_of(["x", "<f8", [-4], DIGEST]), [("x.npy", ONES)], "declares an array wrongly"),
        (header_of(["x", "<f8", [True], DIGEST]), [("x.npy", ONES)], "declares an array wrongly"),
        (header_of(["x", "<f8"]), [("x.npy", ONES)], "declares an array wrongly"),
        ({**header_of(), "version": 99}, [], "of version 99, and this afx reads version 1"),
        ({**header_of(), "format": "other"}, [], "not that of afx"),
        ([], [], "not that of afx"),
    ],
)
def test_forged_archives_are_refused_by_name(tmp_path: Path, header: Any, members: Any, message: str) -> None:
    """Duplicates, extras, missing members and sizes beyond the file are named before memory is allocated."""
    if len({name for name, _ in members}) != len(members):
        with pytest.warns(UserWarning, match="Duplicate name"):
            forge(tmp_path / "a.npz", header, members)
    else:
        forge(tmp_path / "a.npz", header, members)
    with pytest.raises(FileFormatError, match=message):
        io.load(tmp_path / "a.npz")


def test_zip_bombs_are_refused(tmp_path: Path) -> None:
    """A compressed member is refused before it is unpacked."""
    zeros = np.zeros(1 << 20)
    forge(
        tmp_path / "a.npz", header_of(["x", "<f8", [1 << 20], "0" * 32]), [("x.npy", npy(zeros))], zipfile.ZIP_DEFLATED
    )
    with pytest.raises(FileFormatError, match="is compressed or encrypted"):
        io.load(tmp_path / "a.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A file of NumPy's own, a pickle and a text are no files of afx; a missing one is an OSError."""
    np.savez(tmp_path / "a.npz", x=np.ones(2))
    (tmp_path / "b.npz").write_bytes(pickle.dumps([1]))
    (tmp_path / "c.npz").write_text("hello")
    for name in "abc":
        with pytest.raises(FileFormatError, match="load: the file"):
            io.load(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / "d.npz")


# ------------------------------------------------------------------------------------------------ interrupted writes

KILLED = """
import os, signal, sys
import numpy as np
from afx import io
from afx.io import archive
path, count = sys.argv[1], int(sys.argv[2])
real = archive.zipfile.ZipFile.open
class Counting:
    def __init__(self, file): self.file, self.left = file, count
    def __getattr__(self, name): return getattr(self.file, name)
    def write(self, data):
        if self.left < len(data):
            self.file.write(data[: self.left]); self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= len(data)
        return self.file.write(data)
opened = archive.replace_file
import contextlib
@contextlib.contextmanager
def counting(path):
    with opened(path) as file:
        yield Counting(file)
archive.replace_file = counting
io.save(path, {"x": np.full(1000, 2.0)})
"""


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_a_kill_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """A process killed after any number of bytes leaves what was there before."""
    path = tmp_path / "a.npz"
    io.save(path, {"x": np.full(1000, 1.0)})
    counts = [0, *random.Random(2).sample(range(9000), 4)]
    for count in counts:
        process = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(count)], check=False, capture_output=True
        )
        assert process.returncode == -signal.SIGKILL, process.stderr
        assert io.load(path)["x"].tolist() == [1.0] * 1000


FULL = """
import resource, signal, sys
import numpy as np
from afx import io
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    io.save(sys.argv[1], {"x": np.full(1000, 2.0)})
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_full_disk_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """The error is an OSError, the old file stays and nothing else is left."""
    path = tmp_path / "a.npz"
    io.save(path, {"x": np.full(1000, 1.0)})
    process = subprocess.run([sys.executable, "-c", FULL, str(path)], check=True, capture_output=True, text=True)
    assert process.stdout.strip() == "OSError"
    assert io.load(path)["x"].tolist() == [1.0] * 1000
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links")
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    """A file that is replaced keeps its permissions, and a link still leads to it."""
    io.save(tmp_path / "a.npz", 1.0)
    (tmp_path / "a.npz").chmod(0o640)
    (tmp_path / "link.npz").symlink_to(tmp_path / "a.npz")
    io.save(tmp_path / "link.npz", 2.0)
    assert (tmp_path / "link.npz").is_symlink()
    assert io.load(tmp_path / "a.npz") == 2.0
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o640


# ------------------------------------------------------------------------------------------------------ checkpoints


def test_checkpoints_rotate_and_keep_the_best(tmp_path: Path) -> None:
    """The last ones and the best ones stay, also when another process goes on."""
    metrics = [5.0, 1.0, 3.0, float("nan"), 2.0, 4.0, 6.0]
    with io.Checkpoints(tmp_path, keep=2, keep_best=2) as checkpoints:
        for step, metric in enumerate(metrics[:4]):
            checkpoints.save(step, {"w": afx.ones(2) * step}, metric=metric)
    again = io.Checkpoints(tmp_path, keep=2, keep_best=2)
    for step, metric in enumerate(metrics[4:], 4):
        again.save(step, {"w": afx.ones(2) * step}, metric=metric)
    assert again.steps() == [1, 4, 5, 6]
    best, latest = again.best(dict), again.latest(dict)
    assert best is not None
    assert (best.step, best.metric, best.tree["w"].tolist()) == (1, 1.0, [1.0, 1.0])
    assert latest is not None
    assert latest.step == 6


def test_checkpoints_in_the_background(tmp_path: Path) -> None:
    """Arrays that their owner changes afterwards are saved as they were; errors come at the next call."""
    mine = np.zeros(3)
    with io.Checkpoints(tmp_path / "c", background=True) as checkpoints:
        for step in range(3):
            mine[:] = step
            checkpoints.save(step, {"x": mine})
            mine[:] = -1.0
        assert [checkpoints.load(step).tree["x"].tolist() for step in range(3)] == [[0.0] * 3, [1.0] * 3, [2.0] * 3]
        for path in (tmp_path / "c").iterdir():
            path.unlink()
        (tmp_path / "c").rmdir()
        checkpoints.save(3, {"x": mine})
        with pytest.raises(OSError, match="No such file"):
            checkpoints.wait()


def test_damaged_checkpoints_are_passed_over(tmp_path: Path) -> None:
    """The newest whole state is found, and the damaged one is named."""
    checkpoints = io.Checkpoints(tmp_path)
    checkpoints.save(1, {"x": 1.0})
    checkpoints.save(2, {"x": 2.0}).write_bytes(b"half")
    with pytest.warns(UserWarning, match="passes over a damaged checkpoint"):
        latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 1
    assert io.Checkpoints(tmp_path).steps() == [1, 2]


def test_checkpoints_are_empty_at_first(tmp_path: Path) -> None:
    """A new folder has no state, and odd settings are refused."""
    checkpoints = io.Checkpoints(tmp_path / "new")
    assert (checkpoints.steps(), checkpoints.latest(), checkpoints.best()) == ([], None, None)
    with pytest.raises(afx.errors.ArgumentError, match="keep at least the last one: got keep=0"):
        io.Checkpoints(tmp_path, keep=0)
    with pytest.raises(afx.errors.ArgumentError, match="a step is at least 0: got -1"):
        checkpoints.save(-1, 1.0)


# ------------------------------------------------------------------------------------------------------ safetensors


def test_safetensors_round_trip(tmp_path: Path) -> None:
    """Arrays travel by name, and back into a tree of the same names."""
    pytest.importorskip("safetensors", reason="the extra io")
    tree = {"w": afx.asarray(np.arange(6.0).reshape(2, 3).T), "b": [afx.ones(2)]}
    path = tmp_path / "a.safetensors"
    io.save_safetensors(path, tree)
    assert io.load_safetensors(path)["['w']"].tolist() == tree["w"].tolist()
    assert_same(io.load_safetensors(path, tree), tree)
    with pytest.raises(FileFormatError, match=r"missing \[\"\['v'\]\"\], extra \[\"\['w'\]\"\]"):
        io.load_safetensors(path, {"v": afx.ones(2), "b": [afx.ones(2)]})
    with pytest.raises(FileFormatError, match=r"another array than that of the tree at \['b'\]\[0\]"):
        io.load_safetensors(path, {"w": tree["w"], "b": [afx.ones(3)]})
    path.write_bytes(b"{}")
    with pytest.raises(FileFormatError, match="no file of this format"):
        io.load_safetensors(path)


def test_safetensors_keep_masks_away(tmp_path: Path) -> None:
    """A mask that the format cannot hold is not left out in silence."""
    with pytest.raises(TreeError, match="save_safetensors: a masked array would lose its mask"):
        io.save_safetensors(tmp_path / "a", [np.ma.masked_array([1.0], [True])])


def test_safetensors_of_one_name_twice_are_refused(tmp_path: Path) -> None:
    """Readers of the format differ on which of the two arrays counts: neither is dropped in silence."""
    pytest.importorskip("safetensors", reason="the extra io")
    entry = '"w":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    header = f"{{{entry % (0, 4)},{entry % (4, 8)}}}".encode()
    for content, got in ((header, "'w' 2 times"), (b'{"__metadata__":{"a":"b","a":"c"}}', "'a' 2 times")):
        path = tmp_path / "a.safetensors"
        path.write_bytes(len(content).to_bytes(8, "little") + content + bytes(8 if content is header else 0))
        with pytest.raises(FileFormatError, match=f"got {got}|no file of this format"):
            io.load_safetensors(path)


def test_reading_is_quick_for_headers(tmp_path: Path) -> None:
    """The metric of a checkpoint is read without its arrays."""
    checkpoints = io.Checkpoints(tmp_path)
    checkpoints.save(0, {"x": np.zeros(1 << 20)}, metric=0.5)
    content = archive.read_content(checkpoints.path(0))
    assert content["checkpoint"] == {"step": 0, "metric": "0.5"}
