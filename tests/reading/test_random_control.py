"""Random nestings of loops and branches, compared with the same program in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.run.interpret import interpret
from tests.strategies.nested_control import blocks, document, execute

pytestmark = pytest.mark.slow


# --- in Python ------------------------------------------------------------------------------------


# --- as a document ----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(blocks, st.integers(-5, 9), st.integers(-5, 9))
def test_nested_control_flow(block: Sequence[Any], a: int, b: int) -> None:
    source = document(block)
    x, y = source["g"]["nodes"]["m"]["output_ports"]
    compiled = mdf_loop.compile(source, device="cpu")
    arrays, program, _ = compiled.prepare({"a": a, "b": b})
    expected = {"a": a, "b": b}
    execute(block, expected)
    for results in (interpret(program, arrays), compiled.run({"a": a, "b": b})):
        numbers = [int(np.asarray(results[f"m.{name}"])) for name in (x, y)]
        assert numbers == [expected["a"], expected["b"]]
