"""Child process that tries seeds and prints one line before and one line after each seed.

    python -m tests.fuzz.child onnx 100 200        # seeds 100 to 199 of a target

The process ends at the first input that crashes it or takes too long. The last line tells the parent
(`children`) the seed of this input.
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
from tests.fuzz.mutations import mutate_model, mutate_scene_of_seed
from tests.fuzz.seeds import READERS

MAX_GROWTH = 2**20
"""Largest increase of the peak memory by one input in KiB."""

MAX_PEAK = 2 * 2**20
"""Largest peak memory of the process in KiB."""

MAX_MESSAGE_LENGTH = 6_000
"""Number of characters kept at the end of a traceback."""


def attempt(target: str, seed: int, stored: bool) -> dict[str, str]:
    """Try one seed and return its outcome: `result`, `refusal` or `failure`, and a message or traceback."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        try:
            message = _outcome_of_seed(target, seed, stored, Path(folder))
        except BaseException:  # noqa: BLE001 - fuzzing searches for all exceptions
            return {
                "kind": "failure",
                "message": traceback.format_exc(chain=False)[-MAX_MESSAGE_LENGTH:],
            }
    now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if now > MAX_PEAK or now - before > MAX_GROWTH:
        growth = f"the input took {(now - before) // 1024} MiB, the process {now // 1024} MiB"
        return {"kind": "failure", "message": f"{growth}: {message}"}
    return {
        "kind": "result" if message.startswith("result") else "refusal",
        "message": message[:MAX_MESSAGE_LENGTH],
    }


def _outcome_of_seed(target: str, seed: int, stored: bool, folder: Path) -> str:
    if target in READERS:
        return outcome(mutate_model(target, seed, stored).write(folder))
    return command_outcome(mutate_scene_of_seed(target, seed), folder)


def main() -> None:
    """Try the range of seeds from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--memory", type=float, default=3, help="limit of the address space in GiB")
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
