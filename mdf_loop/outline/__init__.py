"""MDF -> outline: what a picture or an explanation says of a model, compiled or not.

    outline("model.yaml").nodes[1].loops[0].carried

`parts` are the data; `graphs` and `loops` read them from the document; `scope` computes what a
body captures; `conditions` and `schedule` word the scheduler's conditions; `over_time` makes the
whole graph the body of a loop over time steps.
"""

from mdf_loop.outline.graphs import outline
from mdf_loop.outline.over_time import outline_over_time
from mdf_loop.outline.parts import (
    ArgumentOutline,
    CaptureOutline,
    CarriedOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    ItemOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
    RecordedOutline,
    ResultOutline,
)

__all__ = [
    "ArgumentOutline",
    "CaptureOutline",
    "CarriedOutline",
    "EdgeOutline",
    "GraphOutline",
    "InputOutline",
    "ItemOutline",
    "LoopOutline",
    "NodeOutline",
    "OutputOutline",
    "PortOutline",
    "RecordedOutline",
    "ResultOutline",
    "outline",
    "outline_over_time",
]
