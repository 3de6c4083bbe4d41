"""The verdict on a random model: equal bits within one form, agreement of forms and of members with single runs."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop import Results
from mdf_loop.errors import LoopError
from mdf_loop.native.loop_decisions import NATIVE, STANDARD_FOR_LITTLE_WORK
from tests.random_models.forms import Form, Forms, file_outputs, form_of_model
from tests.random_models.models import RandomModel
from tests.random_models.ways import Ways, arrays_of
from tests.random_programs.agreement import differences, largest_of
from tests.random_programs.amplification import amplifies, traced
from tests.random_programs.forms import Failure, Outcome, outcome
from tests.random_programs.verdicts import Tally

Part = Callable[[list[int]], Mapping[str, Any]]
"""Function that returns the run arguments for some members of a sweep."""


def verdict(model: RandomModel, tally: Tally, seed: int) -> list[str]:
    """Run a model in all forms and ways, count the verdict and return descriptions of the differences."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            examination = _Examination(model, seed, Path(folder))
        except LoopError as refusal:
            tally.counts["refused"] += 1
            tally.refusals[str(refusal).splitlines()[0][:100]] += 1
            return []
        problems = list(examination.differences())
    tally.counts.update(examination.counts)
    tally.counts["exact" if model.is_exact else "with functions"] += 1
    return problems


