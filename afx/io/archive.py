"""Archive: a ``.npz`` file with a JSON header and checksums, replaced as a whole."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import io
import itertools
import json
import math
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

import numpy as np

from afx.core import Ndarray
from afx.errors import DtypeError, FileFormatError

# --- Atomic replacement: a file is written beside its target, forced to disk, and renamed over it
#
# A writer holds a lock on its unfinished file, which the system gives up when the process ends, however it ends. So
# the unfinished files of dead processes can be told from those that somebody is writing, on this machine and over a
# network.

TEMPORARY: Final = ".tmp"  # the ending of files that are being written
NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
KNOWN: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a new file that takes the place of ``path`` when the block ends without an error.

    Until then, and after any error, a crash or a full disk, ``path`` is what it was. The file and its folder are
    forced to disk (``fsync``), so that the new file also survives a loss of power. What killed processes left
    unfinished beside ``path`` is removed.

    Raises:
        OSError: the folder does not exist or cannot be written, or the disk is full.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "note.txt"
    ...     with replace_file(path) as file:
    ...         _ = file.write(b"whole")
    ...     path.read_bytes()
    b'whole'
    """
    target = Path(os.path.realpath(path))  # a link stays, what it leads to is replaced
    remove_leftovers(target.parent, f"{target.name}.")
    descriptor, name = _open_new(target)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _set_mode(name, _mode(target))
            if os.name == "posix":  # under the lock; other systems rename no open file
                os.replace(name, target)  # noqa: PTH105 - the one call that is documented to be atomic
        if os.name != "posix":
            os.replace(name, target)  # noqa: PTH105 - as above
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - the counterpart of os.open
        raise
    _sync_folder(target.parent)


def _open_new(target: Path) -> tuple[int, str]:
    """Open and lock a new file beside a target; others see no more of it than of the file that it will replace."""
    mode = _mode(target)
    while True:
        name = str(target.parent / f".{target.name}.{secrets.token_hex(6)}{TEMPORARY}")
        descriptor = os.open(name, NEW, 0o666 if mode is None else mode | 0o600)
        _lock(descriptor, waits=True)
        if os.fstat(descriptor).st_nlink or os.name != "posix":
            return descriptor, name
        os.close(descriptor)  # another writer took it for a leftover, before it was locked


def _set_mode(name: str, mode: int | None) -> None:
    """Give a new file the permissions of the one that it replaces; its owner can read it under any umask."""
    given = stat.S_IMODE(Path(name).stat().st_mode)
    wanted = given | 0o600 if mode is None else mode | 0o400
    if wanted != given:
        Path(name).chmod(wanted)


def _mode(target: Path) -> int | None:
    """Return the permissions of a file, None where there is none."""
    try:
        return stat.S_IMODE(target.stat().st_mode) & 0o777
    except OSError:
        return None


def remove_leftovers(folder: Path, stem: str) -> None:
    """Remove the unfinished files of processes that ended while they wrote ``stem*`` here; no others."""
    try:
        with os.scandir(folder) as entries:
            names = [e.path for e in entries if e.name.startswith(f".{stem}") and e.name.endswith(TEMPORARY)]
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            _remove_unlocked(name)


def _remove_unlocked(name: str) -> None:
    if not stat.S_ISREG(os.lstat(name).st_mode):
        return
    descriptor = os.open(name, KNOWN)
    try:
        if _lock(descriptor, waits=False):
            os.unlink(name)  # noqa: PTH108 - a plain call while the lock is held
    finally:
        os.close(descriptor)


def _lock(descriptor: int, waits: bool) -> bool:
    """Lock an open file for this process, and tell whether it has the lock."""
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:
        return True  # such systems remove no file that is open
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:  # somebody writes it, or the file system has no locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # file systems without it
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --- Archive: a ``.npz`` file with a JSON header in front, one checksum an array and one of all the rest
#
# Layout: a zip archive of uncompressed members without gaps: ``header.json``, then one ``.npy`` file an array. The
# header declares name, dtype, shape and BLAKE2b digest of each array. The archive's comment holds the digest of all
# bytes that belong to no array, so that no bit of the file can change unnoticed. Everything declared is compared with
# the file's size before memory is allocated. `numpy.load` reads the same file.

