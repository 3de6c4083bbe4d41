"""Random programs: every form of reverse mode, forward mode and central differences agree."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import RunError
from mdf_loop.ir import Program
from mdf_loop.run.interpret import interpret
from tests.passes.gradient.all_forms import FORMS, assert_all_forms, assert_on_runtime
from tests.placements import NATIVE, STANDARD
from tests.soak import times
from tests.strategies.differentiable import GIVEN, differentiable


def wrt_of(seed: int) -> list[str]:
    """Choose some inputs; values that do not depend on them are not differentiated."""
    chosen = np.random.default_rng(seed).integers(0, 2, len(GIVEN))
    return [name for name, yes in zip(GIVEN, chosen, strict=True) if yes] or ["x0", "w"]


def program_of_seed(seed: int) -> Program:
    """Return a random program; the few that index outside of an array are skipped."""
    case = differentiable(seed)
    try:
        interpret(case, GIVEN)
    except RunError as error:
        pytest.skip(str(error.findings[0].what))
    return case


@pytest.mark.parametrize("seed", range(8))
def test_all_backward_forms_agree(seed: int) -> None:
    with np.errstate(all="ignore"):
        assert_all_forms(program_of_seed(seed), GIVEN, wrt_of(seed))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8, times(30, 3000)))
def test_all_backward_forms_of_many_programs_agree(seed: int) -> None:
    with np.errstate(all="ignore"):
        assert_all_forms(program_of_seed(seed), GIVEN, wrt_of(seed))


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(0, times(48, 3000), 15))
def test_the_gradient_on_onnx_runtime(seed: int) -> None:
    more = list(FORMS.values())[seed // 15 % 3], (STANDARD, NATIVE)[seed // 45 % 2]
    assert_on_runtime(program_of_seed(seed), GIVEN, wrt_of(seed), more)


def test_inner_loops_without_iterations_end() -> None:
    """Run an inner while loop inside an outer loop of no iterations: no member continues, so the loop ends."""
    with np.errstate(all="ignore"):
        assert_on_runtime(program_of_seed(2265), GIVEN, wrt_of(2265), (FORMS["split"], STANDARD))