class _Examination:
    """A random model with its forms, each of which has run once."""

    def __init__(self, model: RandomModel, seed: int, folder: Path) -> None:
        self.model = model
        self.folder = folder
        self.rng = random.Random(f"ways {seed}")
        self.forms = Forms(model)
        self.counts: set[str] = set()

    def differences(self) -> Iterator[str]:
        """Yield descriptions of all differences."""
        yield from self._one_run()
        if self.model.sweep:
            yield from self._members(
                "sweep", self._swept, len(next(iter(self.model.sweep.values())))
            )
        if self.model.draws:
            yield from self._members("trials", lambda trials: {"trials": trials}, 5)

    def _one_run(self) -> Iterator[str]:
        """Yield differences between the forms of one run, and between ways to run one form."""
        wholes = {}
        for word in ("standard", "native"):
            form = self._form(word, {})
            ways = self._ways(form, {})
            wholes[word] = ways.whole()
            yield from (f"{word}, {text}" for text in ways.differences(wholes[word]))
        words = set(wholes["native"].native.values())
        self.counts.add("native" if words == {NATIVE} else "not native")
        outputs = {word: arrays_of(results) for word, results in wholes.items()}
        for text in self._far(outputs["native"], outputs["standard"], {}):
            yield f"native beside standard: {text}"
        yield from self._automatic_form(wholes["native"])
        other = outcome(lambda: arrays_of(self.forms.standard.run(engine="interpreter")))
        for text in self._far(other, outputs["standard"], {}):
            yield f"interpreter beside standard: {text}"
        rows_of_file = outcome(lambda: file_outputs(self.model, self.forms.standard.compiled))
        names = rows_of_file if not isinstance(rows_of_file, Failure) else outputs["standard"]
        for text in self._far(rows_of_file, {n: outputs["standard"][n] for n in names}, {}):
            yield f"file beside standard: {text}"

    def _automatic_form(self, native: Results) -> Iterator[str]:
        """Yield differences between the automatically selected form and the native form."""
        form = self.forms.auto
        ways = self._ways(form, {})
        results = form.run()
        automatic, words = arrays_of(results), set(results.native.values())
        if words <= {NATIVE, STANDARD_FOR_LITTLE_WORK} and set(native.native.values()) == {NATIVE}:
            problems = differences(automatic, arrays_of(native))
            yield from (f"auto beside native: {text}" for text in problems)
        yield from (f"auto, cut: {text}" for text in differences(outcome(ways.cut), automatic))

    def _swept(self, members: list[int]) -> dict[str, Any]:
        sweep = {name: values[members] for name, values in self.model.sweep.items()}
        inputs = {n: array for n, array in self.model.run["inputs"].items() if n not in sweep}
        return {"sweep": sweep, "inputs": inputs}

    def _single(self, member: int) -> dict[str, Any]:
        """Return the run arguments for one member of a sweep alone."""
        values = {name: array[member] for name, array in self.model.sweep.items()}
        inputs = self.model.run["inputs"]
        return {
            "inputs": inputs | {n: v for n, v in values.items() if n in self.model.feeds},
            "set": {n: v for n, v in values.items() if n not in self.model.feeds},
        }

    def _members(self, word: str, part: Part, count: int) -> Iterator[str]:
        """Yield differences among members that run together, in blocks and alone."""
        every = part(list(range(count)))
        outputs: dict[str, Outcome] = {}
        for name in ("standard", "native"):
            try:
                form = self._form(name, every)
                results = form.run(**every)
            except LoopError as refusal:
                self.counts.add(f"{word} refused")
                outputs[name] = Failure(str(refusal))
                continue
            in_lanes = form.in_lanes(results)
            self.counts.add(f"{word} in lanes" if in_lanes else f"{word} not in lanes")
            arrays = outputs[name] = arrays_of(results)
            ways = self._ways(form, every)
            for text in ways.differences(results):
                yield f"{word}, {name}, {text}"
            same = differences if in_lanes else self._far_from(every)
            blocks = outcome(lambda form=form: self._in_blocks(form, part, count))
            rows = {n: a for n, a in arrays.items() if not n.startswith("state ")}
            yield from (f"{word}, {name}, in blocks: {text}" for text in same(blocks, rows))
            yield from self._beside_alone(word, name, in_lanes, results)
            if name == "native" and self.rng.random() < (0.8 if self.model.is_large else 0.1):
                one = form_of_model(self.model, form.case.options["native"], threads=1)
                other = outcome(lambda one=one: arrays_of(one.run(**every)))
                yield from (f"{word}, one thread: {text}" for text in same(other, arrays))
        for text in self._far(outputs["native"], outputs["standard"], every):
            yield f"{word}, native beside standard: {text}"

    def _form(self, name: str, more: Mapping[str, Any]) -> Form:
        """Return a form that supports these run arguments."""
        return self.forms.standard if name == "standard" else self.forms.native(more)

    def _beside_alone(
        self, word: str, name: str, in_lanes: bool, results: Results
    ) -> Iterator[str]:
        """Yield differences between a random member, or the first trial, and its single run."""
        member = 0 if word == "trials" else self.rng.randrange(results.axes[0].length)
        words = {} if word == "trials" else self._single(member)
        form = self._form(name, words)
        single_run = form.run(**words)
        other = {output: np.asarray(single_run[output]) for output in single_run}
        rows = {output: np.asarray(results[output])[member] for output in results}
        equal = in_lanes and form.in_lanes(single_run)
        problems = differences(other, rows) if equal else self._far(other, rows, words)
        yield from (f"{word}, {name}, alone: {text}" for text in problems)

    def _in_blocks(self, form: Form, part: Part, count: int) -> Mapping[str, Any]:
        """Return the outputs of members that are run in blocks of a random size."""
        size = self.rng.randint(1, max(1, count - 1))
        blocks = [list(range(k, min(k + size, count))) for k in range(0, count, size)]
        parts = [form.run(**part(block)) for block in blocks]
        return {name: np.concatenate([np.asarray(p[name]) for p in parts]) for name in parts[0]}

    def _ways(self, form: Form, more: Mapping[str, Any]) -> Ways:
        case = replace(form.case, arguments={**form.case.arguments, **more})
        return Ways(case, form.compiled, self.model.rows, self.rng, self.folder)

    # --- two forms ------------------------------------------------------------------------------

    def _far_from(self, more: Mapping[str, Any]) -> Callable[[Outcome, Outcome], list[str]]:
        return lambda actual, expected: self._far(actual, expected, more)

    def _far(self, actual: Outcome, expected: Outcome, more: Mapping[str, Any]) -> list[str]:
        """Return differences above the tolerance between two forms, or count a model that amplifies errors."""
        if self.model.is_exact:
            return differences(actual, expected)
        sizes = largest_of({"given": actual, "expected": expected})
        problems = differences(actual, expected, sizes)
        if not problems or isinstance(actual, Failure) or isinstance(expected, Failure):
            return problems

        def compute() -> Mapping[str, Any]:
            return arrays_of(self.forms.standard.run(**more, engine="interpreter"))

        largest = traced(compute, {}).largest
        problems = differences(actual, expected, largest)
        if problems and amplifies(compute, compute(), largest):
            self.counts.add("amplified")
            return []
        return problems
