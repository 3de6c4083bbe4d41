"""Verdicts on random programs: the forms agree or differ, or the program amplifies errors or is refused."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mdf_loop.errors import RunError
from mdf_loop.ir import Data
from mdf_loop.run.interpret import interpret
from tests.random_programs.agreement import differences
from tests.random_programs.amplification import Compute, amplifies, traced
from tests.random_programs.forms import (
    Failure,
    Forms,
    Outcome,
    RefusedError,
    all_forms,
)
from tests.random_programs.onnx_programs import RandomProgram
from tests.random_programs.single_operations import operation_differences

Draw = Callable[[int], Any]


@dataclass
class Tally:
    """Counts of verdicts, and descriptions of the programs whose forms differ."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)
    refusals: collections.Counter[str] = field(default_factory=collections.Counter)


def verdict(program: RandomProgram, tally: Tally, seed: int) -> list[str]:
    """Run a program in all forms, count the verdict and return descriptions of the differences."""
    try:
        forms = all_forms(
            program.source, program.inputs, shapes=program.shapes, checked=seed % 2 == 1
        )
    except RefusedError as refusal:
        tally.counts["refused"] += 1
        tally.refusals[str(refusal).splitlines()[0][:100]] += 1
        return []
    except RunError as error:
        return [" ".join(str(error).split())]
    expected = forms.outcomes["interpreter"]
    tally.counts["native loops"] += sum(word == "native" for word in forms.native.values())
    tally.counts["standard loops"] += sum(word != "native" for word in forms.native.values())
    tally.counts["exact" if program.is_exact else "with functions"] += 1
    if isinstance(expected, Failure):
        tally.counts["errors"] += 1

    def compute() -> Mapping[str, Data]:
        return interpret(forms.program, forms.arrays)

    trace = None if program.is_exact else traced(compute, forms.arrays)
    largest = None if trace is None else trace.largest
    problems = _differences(forms, expected, largest)
    if trace is None:
        return _but_open_zeros(forms, compute, tally) if problems else []
    if problems and amplifies(compute, expected, trace.largest):
        tally.counts["amplified"] += 1
        return operation_differences(trace)
    return problems + (operation_differences(trace) if seed % 10 == 0 else [])


def _but_open_zeros(forms: Forms, compute: Compute, tally: Tally) -> list[str]:
    """Return the differences in an exact program, without zeros whose sign is undefined."""
    expected = forms.outcomes["interpreter"]
    if not amplifies(compute, expected, None):
        return _differences(forms, expected, None)
    tally.counts["open signs of zeros"] += 1
    problems = _differences(forms, expected, 0.0)
    if problems and amplifies(compute, expected, 0.0):
        tally.counts["amplified"] += 1
        return []
    return problems


def _differences(forms: Forms, expected: Outcome, largest: float | None) -> list[str]:
    return [
        f"{form}: {sentence}"
        for form, outcome in forms.outcomes.items()
        if form != "interpreter"
        for sentence in differences(outcome, expected, largest)
    ]


Judge = Callable[[Any, Tally, int], list[str]]
"""Function that counts the verdict on the program of a seed, and returns the differences."""


def judge_programs(draw: Draw, first: int, count: int, judge: Judge = verdict) -> Tally:
    """Judge the programs of `count` seeds from `first`."""
    tally = Tally()
    for seed in range(first, first + count):
        judgement = judge(draw(seed), tally, seed)
        tally.counts["programs"] += 1
        if judgement:
            tally.counts["differ"] += 1
            tally.failures.append(f"seed {seed}: " + "; ".join(judgement[:3]))
    return tally
