"""MDF -> outline: what a picture or an explanation says of a model, compiled or not.

    outline("model.yaml").nodes[1].loops[0].carried

`parts` are the data; `graphs` reads them from the document, with `loops`, `scans` and `choices` for
the functions that own graphs; `scope` computes what a body captures; `conditions` and `schedule` word the scheduler's conditions; `over_time` makes the
whole graph the body of a loop over time steps.
"""

from mdf_loop.outline.graphs import outline
from mdf_loop.outline.over_time import outline_over_time
from mdf_loop.outline.parts import (
    ArgumentOutline,
    Block,
    BranchOutline,
    CaptureOutline,
    CarriedOutline,
    ChoiceOutline,
    DelayOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    ItemOutline,
    JoinOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
    RecordedOutline,
    ResultOutline,
    SliceOutline,
)

__all__ = [
    "ArgumentOutline",
    "Block",
    "BranchOutline",
    "CaptureOutline",
    "CarriedOutline",
    "ChoiceOutline",
    "DelayOutline",
    "EdgeOutline",
    "GraphOutline",
    "InputOutline",
    "ItemOutline",
    "JoinOutline",
    "LoopOutline",
    "NodeOutline",
    "OutputOutline",
    "PortOutline",
    "RecordedOutline",
    "ResultOutline",
    "SliceOutline",
    "outline",
    "outline_over_time",
]