FORMAT: Final = "afx"
VERSION: Final = 1
HEADER: Final = "header.json"
FIELDS: Final = {"format", "version", "arrays", "content"}
KINDS: Final = "biufcmMSU"  # of dtypes that np.lib.format writes without pickle
# How such dtypes are written: NumPy evaluates what stands in front of commas and brackets of other texts.
DTYPE: Final = re.compile(r"[<>|=]?[?biufcmMSU][0-9]{0,9}(\[[0-9a-zA-Z]{1,9}\])?", re.ASCII)
MARK: Final = b"afx1:"  # begins the archive's comment
DIGEST_BYTES: Final = 16
COMMENT_BYTES: Final = len(MARK) + 2 * DIGEST_BYTES
CHUNK_BYTES: Final = 1 << 20
LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
ZIP64_MIN_BYTES: Final = 1 << 31
# where a member's CRC-32 stands in its local header and in its entry of the directory
LOCAL_CRC, DIRECTORY_CRC = 14, 16

R = TypeVar("R")


class ArrayEntry(NamedTuple):
    """An array's declaration in the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    digest: str

    @property
    def nbytes(self) -> int:
        """The number of bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize


# --- writing


def write_archive(path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Mapping[str, Ndarray]) -> str:
    """Write arrays by name and a JSON value in place of a file, whole or not at all; return the file's digest.

    Raises:
        DtypeError: an array of objects or records.
        OSError: the file cannot be written; what stood there before is whole.
    """
    payloads = {name: _payload(name, array) for name, array in arrays.items()}
    digests = dict.fromkeys(arrays, "0" * 2 * DIGEST_BYTES)
    with replace_file(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _write_member(archive, HEADER, [_header_of(content, arrays, digests)])
            for name, payload in payloads.items():
                digests[name] = _write_member(archive, f"{name}.npy", payload)
        _overwrite_header(file, _header_of(content, arrays, digests))
        return _write_comment(file)


def _header_of(content: Mapping[str, Any], arrays: Mapping[str, Ndarray], digests: Mapping[str, str]) -> bytes:
    declared = [[name, array.dtype.str, array.shape, digests[name]] for name, array in arrays.items()]
    return json.dumps({"format": FORMAT, "version": VERSION, "arrays": declared, "content": content}).encode()


def check_kind(name: str, array: Ndarray) -> None:
    """Refuse an array that no file can hold.

    Raises:
        DtypeError: an array of objects or records.
    """
    if array.dtype.kind not in KINDS:
        raise DtypeError(f"save: an array of {array.dtype} at {name}: got no dtype of numbers; save numbers alone")


def _payload(name: str, array: Ndarray) -> list[bytes | memoryview]:
    """Return an array's ``.npy`` file as pieces, without copying its elements."""
    check_kind(name, array)
    return [_npy_header(array.dtype, array.shape), _bytes_of(np.ascontiguousarray(array))]


def _npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return header.getvalue()


def _bytes_of(array: Any) -> memoryview:
    """Return the bytes of a contiguous array."""
    return memoryview(array.reshape(-1).view(np.uint8))


def _write_member(archive: zipfile.ZipFile, name: str, pieces: Sequence[bytes | memoryview]) -> str:
    """Write a member and return the digest of what was written.

    An array of NumPy may change meanwhile: each chunk is copied once, and the copy is both hashed and written.
    """
    info = zipfile.ZipInfo(name)  # dated 1980: the same tree gives the same bytes
    is_large = sum(map(len, pieces)) >= ZIP64_MIN_BYTES
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with archive.open(info, "w", force_zip64=is_large) as member:
        for piece in pieces:
            for start in range(0, len(piece), CHUNK_BYTES):
                chunk = bytes(piece[start : start + CHUNK_BYTES])
                digest.update(chunk)
                member.write(chunk)
    return digest.hexdigest()


def _overwrite_header(file: IO[bytes], header: bytes) -> None:
    """Put a header of the same length in the place of the first member, with its checksum where zip archives have it."""
    with zipfile.ZipFile(file) as archive:
        directory = archive.start_dir
    (first, *_) = _members(file, 0)
    crc = struct.pack("<I", zlib.crc32(header))
    for place, data in ((first.start, header), (LOCAL_CRC, crc), (directory + DIRECTORY_CRC, crc)):
        file.seek(place)
        file.write(data)


def _write_comment(file: IO[bytes]) -> str:
    """Write the digest of all that belongs to no array, which has those of arrays in it, as an archive's comment."""
    digest = _outer_digest(file, _members(file, 0), 0)
    file.seek(-2, os.SEEK_END)  # the comment's length is the last field of a zip archive
    file.write(struct.pack("<H", COMMENT_BYTES) + MARK + digest.encode())
    return digest


# --- reading


class Member(NamedTuple):
    """A member of the archive: its name, and where its bytes begin and end in the file."""

    name: str
    start: int
    stop: int


def read_archive(
    path: str | os.PathLike[str], *, wants: Callable[[str], bool] = lambda name: True, digest: str | None = None
) -> tuple[Any, dict[str, Ndarray]]:
    """Return the JSON value and the arrays of a file that `write_archive` wrote.

    Args:
        path: the file.
        wants: from an array's name to whether it is read.
        digest: what `write_archive` returned; None for any file.

    Raises:
        FileFormatError: the file is no such archive, is damaged or another one, or declares what it does not hold.
        OSError: there is no such file, or it cannot be read.
    """
    return _read_file(path, functools.partial(_read, wants=wants, digest=digest))


def read_content(path: str | os.PathLike[str]) -> Any:
    """Return the JSON value alone; raises as `read_archive` does."""
    return _read_file(path, lambda file: _front(file)[0]["content"])


def _read_file(path: str | os.PathLike[str], read: Callable[[IO[bytes]], R]) -> R:
    """Read an open file, and name the file in what is wrong with it."""
    with open(path, "rb") as file:  # noqa: PTH123 - a path of any kind
        try:
            return read(file)
        except FileFormatError as error:
            raise FileFormatError(f"load: {error}: got {os.fspath(path)!r}; load another copy of it") from None
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever zipfile, json and NumPy say about bytes that they cannot read
            raise FileFormatError(
                f"load: no whole archive of afx ({error!r:.200}): got {os.fspath(path)!r}; load a file that afx.io.save wrote"
            ) from error


def _read(file: IO[bytes], wants: Callable[[str], bool], digest: str | None) -> tuple[Any, dict[str, Ndarray]]:
    header, members = _front(file, digest)
    pairs = zip(_entries(header, members[1:]), members[1:], strict=True)
    return header["content"], {e.name: _array(file, e, member) for e, member in pairs if wants(e.name)}


def _front(file: IO[bytes], expected: str | None = None) -> tuple[Any, list[Member]]:
    """Return the header and the members, after all bytes that belong to no array were compared with their digest."""
    file.seek(0, os.SEEK_END)
    if file.tell() < COMMENT_BYTES + 2:
        raise FileFormatError("the file is cut off")
    file.seek(-COMMENT_BYTES - 2, os.SEEK_END)
    length, comment = file.read(2), file.read()
    if not comment.startswith(MARK) or length != struct.pack("<H", COMMENT_BYTES):
        raise FileFormatError("the file does not end as an archive of afx does (cut off, or written by something else)")
    members = _members(file, COMMENT_BYTES)
    digest = _outer_digest(file, members, COMMENT_BYTES)
    if digest != comment[len(MARK) :].decode("ascii", "replace"):
        raise FileFormatError("its header or directory is damaged")
    if digest != (expected or digest):
        raise FileFormatError("it is another file than the one that was written with the checkpoint")
    return _header(file, members[0]), members


def _members(file: IO[bytes], comment_bytes: int) -> list[Member]:
    """Return the members in the order of the file, which they fill without gaps, each uncompressed and once."""
    with zipfile.ZipFile(file) as archive:
        infos, directory = archive.infolist(), archive.start_dir
        if len(archive.comment) != comment_bytes:
            raise FileFormatError("it has bytes behind the archive")
    names = [info.filename for info in infos]
    if len(set(names)) != len(names):
        raise FileFormatError(f"it holds members twice ({max(names, key=names.count)!r})")
    members: list[Member] = []
    expected = 0
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise FileFormatError(f"its member {info.filename!r} is compressed or encrypted")
        if info.header_offset != expected:
            raise FileFormatError(f"there is a gap in front of its member {info.filename!r}")
        file.seek(expected)
        fields = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        start = expected + LOCAL_HEADER.size + fields[-2] + fields[-1]
        expected = start + info.file_size
        members.append(Member(info.filename, start, expected))
    if not members or expected != directory:
        raise FileFormatError("its members do not fill it")
    return members


def _outer_digest(file: IO[bytes], members: Sequence[Member], comment_bytes: int) -> str:
    """Return the digest of all bytes but those of arrays and of the comment."""
    end = file.seek(0, os.SEEK_END) - comment_bytes - 2
    starts = [0, *[member.stop for member in members[1:]]]
    stops = [*[member.start for member in members[1:]], end]
    return _digest(itertools.chain.from_iterable(map(_pieces, itertools.repeat(file), starts, stops)))


def _digest(pieces: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _pieces(file: IO[bytes], start: int, stop: int) -> Iterator[bytes]:
    file.seek(start)
    left = stop - start
    while left > 0:
        piece = file.read(min(left, CHUNK_BYTES))
        if not piece:
            raise FileFormatError("the file is cut off")
        left -= len(piece)
        yield piece


def _header(file: IO[bytes], member: Member) -> Any:
    if member.name != HEADER:
        raise FileFormatError(f"its first member is {member.name!r} instead of {HEADER}")
    header = json.loads(b"".join(_pieces(file, member.start, member.stop)))
    if header.__class__ is not dict or set(header) != FIELDS or header["format"] != FORMAT:
        raise FileFormatError("its header is not that of afx")
    if header["version"] != VERSION:
        raise FileFormatError(f"it is of version {header['version']!r}, and this afx reads version {VERSION}")
    return header


def _entries(header: Any, members: Sequence[Member]) -> list[ArrayEntry]:
    """Return what the header declares, compared with what the file holds."""
    entries = [_entry(item) for item in header["arrays"]]
    declared, stored = [f"{entry.name}.npy" for entry in entries], [member.name for member in members]
    if declared != stored:
        missing, extra = set(declared) - set(stored), set(stored) - set(declared)
        raise FileFormatError(
            f"its members are not the declared ones (missing {sorted(missing)}, extra {sorted(extra)})"
        )
    for entry, member in zip(entries, members, strict=True):
        if not entry.nbytes <= member.stop - member.start <= entry.nbytes + 65_546:  # a .npy header has at most that
            raise FileFormatError(
                f"{entry.name!r} declares {entry.nbytes} bytes and its member has {member.stop - member.start}"
            )
    return entries


def _entry(item: Any) -> ArrayEntry:
    try:
        name, dtype, shape, digest = item
        entry = ArrayEntry(name, read_dtype(dtype), tuple(shape), digest)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"its header declares an array wrongly ({error})") from error
    lengths_are_right = all(type(length) is int and length >= 0 for length in entry.shape)
    if type(name) is not str or not lengths_are_right:
        raise FileFormatError(f"its header declares an array wrongly ({item!r})")
    return entry


def read_dtype(text: object) -> np.dtype[Any]:
    """Return the dtype of this text, one of numbers, texts or times.

    Raises:
        TypeError: there is none, or one of objects or records.
    """
    if not isinstance(text, str) or DTYPE.fullmatch(text) is None:
        raise TypeError(f"no dtype of plain values: {text!r}")
    return np.dtype(text)


def _array(file: IO[bytes], entry: ArrayEntry, member: Member) -> Ndarray:
    """Read one array, compare its digest, and then its own header with what is declared."""
    start = member.stop - entry.nbytes
    header = b"".join(_pieces(file, member.start, start))
    digest = hashlib.blake2b(header, digest_size=DIGEST_BYTES)
    array = np.empty(entry.shape, entry.dtype)
    view = _bytes_of(array)
    begin = 0
    for piece in _pieces(file, start, member.stop):
        view[begin : begin + len(piece)] = piece
        begin += len(piece)
        digest.update(piece)
    if digest.hexdigest() != entry.digest:
        raise FileFormatError(f"{entry.name!r} is damaged: its checksum differs")
    if _unpad(header) != _unpad(_npy_header(entry.dtype, entry.shape)):
        raise FileFormatError(f"{entry.name!r} holds another array than its header declares")
    return array


def _unpad(header: bytes) -> bytes:
    """Return a ``.npy`` header without its length and the blanks that versions of NumPy put behind it."""
    start = len(np.lib.format.magic(1, 0))
    if int.from_bytes(header[start : start + 2], "little") != len(header) - start - 2:
        raise FileFormatError("the header of an array is not as long as it says")
    return header[:start] + header[start + 2 :].rstrip(b" \n")
