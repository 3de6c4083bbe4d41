"""Functions that own graphs: their spellings, and a reader, an outline and a drawing for each."""

from __future__ import annotations

from typing import get_args

import pytest

from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS, graph_function, is_loop
from mdf_loop.drawing.dot.drawers import BOX_DRAWERS
from mdf_loop.outline import Block
from mdf_loop.outline.graphs import BLOCK_OUTLINERS
from mdf_loop.reading.readers import READER_BY_FUNCTION


@pytest.mark.parametrize("written", ["onnx::Loop", "Loop", "loop", "ONNX::loop"])
def test_a_loop_may_be_spelled_in_several_ways(written: str) -> None:
    assert graph_function(written) == "onnx::Loop"
    assert is_loop(written)


def test_other_functions_own_no_graphs() -> None:
    assert [graph_function(name) for name in ("onnx::Tan", None, {"a": 1})] == [None] * 3
    assert not is_loop("onnx::If")


def test_each_graph_function_has_a_reader_and_an_outline() -> None:
    assert READER_BY_FUNCTION.keys() == GRAPH_ARGUMENTS.keys()
    assert BLOCK_OUTLINERS.keys() == GRAPH_ARGUMENTS.keys()


def test_each_kind_of_outline_has_an_element() -> None:
    assert {block_class.block_type for block_class in get_args(Block)} <= BOX_DRAWERS.keys()
