"""Commands: ``python -m tests.platforms``, and with ``random --count 100`` or ``aarch64`` behind it.

Names behind the first two choose processors, behind the last one tests.
"""

from __future__ import annotations

import argparse
import sys

from tests.platforms.arm import run_tests
from tests.platforms.compare import compare_all, compare_random, link_all
from tests.platforms.processors import PROCESSORS


def main() -> int:
    """Run what the command line asks for; return 0 where nothing differs and no test fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.platforms", description=__doc__)
    parser.add_argument("what", nargs="?", default="programs", choices=["programs", "random", "aarch64"])
    parser.add_argument("names", nargs="*", help=f"processors of {', '.join(PROCESSORS)}; for aarch64: tests")
    parser.add_argument("--count", type=int, default=100, help="of random programs")
    parser.add_argument("--start", type=int, default=0, help="the first one's seed")
    given = parser.parse_intermixed_args()
    if given.what == "aarch64":
        return run_tests(given.names)
    if given.what == "programs":
        return min(compare_all(names=given.names) + (0 if given.names else link_all()), 1)
    verdicts = compare_random(given.count, given.start, given.names)
    return int(any(set(found) - {"same"} for found in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
