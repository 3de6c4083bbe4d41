"""The process that tries seeds: one line before each, one after it.

    python -m tests.fuzz.child onnx 100 200        # seeds 100 to 199 of a target

It dies with the first input that kills it or takes too long; the parent (`children`) sees which one
it was.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import sys
import tempfile
import traceback
from pathlib import Path

from tests.fuzz.chain import outcome
from tests.fuzz.commands import command_outcome
from tests.fuzz.mutations import mutated, mutated_scene
from tests.fuzz.seeds import READERS

LARGEST_GROWTH = 2**20
"""KiB that one input may need on top of what the process has needed before."""

LARGEST = 2 * 2**20
"""KiB that the process may need."""

LONGEST = 6_000
"""Characters of a traceback, from its end."""


def attempt(target: str, seed: int, stored: bool) -> dict[str, str]:
    """What came of one seed: `result`, `refusal` or `failure`, and its sentence or traceback."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        try:
            message = _tried(target, seed, stored, Path(folder))
        except BaseException:  # noqa: BLE001 - whatever it is, it is what is looked for
            return {"kind": "failure", "message": traceback.format_exc(chain=False)[-LONGEST:]}
    now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if now > LARGEST or now - before > LARGEST_GROWTH:
        growth = f"it took {(now - before) // 1024} MiB, with all before {now // 1024} MiB"
        return {"kind": "failure", "message": f"{growth}: {message}"}
    return {
        "kind": "result" if message.startswith("result") else "refusal",
        "message": message[:LONGEST],
    }


def _tried(target: str, seed: int, stored: bool, folder: Path) -> str:
    if target in READERS:
        return outcome(mutated(target, seed, stored).write(folder))
    return command_outcome(mutated_scene(target, seed), folder)


def main() -> None:
    """Try the seeds that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--memory", type=float, default=3, help="GiB of addresses")
    options = parser.parse_args()
    limit = int(options.memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for seed in range(options.first, options.end):
        print(json.dumps({"seed": seed}), file=lines)
        faulthandler.dump_traceback_later(options.seconds, exit=True)
        outcome = attempt(options.target, seed, options.stored)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"seed": seed, **outcome}), file=lines)


if __name__ == "__main__":
    faulthandler.enable()
    main()
