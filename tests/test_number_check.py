"""Collections of plain numbers are detected, so that they are not searched for names, texts and arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.number_check import contains_only_numbers


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], True),
        ([1, 2.5, True, 1j], True),
        ((0.5, -0.0), True),
        ([1, "x"], False),
        ([1, [2]], False),
        ([1, None], False),
        ([np.float64(1)], False),
    ],
)
def test_contains_only_numbers(values: Any, expected: bool) -> None:
    assert contains_only_numbers(values) is expected


@pytest.mark.slow
def test_a_long_list_is_not_walked_number_by_number() -> None:
    """Check that import, save and explain make fewer function calls than the list has numbers."""
    rows = [[0.5 * k] * 500 for k in range(400)]
    node = {"parameters": {"w": {"value": rows}}, "output_ports": {"y": {"value": "w * 2"}}}
    model = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    mdf_loop.compile(model, device="cpu").to_onnx()  # completes lazy imports
    mdf_loop.explain(model)
    calls = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        mdf_loop.from_onnx(mdf_loop.compile(model, device="cpu").to_onnx())
        mdf_loop.explain(model)
    finally:
        sys.setprofile(None)
    assert calls < 200_000
