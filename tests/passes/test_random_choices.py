"""Random programs of nested choices and loops in the interpreter, the passes and ONNX Runtime.

Values are vectors of three numbers, computed by operations that round alike everywhere, so
that results are equal bit for bit.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from mdf_loop.ir import Program
from mdf_loop.ir.check import check
from mdf_loop.passes import Pass
from mdf_loop.pipeline import SIMPLIFY
from mdf_loop.run.interpret import interpret
from tests.models.choices import agree, everywhere
from tests.soak import times
from tests.strategies.programs import GIVEN, programs

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@settings(
    max_examples=times(15, 1500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs())
def test_all_engines_agree(program: Program) -> None:
    everywhere(program, **GIVEN)


@settings(
    max_examples=times(8, 500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs())
@pytest.mark.parametrize("apply", tuple(dict.fromkeys(SIMPLIFY)), ids=lambda p: p.__name__)
def test_each_pass_keeps_results_and_is_idempotent(apply: Pass, program: Program) -> None:
    transformed = apply(program)
    assert check(transformed) == ()
    agree(interpret(transformed, GIVEN), interpret(program, GIVEN))
    assert apply(transformed) is transformed
