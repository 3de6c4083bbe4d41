"""What holds numbers alone is not searched: names, texts and arrays are found in all else."""

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
def test_only_numbers(values: Any, expected: bool) -> None:
    assert contains_only_numbers(values) is expected


@pytest.mark.slow
def test_a_long_list_is_not_walked_number_by_number() -> None:
    """Reading, saving, importing, explaining: fewer calls of functions than the list has numbers."""
    rows = [[0.5 * k] * 500 for k in range(400)]
    node = {"parameters": {"w": {"value": rows}}, "output_ports": {"y": {"value": "w * 2"}}}
    model = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    mdf_loop.compile(model, device="cpu").to_onnx()  # what is imported when it is first needed
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
