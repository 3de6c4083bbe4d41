"""Random loops in the interpreter and in every back end, with and without passes, compared with Python.

The expressions are generated as text, which Python evaluates for the expected results.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.passes.report_loops import report_loops
from mdf_loop.pipeline import LEGAL, SIMPLIFY, prepare
from mdf_loop.reading import bind, read
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import STANDARD
from tests.soak import times
from tests.strategies.loops import by_python, graph, loops

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def assert_equal_numbers(left: np.ndarray, right: np.ndarray) -> None:
    if right.size == 0:
        assert left.size == 0
        return
    assert left.shape == right.shape
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14)


@settings(max_examples=times(15, 1500), suppress_health_check=[HealthCheck.too_slow])
@given(loops())
def test_all_engines_agree(loop: dict[str, object]) -> None:
    expected = by_python(loop)
    document = open_document(graph(loop))
    arrays = bind(document, {}, Options()).arrays
    program = read(document)
    plain = interpret(program, arrays)
    for left, right in zip(plain.values(), expected, strict=True):
        assert_equal_numbers(left, right)
    optimised = prepare(report_loops(program), SIMPLIFY)
    after = interpret(optimised, arrays)
    for name, array in plain.items():
        np.testing.assert_array_equal(after[name], array)
    ready = [(backend.load, backend.pass_order) for backend in PROGRAM_BACKENDS.values()]
    for load, order in (*ready, (Session, LEGAL)):
        outputs = load(prepare(report_loops(program), order), STANDARD).run(arrays)
        for name, array in plain.items():
            assert_equal_numbers(outputs[name], array)
            assert outputs[name].dtype == array.dtype


@settings(max_examples=times(6, 600), suppress_health_check=[HealthCheck.too_slow])
@given(loops())
@pytest.mark.parametrize("apply", SIMPLIFY, ids=lambda p: p.__name__)
def test_each_pass_keeps_results_and_is_idempotent(apply, loop) -> None:
    document = open_document(graph(loop))
    program = read(document)
    transformed = apply(program)
    arrays = bind(document, {}, Options()).arrays
    before, after = interpret(program, arrays), interpret(transformed, arrays)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    assert apply(transformed) is transformed
