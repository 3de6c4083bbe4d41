"""Derivatives batched over many runs, as in gradients over iterations."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.ir.check import check
from mdf_loop.passes.batching.batch import batch
from mdf_loop.run.interpret import interpret
from tests.ops.derivatives.derivative_cases import CASES, Case, call
from tests.ops.derivatives.differentiating import (
    decompose_operations,
    differentiated,
    random_tangents_and_cotangents,
    select_outputs,
)
from tests.passes.batch_running import RUNS, batched_outputs_of, single_run_inputs


def has_unknown_axes(case: Case) -> bool:
    """Return True if the summed axes are known only at run time."""
    return case.op_type == "ReduceSum" and bool(case.when_run)


NOT_BATCHED = {
    "EyeLike": "there is no rule",
    "ReverseSequence": "there is no rule",
    "Range": "the shape of its result would differ",
}
"""Operations that cannot be batched even without derivatives."""

BATCHED = [case for case in CASES if case.op_type not in NOT_BATCHED and not has_unknown_axes(case)]


@pytest.mark.parametrize("case", BATCHED, ids=str)
def test_batched_derivatives_equal_those_of_each_run(case: Case) -> None:
    program, arrays = call(case)
    program = decompose_operations(program)
    derived = select_outputs(differentiated(program), lambda name: name[0] in "tg")
    feeds = {**arrays, **random_tangents_and_cotangents(program, arrays)}
    names = {name for name, array in feeds.items() if array.dtype == np.float64}
    factors = 1 - 0.125 * np.arange(RUNS)
    batched_feeds = {
        k: np.stack([a * f for f in factors]) if k in names else a for k, a in feeds.items()
    }
    at_once = batch(derived, names)
    assert not check(at_once)
    batched = batched_outputs_of(interpret, at_once, batched_feeds)
    single_results = [interpret(derived, part) for part in single_run_inputs(batched_feeds, names)]
    for name, array in batched.items():
        stacked = np.stack([part[name] for part in single_results])
        np.testing.assert_allclose(array, stacked, rtol=1e-12, atol=1e-14)
