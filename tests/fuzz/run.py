"""Fuzzing by hand and at night: broken models until as many as asked for have been tried.

python -m tests.fuzz.run                                    # 10 000, all readers in turn
python -m tests.fuzz.run --count 50000 --first 1000000      # others
python -m tests.fuzz.run --reader onnx --seed 1234          # one again; --keep FOLDER: its files
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import time
from pathlib import Path

from tests.fuzz.children import Outcome, outcomes
from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import READERS


def main() -> int:
    """Try what the command line asks for; the exit code says whether all went well."""
    asked = _arguments()
    first, count = (asked.first, asked.count) if asked.seed is None else (asked.seed, 1)
    readers = [asked.reader] if asked.reader else list(READERS)
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
        print(mutated(readers[0], first, asked.stored).write(asked.keep))
    failed = 0
    for reader in readers:
        part = -(-count // len(readers))
        failed += _tried(reader, first, part, asked)
    return min(failed, 1)


def _tried(reader: str, first: int, count: int, asked: argparse.Namespace) -> int:
    """Try the seeds of one reader; the number of failures."""
    began, kinds = time.monotonic(), collections.Counter[str]()
    for found in outcomes(reader, first, count, jobs=asked.jobs, stored=asked.stored):
        kinds[found.kind] += 1
        if found.kind == "failure":
            _show(found, asked.stored)
        elif asked.seed is not None:
            print(found.said)
    seconds = time.monotonic() - began
    said = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    print(f"{reader}: {said}; {seconds:.0f} s", flush=True)
    return kinds["failure"]


def _show(found: Outcome, stored: bool) -> None:
    print(f"\n=== {found.repeat}{' --stored' if stored else ''}\n{found.said.rstrip()}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reader", choices=READERS)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000, help="inputs, all readers together")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--keep", type=Path, help="write the files of the first seed into a folder")
    parser.add_argument("--stored", action="store_true", help="start from the stored cases too")
    asked = parser.parse_args()
    if asked.seed is not None and not asked.reader:
        parser.error("--seed needs --reader")
    return asked


if __name__ == "__main__":
    sys.exit(main())
