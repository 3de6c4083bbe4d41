"""Fuzzing by hand and at night: broken models, files and commands until as many as asked for have been tried.

python -m tests.fuzz.run                                    # 10 000, all targets in turn
python -m tests.fuzz.run --count 50000 --first 1000000      # others
python -m tests.fuzz.run --target onnx --seed 1234          # one again; --keep FOLDER: its files
"""

from __future__ import annotations

import argparse
import collections
import os
import shlex
import sys
import time
from pathlib import Path

from tests.fuzz.children import Outcome, outcomes
from tests.fuzz.mutations import TARGETS, mutated, mutated_scene
from tests.fuzz.seeds import READERS


def main() -> int:
    """Try what the command line asks for; the exit code says whether all went well."""
    asked = _arguments()
    first, count = (asked.first, asked.count) if asked.seed is None else (asked.seed, 1)
    targets = [asked.target] if asked.target else list(TARGETS)
    if asked.keep:
        _keep(targets[0], first, asked)
    failed = 0
    for target in targets:
        part = -(-count // len(targets))
        failed += _tried(target, first, part, asked)
    return min(failed, 1)


def _keep(target: str, seed: int, asked: argparse.Namespace) -> None:
    """Write what is tried, and say how to try it by hand."""
    asked.keep.mkdir(parents=True, exist_ok=True)
    if target in READERS:
        print(mutated(target, seed, asked.stored).write(asked.keep))
        return
    scene = mutated_scene(target, seed)
    scene.write(asked.keep)
    print(f"cd {asked.keep} && mdf-loop {shlex.join(scene.words)}")


def _tried(target: str, first: int, count: int, asked: argparse.Namespace) -> int:
    """Try the seeds of one target; the number of failures."""
    began, kinds = time.monotonic(), collections.Counter[str]()
    for found in outcomes(target, first, count, jobs=asked.jobs, stored=asked.stored):
        kinds[found.kind] += 1
        if found.kind == "failure":
            _show(found, asked.stored)
        elif asked.seed is not None:
            print(found.said)
    seconds = time.monotonic() - began
    said = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    print(f"{target}: {said}; {seconds:.0f} s", flush=True)
    return kinds["failure"]


def _show(found: Outcome, stored: bool) -> None:
    print(f"\n=== {found.repeat}{' --stored' if stored else ''}\n{found.said.rstrip()}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000, help="inputs, all targets together")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--keep", type=Path, help="write the files of the first seed into a folder")
    parser.add_argument("--stored", action="store_true", help="start from the stored cases too")
    asked = parser.parse_args()
    if asked.seed is not None and not asked.target:
        parser.error("--seed needs --target")
    return asked


if __name__ == "__main__":
    sys.exit(main())
