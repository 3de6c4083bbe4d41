"""Child processes that try seeds, and what is known of each seed afterwards.

A child that dies takes no seed with it but the one that it had announced; another goes on after it.
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
"""Seeds for one child: it then gives back its memory."""

SECONDS = 20.0
"""For one input."""

CHILD = (sys.executable, "-m", "tests.fuzz.child")
_TIMED_OUT = "Timeout ("


@dataclass(frozen=True)
class Outcome:
    """What came of a seed: `result`, `refusal` (a clean error) or `failure`; and what was said."""

    target: str
    seed: int
    kind: str
    message: str

    @property
    def repeat(self) -> str:
        """The command that does it again."""
        return f"python -m tests.fuzz.run --target {self.target} --seed {self.seed}"


def outcomes(
    target: str, first: int, count: int, *, jobs: int = 1, stored: bool = False
) -> Iterator[Outcome]:
    """What came of the seeds from `first` on, as they are tried."""
    end = first + count
    starts = range(first, end, CHUNK)
    with ThreadPoolExecutor(jobs) as pool:
        chunks = [pool.submit(_chunk, target, s, min(s + CHUNK, end), stored) for s in starts]
        for chunk in as_completed(chunks):
            yield from chunk.result()


def _chunk(target: str, first: int, end: int, stored: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    while first < end:
        new_outcomes, open_seed, died = _child(target, first, end, stored, SECONDS)
        outcomes += new_outcomes
        if open_seed is None and not died:
            break
        if open_seed is None:
            raise RuntimeError(f"the fuzzing itself failed: {died}")
        if _TIMED_OUT in died:  # the machine may have been busy: once more, with patience
            again, _, died = _child(target, open_seed, open_seed + 1, stored, 3 * SECONDS)
            outcomes += again
        if not outcomes or outcomes[-1].seed != open_seed:
            outcomes.append(Outcome(target, open_seed, "failure", died))
        first = open_seed + 1
    return outcomes


def _child(
    target: str, first: int, end: int, stored: bool, seconds: float
) -> tuple[list[Outcome], int | None, str]:
    """Outcomes, the seed that was begun and not ended, and how the child died."""
    command = [*CHILD, target, str(first), str(end), "--seconds", str(seconds)]
    command += ["--stored"] if stored else []
    outcomes: list[Outcome] = []
    begun: int | None = None
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                entry = json.loads(line)
                begun = entry["seed"]
                if "kind" in entry:
                    outcomes.append(Outcome(target, **entry))
                    begun = None
        errors.seek(0)
        died = "" if child.returncode == 0 else f"exit {child.returncode}\n{errors.read()[-6000:]}"
    return outcomes, begun, died
