"""Run seeds in child processes and collect their outcomes.

If a child process ends unexpectedly, its last announced seed is a failure. A new child process continues
with the next seed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHUNK = 100
"""Number of seeds per child process, whose end releases its memory."""

SECONDS = 20.0
"""Time limit of one input in seconds."""

CHILD = (sys.executable, "-m", "tests.fuzz.child")
_TIMED_OUT = "Timeout ("


@dataclass(frozen=True)
class Outcome:
    """Outcome of a seed: `result`, `refusal` (a clean error) or `failure`, with a message."""

    target: str
    seed: int
    kind: str
    message: str

    @property
    def repeat(self) -> str:
        """Command that repeats the seed."""
        return f"python -m tests.fuzz.run --target {self.target} --seed {self.seed}"


def outcomes(
    target: str, first: int, count: int, *, jobs: int = 1, stored: bool = False
) -> Iterator[Outcome]:
    """Yield the outcomes of `count` seeds from `first` on, in the order of completion."""
    end = first + count
    starts = range(first, end, CHUNK)
    with ThreadPoolExecutor(jobs) as pool:
        chunks = [pool.submit(_run_chunk, target, s, min(s + CHUNK, end), stored) for s in starts]
        for chunk in as_completed(chunks):
            yield from chunk.result()


def _run_chunk(target: str, first: int, end: int, stored: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    while first < end:
        new_outcomes, open_seed, failure_reason = _run_child(target, first, end, stored, SECONDS)
        outcomes += new_outcomes
        if open_seed is None and not failure_reason:
            break
        if open_seed is None:
            raise RuntimeError(f"the fuzzing itself failed: {failure_reason}")
        # The machine may have been busy, so the seed is repeated with more time.
        if _TIMED_OUT in failure_reason:
            repeated_outcomes, _, failure_reason = _run_child(
                target, open_seed, open_seed + 1, stored, 3 * SECONDS
            )
            outcomes += repeated_outcomes
        if not outcomes or outcomes[-1].seed != open_seed:
            outcomes.append(Outcome(target, open_seed, "failure", failure_reason))
        first = open_seed + 1
    return outcomes


def _run_child(
    target: str, first: int, end: int, stored: bool, seconds: float
) -> tuple[list[Outcome], int | None, str]:
    """Run a child process.

    Returns:
        Outcomes, the seed without an outcome at the end of the process, and the reason of a failed process.
    """
    command = [*CHILD, target, str(first), str(end), "--seconds", str(seconds)]
    command += ["--stored"] if stored else []
    outcomes: list[Outcome] = []
    running_seed: int | None = None
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                entry = json.loads(line)
                running_seed = entry["seed"]
                if "kind" in entry:
                    outcomes.append(Outcome(target, **entry))
                    running_seed = None
        errors.seek(0)
        failure_reason = (
            "" if child.returncode == 0 else f"exit {child.returncode}\n{errors.read()[-6000:]}"
        )
    return outcomes, running_seed, failure_reason
