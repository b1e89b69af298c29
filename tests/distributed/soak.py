"""Random trainings, split graphs and lost ranks on 1-6 ranks: ``python -m tests.distributed.soak`` prints counts.

Arguments are the numbers of trainings, of graphs and of kills, and the first seed; 300, 200, 100 and 0 by default. Every result
is compared bit by bit with one process. A job that loses ranks ends with the bits of one process on all that are left, or with
one clear error and no exit status 0.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.distributed.jobs import run
from tests.distributed.soaking import MOST_RANKS

MODULE = "tests.distributed.soaking"
BATCH = 10  # programs of one job
SHRINK = ("--with-ft", "ulfm")
CLEAR = (r"afx\.errors\.PeerLost: ", r"exited on\s+signal", r"PRTE has lost communication", r"a rank was lost")


def start(ranks: int, *words: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Run a job; return its exit status and what it wrote."""
    try:
        done = run(ranks, *words, options=options, module=MODULE, seconds=150)
    except subprocess.TimeoutExpired as error:
        return -1, str(error.stdout), f"hangs: {error.stderr!s}"
    return done.returncode, done.stdout.replace("\0", ""), done.stderr


def compare(kind: str, first: int, count: int, jobs: Sequence[int] = range(1, MOST_RANKS + 1)) -> tuple[int, list[str]]:
    """Run random programs on one number of ranks after the other; return how many were the same, and faults."""
    same, faults = 0, list[str]()
    for number, begin in enumerate(range(first, first + count, BATCH)):
        ranks, size = jobs[number % len(jobs)], min(BATCH, first + count - begin)
        status, out, err = start(ranks, f"{kind}s", str(begin), str(size))
        for seed in range(begin, begin + size):
            lines = re.findall(rf"^{kind} {seed} on rank \d+: (.*)$", out, re.MULTILINE)
            if lines == ["same"] * ranks:
                same += 1
            else:
                faults.append(f"{kind} {seed} on {ranks} ranks: {lines}, exit status {status}: {err[-2000:]}")
                break
    return same, faults


def judge(status: int, out: str, err: str) -> tuple[str, str]:
    """Return how a job that lost ranks ended, and what is wrong with it."""
    lines = re.findall(r"^rank (\d+) of (\d+): (.*)$", out, re.MULTILINE)
    if "hangs" in err[:5]:
        return "hangs", err
    if lines and all(verdict == "same" and int(ranks) == len(lines) for _, ranks, verdict in lines):
        return "same bits", ""
    strange = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception))\b.*$", err, re.MULTILINE)
    has_differed = any(verdict != "same" for _, _, verdict in lines)
    if status != 0 and not has_differed and not strange and any(re.search(text, err) for text in CLEAR):
        return "one clear error", ""
    return "FAULT", f"exit status {status}, {lines}: {err[-1500:]}"


def lose(first: int, kills: int) -> tuple[Counter[str], Counter[str], list[str]]:
    """Run jobs until so many ranks were killed; return where, how the jobs ended, and faults."""
    places, ends, faults = Counter[str](), Counter[str](), list[str]()
    seed = first
    while places.total() < kills and len(faults) < 10:
        ranks, shrinks = 2 + seed % (MOST_RANKS - 1), seed % 4 != 3
        words = ("losses", str(seed), "shrink" if shrinks else "stop")
        status, out, err = start(ranks, *words, options=SHRINK if shrinks else ())
        armed, survived = (Counter(re.findall(rf"{word}: (.*)$", out, re.MULTILINE)) for word in ("armed", "survived"))
        places += armed - survived
        end, fault = judge(status, out, err)
        ends[f"{words[2]}: {end}"] += 1
        faults += [f"seed {seed} on {ranks} ranks, {words[2]}, {dict(armed - survived)}: {fault}"] if fault else []
        seed += 1
    return places, ends, faults


def texts(counts: Counter[str]) -> Iterable[str]:
    """Return lines of counts."""
    return [f"{count:6} {name}" for name, count in counts.most_common()]


def main() -> None:
    """Run as much as the command line says."""
    trainings, graphs, kills, first = [*map(int, sys.argv[1:]), *[300, 200, 100, 0][len(sys.argv) - 1 :]]
    lines, faults = list[str](), list[str]()
    for kind, count in (("training", trainings), ("graph", graphs)):
        same, found = compare(kind, first, count)
        lines.append(f"{same:6} of {count} {kind}s with the bits of one process")
        faults += found
    places, ends, found = lose(first, kills)
    lines += [f"{places.total():6} kills, by call:", *texts(places), "jobs that lost ranks:", *texts(ends)]
    faults += found
    sys.stdout.write("\n".join([*lines, *faults, ""]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
