"""Outline of an MDF model: the content of its pictures and explanations.

    outline("model.yaml").nodes[1].loops[0].carried_values

- `parts` and `values` are the data: graphs, nodes, loops and conditionals.
- `graphs` reads them from the document, with `loops`, `scans` and `conditionals` for functions that own graphs.
- `scope` computes the captures of a body, and `schedule` words the scheduler's conditions.
- `words` and `pseudocode` describe a loop or a conditional in text.
- `over_time` makes the whole graph the body of a loop over time steps.
- `observation` has the iterations and values that a run observed.
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
    ConditionalOutline,
    DefinitionOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
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
    JoinedResultOutline,
    RecordedOutline,
    ReportOutline,
    SliceOutline,
)

__all__ = [
    "ArgumentOutline",
    "Block",
    "BranchOutline",
    "CaptureOutline",
    "CarriedOutline",
    "ConditionalOutline",
    "DefinitionOutline",
    "DelayOutline",
    "EdgeOutline",
    "GraphOutline",
    "InputOutline",
    "JoinedResultOutline",
    "LoopObservation",
    "LoopOutline",
    "NodeOutline",
    "Observation",
    "OutputOutline",
    "PortOutline",
    "RecordedOutline",
    "ReportOutline",
    "SliceOutline",
    "ValueObservation",
    "observe",
    "outline",
    "outline_over_time",
]
