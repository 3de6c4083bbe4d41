"""Ways to run a model over time with equal bits: repeated, chunked, split, resumed, subsampled and streamed."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from mdf_loop import Results
from mdf_loop.api.compiled import CompiledModel
from tests.long_runs.helpers import Case, chunked, resumed, unbroken
from tests.random_programs.agreement import differences
from tests.random_programs.forms import Arrays, outcome
from tests.strategies.addresses import shifted


def arrays_of(results: Results) -> dict[str, np.ndarray]:
    """Return the outputs and the final state of a run."""
    state = {f"state {name}": np.asarray(array) for name, array in (results.state or {}).items()}
    return {name: np.asarray(results[name][...]) for name in results} | state


class Ways:
    """Ways to run one case; the inputs named in `rows` have a row for each step."""

    def __init__(
        self,
        case: Case,
        compiled: CompiledModel,
        rows: Collection[str],
        rng: random.Random,
        folder: Path,
    ) -> None:
        self.case = replace(case, arguments={**case.arguments, "nan": "ignore"})
        self.compiled = compiled
        self.rows = rows
        self.rng = rng
        self.folder = folder

    def whole(self) -> Results:
        """Return the results of one uninterrupted run."""
        return unbroken(self.case, self.compiled)

    def differences(self, whole: Results) -> Iterator[str]:
        """Yield differences between the uninterrupted run and the same run in other ways."""
        expected = arrays_of(whole)
        ways: dict[str, Callable[[], Arrays]] = {
            "again": self.again,
            "chunks": self.in_chunks,
            "cut": self.cut,
        }
        if self.rng.random() < 0.25:
            ways["resumed"] = self.resumed
        if self.rng.random() < 0.2:
            ways["streamed"] = self.streamed
        for way, compute in ways.items():
            yield from (f"{way}: {text}" for text in differences(outcome(compute), expected))
        if self.rng.random() < 0.4:
            every = self.rng.choice((2, 3, 7))
            front = (slice(None),) * (len(whole.axes) - 1) + (slice(None, None, every),)
            expected_rows = {
                n: a if n.startswith("state ") else a[front] for n, a in expected.items()
            }
            rows = outcome(lambda: self.thinned(every))
            yield from (f"every {every}: {text}" for text in differences(rows, expected_rows))

    def again(self) -> Arrays:
        """Return the outputs of a repeated run with inputs at other memory addresses."""
        inputs = self.case.arguments.get("inputs", {})
        copies = {n: shifted(np.asarray(a), self.rng.randrange(8)) for n, a in inputs.items()}
        return arrays_of(
            self.compiled.run(**{**self.case.arguments, "inputs": copies}, progress=False)
        )

    def in_chunks(self) -> Arrays:
        """Return the outputs of a run in chunks of random lengths."""
        return arrays_of(chunked(self.case, self.rng.getrandbits(32), self.compiled)[0])

    def resumed(self) -> Arrays:
        """Return the outputs of a run that is stopped, recompiled and resumed from checkpoints."""
        file = self.folder / "run.checkpoint"
        return arrays_of(resumed(self.case, self.rng.getrandbits(32), file, 2)[0])

    def streamed(self) -> Arrays:
        """Return the outputs of a run that streams its rows to a store."""
        store = {"output": self.folder / "rows.zarr", "overwrite": True}
        case = replace(self.case, arguments={**self.case.arguments, **store})
        return arrays_of(chunked(case, self.rng.getrandbits(32), self.compiled)[0])

    def thinned(self, every: int) -> Arrays:
        """Return the outputs of a run that records every `every`-th row."""
        return arrays_of(self.compiled.run(**self.case.arguments, every=every, progress=False))

    def cut(self) -> Arrays:
        """Return the outputs of consecutive short runs, each started from the state of the previous one."""
        steps = self.case.arguments["steps"]
        count = min(steps - 1, self.rng.randint(1, 3))
        ends = sorted((*self.rng.sample(range(1, steps), count), steps))
        parts: list[Results] = []
        for first, last in zip((0, *ends), ends, strict=False):
            state = {"state": parts[-1].state} if parts else {}
            words = {**self.case.arguments, **state, "steps": last - first}
            for word, axis in (("inputs", 0), ("sweep", 1)):
                words[word] = {
                    name: np.asarray(array).take(range(first, last), axis)
                    if name in self.rows
                    else array
                    for name, array in self.case.arguments.get(word, {}).items()
                }
            parts.append(self.compiled.run(**words, progress=False))
        axis = len(parts[0].axes) - 1
        whole = {
            name: np.concatenate([np.asarray(part[name]) for part in parts], axis=axis)
            for name in parts[0]
        }
        return whole | {f"state {n}": np.asarray(a) for n, a in parts[-1].state.items()}
