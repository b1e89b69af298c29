"""Machine code on ARM: a Python of that processor in a folder, and tests that it runs, on this one by qemu.

The folder holds Debian's packages of Python for arm64, with what they need, and wheels of NumPy, llvmlite and others; nothing is
installed in the system. An emulated process takes the host's ways but its own libraries.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.platforms.processors import FOLDER, find_tool

ROOT = Path(__file__).parents[2]
SYSTEM, APT = FOLDER / "aarch64", FOLDER / "apt"
PACKAGES = ("python3.11", "libstdc++6")
WHEELS = ("numpy", "attrs", "llvmlite", "typing-extensions", "pytest", "hypothesis", "mpmath", "scipy")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
TESTS = ("tests/core", "tests/ops", "tests/transforms", "tests/compiler", "tests/portable")
SETTINGS = """
APT::Architecture "arm64"; APT::Architectures {{"arm64";}};
Dir::State "{0}"; Dir::State::status "{0}/status"; Dir::Cache "{0}/cache";
Dir::Etc::SourceList "{0}/sources.list"; Dir::Etc::SourceParts "{0}/parts"; Acquire::Languages "none";
"""
SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed)")


def prepare() -> Path:
    """Return the command that runs Python on the other processor, whose folder is made where there is none."""
    command = SYSTEM / "python"
    if not command.exists():
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise SystemExit(f"aarch64: {tool} is missing: the packages are Debian's")
        emulator = find_tool("qemu-aarch64-static", "qemu-aarch64") or _unpack_emulator()
        _unpack_packages()
        _unpack_wheels()
        _write_command(command, emulator)
    return command


def _unpack_emulator() -> str:
    tools = FOLDER / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "qemu-user-static"], cwd=tools, check=True)
    for package in tools.glob("qemu-user-static*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(tools)], check=True)
        package.unlink()
    return find_tool("qemu-aarch64-static")


def _unpack_packages() -> None:
    """Download Python for arm64 and what it needs, by settings of apt that leave the system's alone."""
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (APT / name).mkdir(parents=True, exist_ok=True)
    (APT / "status").touch()
    (APT / "sources.list").write_text(SOURCE)
    (APT / "apt.conf").write_text(SETTINGS.format(APT))
    env = {**os.environ, "APT_CONFIG": str(APT / "apt.conf")}
    subprocess.run(["apt-get", "-q", "update"], env=env, check=True)
    get = ["apt-get", "-q", "install", "-y", "--download-only", "--no-install-recommends", *PACKAGES]
    subprocess.run(get, env=env, check=True)
    for package in (APT / "cache" / "archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(SYSTEM)], check=True)


def _unpack_wheels() -> None:
    """Download wheels, of the versions that are installed here."""
    folder = FOLDER / "wheels"
    command = [sys.executable, "-m", "pip", "download", "-q", "-d", str(folder), "--python-version", "3.11"]
    command += ["--only-binary=:all:", *[f"--platform={name}" for name in PLATFORMS]]
    subprocess.run([*command, *[f"{name}=={importlib.metadata.version(name)}" for name in WHEELS]], check=True)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(SYSTEM / "usr" / "lib" / "python3" / "dist-packages")


def _write_command(command: Path, emulator: str) -> None:
    """Write a command that starts Python by the emulator, and that Python takes for itself where it starts another one."""
    python = SYSTEM / "usr" / "bin" / "python3.11"
    command.write_text(f'#!/bin/sh\nexec {emulator} -L {SYSTEM} {python} "$@"\n')
    command.chmod(0o755)
    site = SYSTEM / "usr" / "lib" / "python3" / "dist-packages" / "executable.pth"
    site.write_text(f"import sys; sys.executable = {str(command)!r}\n")


def run_tests(names: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Run tests by files, each in a process of its own; say passed and failed, and return 1 where one fails."""
    command, total = prepare(), dict[str, int]()
    env = {**os.environ, "XDG_CACHE_HOME": str(FOLDER / "cache")}
    files = [path for name in names or TESTS for path in _files(ROOT / name)]
    for path in files:
        begin, name = time.monotonic(), str(path.relative_to(ROOT))
        pytest = [str(command), "-m", "pytest", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider", name]
        done = subprocess.run(pytest, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines() or ["nothing printed"]
        say(f"{name}: {lines[-1]} (exit {done.returncode}, {time.monotonic() - begin:.0f} s)")
        for line in lines:
            if line.startswith(("FAILED", "ERROR")):
                say(f"  {line}")
        for number, kind in COUNTS.findall(lines[-1]):
            total[kind] = total.get(kind, 0) + int(number)
        if done.returncode not in (0, 1, 5):
            total["ended"] = total.get("ended", 0) + 1
    say(f"aarch64: {total.get('passed', 0)} passed, {total.get('failed', 0)} failed; {total}")
    return int(any(kind in total for kind in ("failed", "error", "ended")))


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("test_*.py"))
