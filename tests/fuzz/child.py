"""The process that tries seeds: one line before each, one after it.

    python -m tests.fuzz.child onnx 100 200        # seeds 100 to 199

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
from tests.fuzz.mutations import mutated

LARGEST_GROWTH = 2**20
"""KiB that one input may need on top of what the process has needed before."""

LONGEST = 6_000
"""Characters of a traceback, from its end."""


def attempt(reader: str, seed: int, stored: bool) -> dict[str, str]:
    """What came of one seed: `result`, `refusal` or `failure`, and its sentence or traceback."""
    files = mutated(reader, seed, stored)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        try:
            said = outcome(files.write(Path(folder)))
        except BaseException:  # noqa: BLE001 - whatever it is, it is what is looked for
            return {"kind": "failure", "said": traceback.format_exc(chain=False)[-LONGEST:]}
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > LARGEST_GROWTH:
        return {"kind": "failure", "said": f"it took {grown // 1024} MiB: {said}"}
    return {"kind": "result" if said.startswith("result") else "refusal", "said": said[:LONGEST]}


def main() -> None:
    """Try the seeds that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader")
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--memory", type=float, default=3, help="GiB of addresses")
    asked = parser.parse_args()
    limit = int(asked.memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for seed in range(asked.first, asked.end):
        print(json.dumps({"seed": seed}), file=lines)
        faulthandler.dump_traceback_later(asked.seconds, exit=True)
        told = attempt(asked.reader, seed, asked.stored)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"seed": seed, **told}), file=lines)


if __name__ == "__main__":
    faulthandler.enable()
    main()
