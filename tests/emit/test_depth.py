"""Nested loops run up to the largest depth of readable files; deeper nesting is refused."""

from __future__ import annotations

from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError


def nested(depth: int) -> dict[str, Any]:
    """Return a model that adds 1 to x twice, inside of `depth` nested loops."""
    nodes: dict[str, Any] = {
        "n": {
            "input_ports": {"x": {}},
            "output_ports": {"y": {"value": "x + 1"}, "go": {"value": "True"}},
        }
    }
    for k in range(depth):
        metadata = {"inputs": ["i", "c", "x"], "outputs": ["go", "y"]}
        body = {f"body_{k}": {"metadata": metadata, "nodes": nodes}}
        args = {"M": 1 if k else 2, "v_initial": "(x,)", "body": body}
        nodes = {
            "n": {
                "input_ports": {"x": {}},
                "functions": {"f": {"function": "onnx::Loop", "args": args}},
                "output_ports": {"y": {"value": "f"}, "go": {"value": "True"}},
            }
        }
    nodes["n"]["input_ports"]["x"]["default_value"] = 1.0
    return {"g": {"nodes": nodes}}


@pytest.mark.slow
@pytest.mark.parametrize("depth", [20, 31])
def test_nested_loops_up_to_the_depth_limit_run(depth: int) -> None:
    assert mdf_loop.compile(nested(depth)).run()["n.y"] == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("depth", [32, 40])
def test_deeper_nesting_is_refused_in_one_sentence(depth: int) -> None:
    with pytest.raises(UnsupportedError, match=r"'n\.f' is inside 31 loops and choices") as caught:
        mdf_loop.compile(nested(depth)).run()
    (finding,) = caught.value.findings
    assert finding.where.endswith(".nodes['n'].functions['f']")
    assert "nest less" in finding.hint
