"""Data classes for the values that enter and leave loops and conditionals.

Expressions have the spelling of the modeller. `ports` are the output ports of the node whose value is
exactly the result. `type` is a text such as `float64[time, n]`, and empty if it is unknown.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ArgumentOutline(Struct, frozen=True):
    """Outline of a loop's trip count or condition: its expression, and its value if constant.

    `comes_from_edge` is True if the expression is the name of an input port.
    """

    expression: Any
    value: Any | None = None
    comes_from_edge: bool = False


class CarriedOutline(Struct, frozen=True):
    """Outline of a loop's carried value, with its names as an input and an output of the body.

    The value of the input `input_name` is `initial_expression` in the first iteration, and later the
    previous value of the output `output_name`. `ports` are the output ports of the node with the final value.
    """

    initial_expression: Any | None
    input_name: str
    output_name: str
    ports: tuple[str, ...] = ()
    type: str = ""
    initial_value: Any | None = None


class RecordedOutline(Struct, frozen=True):
    """Outline of a loop's recorded value: a body output, stacked over the iterations.

    `remark` is a remark on options: `axis 1`, `last iteration first`, `padded to 10`.
    """

    name: str
    ports: tuple[str, ...] = ()
    type: str = ""
    remark: str = ""


class SliceOutline(Struct, frozen=True):
    """Outline of a sliced input: in iteration i, `name` is `source_expression[indices]`.

    `remark` is a remark on options: `backwards`, `parts of 2`.
    """

    name: str
    source_expression: Any
    indices: str
    remark: str = ""


class DelayOutline(Struct, frozen=True):
    """Outline of a delayed value: `source_name` as it was `iterations_back` iterations earlier.

    The first iterations read rows of `initial_expression`.
    """

    name: str
    source_name: str
    iterations_back: int = 1
    initial_expression: Any | None = None


class CaptureOutline(Struct, frozen=True):
    """Outline of a value that a body reads from outside, with its origin and constant value.

    `kind` is its kind at the origin: input port, parameter, function, argument, carried value, iteration number
    or condition. `owner_id` is the id of the node or loop that it belongs to.
    """

    name: str
    kind: str
    owner_id: str
    path: str
    value: Any | None = None
    type: str = ""


class ReportOutline(Struct, frozen=True):
    """Outline of a loop's report on its run, such as the iteration count, with its output ports."""

    name: str
    ports: tuple[str, ...]


class JoinedResultOutline(Struct, frozen=True):
    """Outline of a conditional's result, joined from one output of each branch."""

    name: str
    ports: tuple[str, ...] = ()
    type: str = ""
