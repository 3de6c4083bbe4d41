"""The parts of an outline: frozen data, everything a picture or an explanation says of a model.

Expressions are kept as the modeller wrote them. `type` is a text such as `float64[time, n]`;
it is empty where nothing is known. `path` is the place in the MDF document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.ir import Array
from mdf_loop.lower import draws_numbers
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


class PortOutline(Struct, frozen=True):
    """An input port (with its default) or an output port (with its value expression)."""

    id: str
    path: str
    type: str = ""
    default: Any | None = None
    value: Any | None = None


class ItemOutline(Struct, frozen=True):
    """A parameter or a function of a node: what computes."""

    id: str
    path: str
    value: Any | None = None
    function: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    initial: Any | None = None
    derivative: Any | None = None
    conditions: tuple[tuple[Any, Any], ...] = ()
    type: str = ""
    stateful: bool = False
    reads: tuple[str, ...] = ()
    draws: bool = False

    @property
    def constant(self) -> bool:
        """Whether this is a plain number, list or text that nothing changes."""
        changes = self.function or self.conditions or self.stateful or self.reads or self.draws
        return self.value is not None and not changes


class LoopOutline(Struct, frozen=True):
    """A loop: mode, arguments, carried values, recorded values, captures, body.

    `kind` is one of the five operating modes: for, while, do-while, for-while, endless. With
    slices and no trip count it is "sliced" or "sliced-while"; a Scan is "scan", a SequenceMap
    "map"; "over time" has the whole graph as body, which is evaluated once for each time step.
    `continues` is the body's condition as it is written there; `in_the_middle` says that it is
    tested there; `strict` that the body reads only what it is given; `notes` what is not known.
    """

    word: ClassVar[str] = "loop"

    id: str
    owner: str
    path: str
    kind: str
    trip_count: ArgumentOutline | None
    start: ArgumentOutline | None
    iteration: str
    condition_in: str
    continue_name: str
    continues: str
    carried: tuple[CarriedOutline, ...]
    recorded: tuple[RecordedOutline, ...]
    results: tuple[ResultOutline, ...]
    captures: tuple[CaptureOutline, ...]
    body: GraphOutline | None
    notes: tuple[str, ...] = ()
    slices: tuple[SliceOutline, ...] = ()
    delays: tuple[DelayOutline, ...] = ()
    in_the_middle: bool = False
    strict: bool = False

    @property
    def bodies(self) -> tuple[GraphOutline, ...]:
        """The body, if it is known."""
        return () if self.body is None else (self.body,)

    def with_bodies(self, change: BodyChange) -> LoopOutline:
        """The loop with a changed body."""
        return replace(self, body=self.body and change(self.body))

    @property
    def given(self) -> Iterator[Any]:
        """What it is given, in short: initial values and what it goes along."""
        yield from (pair.initial for pair in self.carried)
        yield from (part.source for part in self.slices)

    @property
    def expressions(self) -> Iterator[Any]:
        """What the loop's arguments say; what the body captures is not among them."""
        yield from (a.expression for a in (self.trip_count, self.start) if a is not None)
        yield from (pair.initial for pair in self.carried)
        yield from (part.source for part in self.slices)
        yield from (delay.initial for delay in self.delays)

    @property
    def full_name(self) -> str:
        """`node.function`."""
        return f"{self.owner}.{self.id}"

    @property
    def result_ports(self) -> tuple[tuple[str, ...], ...]:
        """The output ports that take each result: finals, then recordings."""
        finals = tuple(pair.ports for pair in self.carried)
        return finals + tuple(recorded.ports for recorded in self.recorded)

    @property
    def ports(self) -> frozenset[str]:
        """All output ports that plainly give something of the loop."""
        told = (result.ports for result in self.results)
        return frozenset(port for ports in (*self.result_ports, *told) for port in ports)


class BranchOutline(Struct, frozen=True):
    """A branch: when it is taken, its graph, and its outputs in the order of the results.

    Without a graph it passes on the values that its outputs name.
    """

    title: str
    body: GraphOutline | None
    outputs: tuple[OutputOutline, ...] = ()
    notes: tuple[str, ...] = ()


