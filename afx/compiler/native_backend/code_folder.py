"""Code folder: where machine code is kept between processes, by default in the user's cache folder.

The environment variable ``AFX_CODE_CACHE`` names another folder, or none as ``0``; `afx.set_code_cache` comes before both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["choose_folder", "code_folder"]

_chosen: list[str] = []  # the folder, an empty text for none; nothing before it is asked for


def code_folder() -> str:
    """Return the folder, an empty text where nothing is kept."""
    if not _chosen:
        _chosen.append(_default_folder(os.environ.get("AFX_CODE_CACHE")))
    return _chosen[0]


def choose_folder(folder: str) -> None:
    """Keep machine code in a folder from now on; an empty text stands for none."""
    _chosen[:] = [folder]


def _default_folder(setting: str | None) -> str:
    if setting == "0":
        return ""
    try:
        if setting:
            return str(Path(setting).expanduser().absolute())
        return str(_cache_home() / "afx")
    except (OSError, RuntimeError):  # a user without a home, or a working directory that is gone
        return ""


def _cache_home() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    named = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return named if named.is_absolute() else Path.home() / ".cache"
