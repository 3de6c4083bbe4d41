"""Command that judges random programs, for manual and nightly runs.

python -m tests.random_programs.run --first 0 --count 10000              # resumable: a range of seeds
python -m tests.random_programs.run --first 10000 --count 10000 --kind onnx
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping

import onnxruntime

from tests.random_programs.expression_programs import expression_program
from tests.random_programs.onnx_programs import onnx_program
from tests.random_programs.verdicts import Draw, Judge, Tally, judge_programs, verdict

KINDS = {"onnx": onnx_program, "expression": expression_program}
BLOCK = 20


def main(description: str, kinds: Mapping[str, Draw], judge: Judge = verdict) -> int:
    """Judge the seeds on the command line and return the exit code, 0 if all programs agree."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="*", help="only these")
    parser.add_argument("--kind", choices=kinds, default=next(iter(kinds)))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    total, began = Tally(), time.monotonic()
    for seed in arguments.seeds or ():
        print(
            *judge_programs(kinds[arguments.kind], seed, 1, judge).failures or (f"{seed} agrees",),
            sep="\n",
        )
    if arguments.seeds:
        return 0
    for first in range(arguments.first, arguments.first + arguments.count, BLOCK):
        left = arguments.first + arguments.count - first
        tally = judge_programs(kinds[arguments.kind], first, min(BLOCK, left), judge)
        for failure in tally.failures:
            print(failure, flush=True)
        total.counts.update(tally.counts)
        total.refusals.update(tally.refusals)
        if (first - arguments.first) % 100 == 0 or left <= BLOCK:
            print(first, dict(total.counts), f"{time.monotonic() - began:.0f} s", flush=True)
    print(total.refusals.most_common(20))
    return int(total.counts["differ"] > 0)


if __name__ == "__main__":
    raise SystemExit(main(__doc__ or "", KINDS))