class ChoiceOutline(Struct, frozen=True):
    """One of several graphs, chosen by a condition ("if") or by a number ("case").

    `captures` are those of all branches together; `notes` say what is not known.
    """

    word: ClassVar[str] = "choice"

    id: str
    owner: str
    path: str
    kind: str
    selector: ArgumentOutline | None
    branches: tuple[BranchOutline, ...]
    joins: tuple[JoinOutline, ...]
    captures: tuple[CaptureOutline, ...]
    notes: tuple[str, ...] = ()

    @property
    def bodies(self) -> tuple[GraphOutline, ...]:
        """The graphs of the branches that are known."""
        return tuple(branch.body for branch in self.branches if branch.body is not None)

    def with_bodies(self, change: BodyChange) -> ChoiceOutline:
        """The choice with changed graphs of its branches."""
        made = (replace(each, body=each.body and change(each.body)) for each in self.branches)
        return replace(self, branches=tuple(made))

    @property
    def given(self) -> Iterator[Any]:
        """What it is given, in short: what its branches read."""
        yield from (capture.name for capture in self.captures)

    @property
    def expressions(self) -> Iterator[Any]:
        """What the choice's arguments say; what branches capture is not among them."""
        if self.selector is not None:
            yield self.selector.expression

    @property
    def full_name(self) -> str:
        """`node.function`."""
        return f"{self.owner}.{self.id}"

    @property
    def result_ports(self) -> tuple[tuple[str, ...], ...]:
        """The output ports that take each result."""
        return tuple(join.ports for join in self.joins)

    @property
    def ports(self) -> frozenset[str]:
        """All output ports that plainly give a result of the choice."""
        return frozenset(port for ports in self.result_ports for port in ports)


Block: TypeAlias = LoopOutline | ChoiceOutline
"""Something that owns graphs. A new kind is a member: mypy and a test name what does not know it."""

BodyChange: TypeAlias = "Callable[[GraphOutline], GraphOutline]"
"""Makes another graph of a body."""


class NodeOutline(Struct, frozen=True):
    """A node: ports, what computes in it, its blocks (what owns graphs), and when it may run.

    `condition` are the scheduler's words; `before_test` marks a body's node that its loop's
    condition needs, where the condition is tested in the middle.
    """

    id: str
    path: str
    inputs: tuple[PortOutline, ...] = ()
    items: tuple[ItemOutline, ...] = ()
    blocks: tuple[Block, ...] = ()
    outputs: tuple[PortOutline, ...] = ()
    condition: str = ""
    before_test: bool = False

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers, its bodies left out."""
        own = any(item.draws for item in self.items)
        return own or any(draws_numbers(port.value) for port in self.outputs)

    @property
    def loops(self) -> tuple[LoopOutline, ...]:
        """The loops among its blocks."""
        return tuple(block for block in self.blocks if isinstance(block, LoopOutline))

    @property
    def constant(self) -> Array | None:
        """The array, if the node is nothing but a typed constant."""
        if self.inputs or self.blocks or len(self.items) != 1 or len(self.outputs) != 1:
            return None
        (item,), given = self.items, self.outputs[0].value
        is_given = isinstance(given, str) and given == item.id
        return item.value if is_given and isinstance(item.value, np.ndarray) else None

    @property
    def is_input(self) -> bool:
        """Whether the node is nothing but an open port whose value it passes on, all of one name."""
        names = [(self.id, port.id, port.id) for port in self.inputs if port.default is None]
        plain = not (self.items or self.blocks or self.condition) and len(self.inputs) == 1
        return plain and names == [(o.id, o.id, o.value) for o in self.outputs]

    @property
    def bodies(self) -> tuple[GraphOutline, ...]:
        """The graphs inside of it."""
        return tuple(body for block in self.blocks for body in block.bodies)


class EdgeOutline(Struct, frozen=True):
    """An edge between two ports; `feedback` if it brings the value of the pass before."""

    id: str
    path: str
    sender: str
    sender_port: str
    receiver: str
    receiver_port: str
    weight: Any | None = None
    feedback: bool = False


class InputOutline(Struct, frozen=True):
    """A value that comes from outside the graph into a node: into a port, or into a formula.

    `source` says what it is: given (a model input), iteration, condition, carried, sliced,
    delayed, captured, default or unbound. `weight` is that of the edge that brings it.
    """

    name: str
    node: str
    port: str | None
    source: str
    path: str
    type: str = ""
    default: Any | None = None
    weight: Any | None = None


class OutputOutline(Struct, frozen=True):
    """A value that leaves the graph: an output port, or (no node) an input passed through."""

    name: str
    node: str | None
    port: str
    path: str
    type: str = ""


class GraphOutline(Struct, frozen=True):
    """A graph or a loop body; the outputs of a body are in the order of its signature.

    `cycles` are groups of nodes that feed each other; `termination` are the scheduler's words
    for the end of a run; `notes` say why the model cannot be compiled, if it cannot. `counted` is
    what the scheduler counts, over time.
    """

    id: str
    path: str
    nodes: tuple[NodeOutline, ...]
    edges: tuple[EdgeOutline, ...]
    inputs: tuple[InputOutline, ...]
    outputs: tuple[OutputOutline, ...]
    cycles: tuple[tuple[str, ...], ...] = ()
    termination: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    counted: tuple[str, ...] = ()

    @property
    def scheduled(self) -> bool:
        """Whether an evaluation may have several passes: conditions say when nodes run, or it ends."""
        return bool(self.termination) or any(node.condition for node in self.nodes)
