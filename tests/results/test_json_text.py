"""JSON text of results in chunks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mdf_loop.results import json_text
from mdf_loop.results.json_text import json_chunks, to_json_types
from mdf_loop.run.recording.ticks import Clock, Ticks

CONTENT = {
    "number": np.array(0.1),
    "rows": np.arange(12.0).reshape(4, 3) / 7,
    "deep": np.arange(24).reshape(2, 3, 4),
    "nothing": np.zeros((0, 3)),
    "no columns": np.zeros((3, 0)),
    "texts": np.array(["a", 'quoted "b"', "µ"], object),
    "truths": np.array([True, False]),
    "not finite": np.array([np.nan, np.inf, -np.inf, -0.0]),
    "times": Ticks(range(0, 9, 3), Clock(0, 0.0, 0.5)),
    "sequence": [{"data": np.array([1.5])}, {"data": np.array([], np.int64)}],
    "order": [[["A"], ["B", "C"]], []],
    "absent": None,
    "empty": {},
    'name "x"': {"units": "µV"},
}


@pytest.mark.parametrize("block", [1, 40, 1 << 18])
def test_chunks_together_equal_json_dumps(block, monkeypatch):
    monkeypatch.setattr(json_text, "BLOCK_BYTES", block)
    assert "".join(json_chunks(CONTENT)) == json.dumps(to_json_types(CONTENT))


def test_nan_and_infinity_are_strings():
    assert to_json_types(CONTENT)["not finite"] == ["nan", "inf", "-inf", 0.0]
    assert to_json_types(CONTENT)["times"] == [0.0, 1.5, 3.0]


def test_a_long_row_is_split_into_chunks():
    array = np.arange(3 * 10**5).reshape(3, -1)
    chunks = list(json_chunks(array))
    assert max(map(len, chunks)) < 600_000
    assert json.loads("".join(chunks)) == array.tolist()
