"""MDF -> outline: what a picture or an explanation says of a model, compiled or not.

    outline("model.yaml").nodes[1].loops[0].carried

`parts` are the data, with the `values` of loops and choices; `graphs` reads them from the document,
with `loops`, `scans` and `choices` for the functions that own graphs; `scope` computes what a body
captures; `schedule` words the scheduler's conditions; `words` and `pseudocode` say what a loop or a
choice does; `over_time` makes the whole graph the body of a loop over time steps; `observation` is what
a run says of loops and ports.
"""

from mdf_loop.outline.graphs import outline
from mdf_loop.outline.observation import (
    LoopObservation,
    Observation,
    ValueObservation,
    observe,
)
from mdf_loop.outline.over_time import outline_over_time
from mdf_loop.outline.parts import (
    Block,
    BranchOutline,
    ChoiceOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    ItemOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.values import (
    ArgumentOutline,
    CaptureOutline,
    CarriedOutline,
    DelayOutline,
    JoinOutline,
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
    "LoopObservation",
    "LoopOutline",
    "NodeOutline",
    "Observation",
    "OutputOutline",
    "PortOutline",
    "RecordedOutline",
    "ResultOutline",
    "SliceOutline",
    "ValueObservation",
    "observe",
    "outline",
    "outline_over_time",
]
