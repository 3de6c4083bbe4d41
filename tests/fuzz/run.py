"""Fuzz from the command line: try a number of broken models, files and commands.

python -m tests.fuzz.run                                    # 10 000 inputs, all targets in turn

python -m tests.fuzz.run --count 50000 --first 1000000      # other seeds

python -m tests.fuzz.run --target onnx --seed 1234          # repeat one seed

python -m tests.fuzz.run --target onnx --seed 1234 --keep FOLDER    # also write its files
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
from tests.fuzz.mutations import TARGETS, mutate_model, mutate_scene_of_seed
from tests.fuzz.seeds import READERS


def main() -> int:
    """Try the seeds from the command line; return exit code 1 if one of them fails."""
    options = _arguments()
    first, count = (options.first, options.count) if options.seed is None else (options.seed, 1)
    targets = [options.target] if options.target else list(TARGETS)
    if options.keep:
        _write_files(targets[0], first, options)
    failed = 0
    for target in targets:
        part = -(-count // len(targets))
        failed += _count_failures(target, first, part, options)
    return min(failed, 1)


def _write_files(target: str, seed: int, options: argparse.Namespace) -> None:
    """Write the files of a seed and print the command to try them by hand."""
    options.keep.mkdir(parents=True, exist_ok=True)
    if target in READERS:
        print(mutate_model(target, seed, options.stored).write(options.keep))
        return
    scene = mutate_scene_of_seed(target, seed)
    scene.write(options.keep)
    print(f"cd {options.keep} && mdf-loop {shlex.join(scene.words)}")


def _count_failures(target: str, first: int, count: int, options: argparse.Namespace) -> int:
    """Try the seeds of one target and return the number of failures."""
    start, kinds = time.monotonic(), collections.Counter[str]()
    for outcome in outcomes(target, first, count, jobs=options.jobs, stored=options.stored):
        kinds[outcome.kind] += 1
        if outcome.kind == "failure":
            _show(outcome, options.stored)
        elif options.seed is not None:
            print(outcome.message)
    seconds = time.monotonic() - start
    counts = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    print(f"{target}: {counts}; {seconds:.0f} s", flush=True)
    return kinds["failure"]


def _show(outcome: Outcome, stored: bool) -> None:
    print(
        f"\n=== {outcome.repeat}{' --stored' if stored else ''}\n{outcome.message.rstrip()}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--seed", type=int, help="try only this seed")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000, help="inputs, all targets together")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--keep", type=Path, help="write the files of the first seed into a folder")
    parser.add_argument("--stored", action="store_true", help="start from the stored cases too")
    options = parser.parse_args()
    if options.seed is not None and not options.target:
        parser.error("--seed needs --target")
    return options


if __name__ == "__main__":
    sys.exit(main())
