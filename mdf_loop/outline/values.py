"""What goes into and out of loops and choices, one by one: frozen data.

Expressions are kept as the modeller wrote them. `ports` are the output ports of the node that take
a result; `type` is a text such as `float64[time, n]`, empty where nothing is known.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ArgumentOutline(Struct, frozen=True):
    """A trip count or a start condition: its expression, and its value if that is fixed.

    `brought` says that an edge brings it into the node: its name is that of a port.
    """

    expression: Any
    value: Any | None = None
    brought: bool = False


class CarriedOutline(Struct, frozen=True):
    """A carried value: `enter` is `initial` first, then what the last iteration's `leave` was.

    `ports` are the output ports of the node that give the final value.
    """

    initial: Any | None
    enter: str
    leave: str
    ports: tuple[str, ...] = ()
    type: str = ""
    initial_value: Any | None = None


class RecordedOutline(Struct, frozen=True):
    """A scan output: the body's output of every iteration, stacked on a new first axis.

    `how` says in words what is different: `axis 1`, `last iteration first`, `padded to 10`.
    """

    name: str
    ports: tuple[str, ...] = ()
    type: str = ""
    how: str = ""


class SliceOutline(Struct, frozen=True):
    """A sliced value: in iteration i, `name` is `source[indices]`, such as `x[:, i]`.

    `how` says in words what is different: `backwards`, `parts of 2`.
    """

    name: str
    source: Any
    indices: str
    how: str = ""


class DelayOutline(Struct, frozen=True):
    """A delayed value: `name` is what `of` was `back` iterations ago, at first rows of `initial`."""

    name: str
    of: str
    back: int = 1
    initial: Any | None = None


class CaptureOutline(Struct, frozen=True):
    """A value that the body reads from outside: where it comes from, its value if it is fixed.

    `kind` says what it is there: input port, parameter, function, argument, carried value,
    iteration number or condition; `owner` is the id of the node (or loop) that has it.
    """

    name: str
    kind: str
    owner: str
    path: str
    value: Any | None = None
    type: str = ""


class ResultOutline(Struct, frozen=True):
    """Something else that a loop tells and a port takes, such as the iterations run."""

    name: str
    ports: tuple[str, ...]


class JoinOutline(Struct, frozen=True):
    """A result of a choice: each branch has an output for it; `ports` of the node take it."""

    name: str
    ports: tuple[str, ...] = ()
    type: str = ""
