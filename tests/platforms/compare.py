"""Comparisons: each program's digest on this processor, and whether other kinds give it too."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import afx
from afx import export, pytree
from afx.errors import ArgumentError, MissingExtraError
from examples.one_hash import programs
from tests.platforms.processors import PROCESSORS, Processor, run_cases
from tests.portable.programs import CASES, Case, digest
from tests.random_everyday import random_everyday

CHUNK = 20  # random programs that one executable holds
FEW = ("loop", "draws")
LINKED = ("macos-arm64", "macos-x86_64", "windows-x86_64")


def all_cases() -> dict[str, Case]:
    """Return the programs of the tests and of the example, by names that C takes."""
    cases = {f"test_{_plain(name)}": case for name, case in CASES.items()}
    return {**cases, **{f"example_{_plain(name)}": Case(*program) for name, program in programs().items()}}


def few_cases() -> dict[str, Case]:
    """Return some that are soon compiled."""
    return {f"test_{_plain(name)}": CASES[name] for name in FEW}


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)


def able_processors(names: Sequence[str] = ()) -> tuple[dict[str, Processor], dict[str, str]]:
    """Return the kinds that this machine can run, of these names if any, and of the others what is missing."""
    kinds = {name: PROCESSORS[name] for name in names or PROCESSORS}
    missing = {name: text for name, kind in kinds.items() if (text := kind.missing())}
    return {name: kind for name, kind in kinds.items() if name not in missing}, missing


def jitted(case: Case) -> list[Any] | str:
    """Return what ``jit`` gives here, or why it gives nothing."""
    try:
        return [np.asarray(x) for x in pytree.leaves(afx.jit(case.fn, backend="portable")(*case.args))]
    except ArgumentError as error:
        return str(error)


def judge(result: list[Any] | str, wanted: list[Any] | str) -> str:
    """Return how a result compares: ``same``, ``differs`` and by how much, or why there is none.

    >>> judge([np.ones(2)], [np.ones(2)]), judge([np.ones(2)], [np.zeros(2)]), judge("refused: eigh", [np.ones(2)])
    ('same', 'differs by 1', 'refused: eigh')
    """
    if isinstance(result, str) or isinstance(wanted, str):
        return "refused" if isinstance(result, str) and isinstance(wanted, str) else str(result)
    shaped = [np.asarray(x).reshape(np.shape(y)) for x, y in zip(result, wanted, strict=True)]
    if digest(shaped) == digest(wanted):
        return "same"
    with np.errstate(all="ignore"):
        return f"differs by {max([_gap(x, y) for x, y in zip(shaped, wanted, strict=True)]):g}"


def _gap(x: Any, y: Any) -> float:
    wide = complex if x.dtype.kind == "c" else float
    return float(np.max(np.abs(x.astype(wide) - y.astype(wide)), initial=0.0))


def compare(cases: Mapping[str, Case], kinds: Mapping[str, Processor]) -> dict[str, dict[str, str]]:
    """Return for each program how each kind's results compare with those of ``jit`` here."""
    wanted = {name: jitted(case) for name, case in cases.items()}
    table: dict[str, dict[str, str]] = {name: {} for name in cases}
    for kind, processor in kinds.items():
        results = run_cases(
            processor, {name: case for name, case in cases.items() if not isinstance(wanted[name], str)}
        )
        for name in cases:
            table[name][kind] = judge(results.get(name, "refused"), wanted[name])
    for name, values in wanted.items():
        table[name]["digest"] = digest(values)[:16] if not isinstance(values, str) else values
    return table


def compare_all(say: Callable[[str], None] = print, names: Sequence[str] = ()) -> int:
    """Compare all programs; return how many results differ."""
    kinds, missing = able_processors(names)
    for kind, text in missing.items():
        say(f"{kind}: not run, it needs {text}")
    table = compare(all_cases(), kinds)
    for name, row in table.items():
        say(f"{row['digest']}  {name:40}  " + "  ".join([f"{kind} {row[kind]}" for kind in kinds]))
    return sum([row[kind] != "same" for row in table.values() for kind in kinds])


def link_all(say: Callable[[str], None] = print) -> int:
    """Link the example for systems that are not run on; return how many linkers refuse it."""
    refused = 0
    for system in LINKED:
        try:
            for name, (program, arguments) in programs().items():
                made = export.compile(program, *arguments, target=system, name=_plain(f"of {name}"), bits="portable")
                say(f"{system}: {name} linked, {len(made.shared):,} bytes; not run")
        except (MissingExtraError, RuntimeError) as error:
            refused += isinstance(error, RuntimeError)
            say(f"{system}: {error}")
    return refused


def compare_random(
    count: int, start: int, names: Sequence[str], say: Callable[[str], None] = print
) -> dict[str, Counter[str]]:
    """Compare so many random programs, of which every third is a gradient; return how often each kind gives which verdict.

    Those that are refused, or raise an error, do not count.
    """
    kinds, missing = able_processors(names)
    for kind, text in missing.items():
        say(f"{kind}: not run, it needs {text}")
    verdicts = {kind: Counter[str]() for kind in kinds}
    refused, seed, run = Counter[str](), start, 0
    while run < count:
        cases = dict[str, Case]()
        wanted = dict[str, list[Any] | str]()
        while len(cases) < min(CHUNK, count - run):
            name, case = f"random_{seed}", Case(*_random_case(seed))
            result = _tried(case)
            seed += 1
            if isinstance(result, str):
                refused[result] += 1
            else:
                cases[name], wanted[name] = case, result
        run += len(cases)
        for kind, processor in kinds.items():
            results = run_cases(processor, cases)
            for name, values in wanted.items():
                verdict = judge(results[name], values)
                verdicts[kind][verdict.split(" ", 1)[0]] += 1
                if verdict != "same":
                    say(f"{kind}: {name} {verdict}")
        say(f"{run} programs up to seed {seed - 1}: {verdicts}; {sum(refused.values())} refused")
    for reason, times in refused.most_common(12):
        say(f"refused {times} times: {reason}")
    return verdicts


def _random_case(seed: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    fn, args = random_everyday(seed)
    return fn, tuple(args)


def _tried(case: Case) -> list[Any] | str:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = jitted(case)
        except Exception as error:  # a singular matrix, say: no result to compare
            return type(error).__name__
    return result if not isinstance(result, str) else re.sub(r" at \S+:\d+.*", "", result)[:100]
