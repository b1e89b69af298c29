"""Checkpoint header: what the file of a checkpoint says beside its state, and the settings that a folder remembers."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from afx.errors import ArgumentError, FileFormatError
from afx.io.shards import ShardFile, read_shard_files

__all__ = ["NOTHING", "Header", "read_header", "settle"]

NOTHING: Final[Mapping[str, Any]] = {}


class Header(NamedTuple):
    """What a file says beside its arrays.

    Attributes:
        metric: of the state.
        folder: the settings of the folder when it was written.
        shards: the files beside it that hold what ranks wrote each for itself.
    """

    metric: float | None
    folder: Mapping[str, Any]
    shards: Sequence[ShardFile]


def settle(remembered: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a folder: what is asked for, else what it remembers, else those of a new one.

    Raises:
        ArgumentError: values that are none, or another mode than that of the files.
    """
    standard = {"mode": "min", "keep": 3, "keep_best": 1}
    found = {
        name: remembered.get(name, value) if asked[name] is None else asked[name] for name, value in standard.items()
    }
    mode, keep, keep_best = found.values()
    if keep < 1 or keep_best < 0:
        raise ArgumentError(f"Checkpoints: keep at least the last one: got keep={keep}, keep_best={keep_best}")
    if mode not in ("min", "max"):
        raise ArgumentError(f'Checkpoints: mode is "min" or "max": got {mode!r}')
    if mode != remembered.get("mode", mode):
        raise ArgumentError(
            f"Checkpoints: the best ones of this folder were kept by mode={remembered['mode']!r}: got {mode!r}; "
            "leave the mode out, or use another folder"
        )
    return {"mode": mode, "keep": operator.index(keep), "keep_best": operator.index(keep_best)}


def read_header(content: Any, step: int, path: Path) -> Header:
    """Return what a file says of its step.

    Raises:
        FileFormatError: it is no checkpoint, or one of another step.
    """
    try:
        info = content["checkpoint"]
        saved, text, folder = info["step"], info["metric"], content.get("folder", NOTHING)
        metric, own = None if text is None else float(text), {name: folder[name] for name in folder}
        settings = (folder.get("mode", "min"), folder.get("keep", 1), folder.get("keep_best", 0))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"load: no checkpoint ({error!r:.200}): got {str(path)!r}; load it by afx.io.load"
        ) from None
    if saved != step:
        raise FileFormatError(
            f"load: the file holds step {saved!r} under the name of step {step}: got {str(path)!r}; "
            "give it its own name again"
        )
    if settings[0] not in ("min", "max") or any(type(number) is not int or number < 0 for number in settings[1:]):
        raise FileFormatError(f"load: no settings of a folder: got {folder!r:.200} in {str(path)!r}; save it anew")
    return Header(metric, own, read_shard_files(content, step, path))
