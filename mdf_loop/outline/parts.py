"""Data classes of a model's outline: graphs, nodes, loops and conditionals.

Expressions have the spelling of the modeller. `type` is a text such as `float64[time, n]`, and empty if it
is unknown. `path` is the path in the MDF document.
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
    JoinedResultOutline,
    RecordedOutline,
    ReportOutline,
    SliceOutline,
)


class PortOutline(Struct, frozen=True):
    """Outline of an input port with its default, or of an output port with its expression."""

    id: str
    path: str
    type: str = ""
    default: Any | None = None
    value: Any | None = None


class DefinitionOutline(Struct, frozen=True):
    """Outline of a node's parameter or function that computes a value without graphs."""

    id: str
    path: str
    value: Any | None = None
    function: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    initial_expression: Any | None = None
    derivative: Any | None = None
    conditions: tuple[tuple[Any, Any], ...] = ()
    type: str = ""
    is_stateful: bool = False
    read_names: tuple[str, ...] = ()
    is_random: bool = False

    @property
    def is_constant(self) -> bool:
        """True if the definition is a number, list or text that the model never changes."""
        is_computed = (
            self.function
            or self.conditions
            or self.is_stateful
            or self.read_names
            or self.is_random
        )
        return self.value is not None and not is_computed


class LoopOutline(Struct, frozen=True):
    """Outline of a loop: arguments, carried values, recorded values, captures and body.

    Attributes:
        kind: Operating mode: for, while, do-while, for-while or endless. "sliced" or "sliced-while" with slices
            and no trip count, "scan" for a Scan, "map" for a SequenceMap, and "over time" for the loop that
            evaluates the whole graph once per time step.
        condition_text: Expression of the body's condition.
        has_mid_exit: True if the condition is tested in the middle of the body.
        is_strict: True if the body reads only its declared inputs.
        notes: Messages about unknown parts of the loop.
    """

    block_type: ClassVar[str] = "loop"

    id: str
    owner_id: str
    path: str
    kind: str
    trip_count: ArgumentOutline | None
    start_condition: ArgumentOutline | None
    iteration_name: str
    condition_name: str
    continue_name: str
    condition_text: str
    carried_values: tuple[CarriedOutline, ...]
    recorded_values: tuple[RecordedOutline, ...]
    reports: tuple[ReportOutline, ...]
    captures: tuple[CaptureOutline, ...]
    body: GraphOutline | None
    notes: tuple[str, ...] = ()
    sliced_inputs: tuple[SliceOutline, ...] = ()
    delayed_values: tuple[DelayOutline, ...] = ()
    has_mid_exit: bool = False
    is_strict: bool = False

    @property
    def bodies(self) -> tuple[GraphOutline, ...]:
        """Body of the loop as a tuple, which is empty if the body is unknown."""
        return () if self.body is None else (self.body,)

    def with_bodies(self, change: BodyChange) -> LoopOutline:
        """Return a copy of the loop in which `change(body)` replaces the body."""
        return replace(self, body=self.body and change(self.body))

    @property
    def source_expressions(self) -> Iterator[Any]:
        """Expressions of the values that enter the loop: initial values and sliced arrays."""
        yield from (carried_value.initial_expression for carried_value in self.carried_values)
        yield from (sliced_input.source_expression for sliced_input in self.sliced_inputs)

    @property
    def expressions(self) -> Iterator[Any]:
        """Expressions in the arguments of the loop, such as its trip count and initial values."""
        yield from (
            argument.expression
            for argument in (self.trip_count, self.start_condition)
            if argument is not None
        )
        yield from (carried_value.initial_expression for carried_value in self.carried_values)
        yield from (sliced_input.source_expression for sliced_input in self.sliced_inputs)
        yield from (delayed_value.initial_expression for delayed_value in self.delayed_values)

    @property
    def full_name(self) -> str:
        """Name of the loop as `node.function`."""
        return f"{self.owner_id}.{self.id}"

    @property
    def result_ports(self) -> tuple[tuple[str, ...], ...]:
        """Output ports of each result of the loop: final carried values, then recorded values."""
        final_ports = tuple(carried_value.ports for carried_value in self.carried_values)
        return final_ports + tuple(recorded_value.ports for recorded_value in self.recorded_values)

    @property
    def ports(self) -> frozenset[str]:
        """Output ports of the node that return a result of the loop unchanged."""
        report_ports = (report.ports for report in self.reports)
        return frozenset(port for ports in (*self.result_ports, *report_ports) for port in ports)


class BranchOutline(Struct, frozen=True):
    """Outline of a conditional's branch: its title, its graph and its outputs.

    A branch without a graph passes on the values that its outputs name.
    """

    title: str
    body: GraphOutline | None
    outputs: tuple[OutputOutline, ...] = ()
    notes: tuple[str, ...] = ()


class ConditionalOutline(Struct, frozen=True):
    """Outline of a conditional: it runs one of several graphs, selected by a condition or a number.

    `captures` are the captures of all branches together. `notes` are messages about unknown parts.
    """

    block_type: ClassVar[str] = "choice"

    id: str
    owner_id: str
    path: str
    kind: str
    selector: ArgumentOutline | None
    branches: tuple[BranchOutline, ...]
    joined_results: tuple[JoinedResultOutline, ...]
    captures: tuple[CaptureOutline, ...]
    notes: tuple[str, ...] = ()

    @property
    def bodies(self) -> tuple[GraphOutline, ...]:
        """Graphs of the conditional's branches, without branches whose graph is unknown."""
        return tuple(branch.body for branch in self.branches if branch.body is not None)

    def with_bodies(self, change: BodyChange) -> ConditionalOutline:
        """Return a copy of the conditional in which `change(graph)` replaces each branch's graph."""
        branches = (
            replace(branch, body=branch.body and change(branch.body)) for branch in self.branches
        )
        return replace(self, branches=tuple(branches))

    @property
    def source_expressions(self) -> Iterator[Any]:
        """Expressions of the values that enter the conditional: the names its branches read."""
        yield from (capture.name for capture in self.captures)

    @property
    def expressions(self) -> Iterator[Any]:
        """Expressions in the conditional's arguments: the one that selects the branch."""
        if self.selector is not None:
            yield self.selector.expression

    @property
    def full_name(self) -> str:
        """Name of the conditional as `node.function`."""
        return f"{self.owner_id}.{self.id}"

    @property
    def result_ports(self) -> tuple[tuple[str, ...], ...]:
        """Output ports of each result of the conditional."""
        return tuple(joined_result.ports for joined_result in self.joined_results)

    @property
    def ports(self) -> frozenset[str]:
        """Output ports of the node that return a result of the conditional unchanged."""
        return frozenset(port for ports in self.result_ports for port in ports)


Block: TypeAlias = LoopOutline | ConditionalOutline
"""Loop or conditional that owns graphs. After adding a kind, mypy and a test name the code that must handle it."""

BodyChange: TypeAlias = "Callable[[GraphOutline], GraphOutline]"
"""Function that returns a changed graph of a body."""


class NodeOutline(Struct, frozen=True):
    """Outline of a node: ports, formulas, loops, conditionals and scheduler condition.

    `scheduler_condition` is the condition in words. `is_before_test` is True for a node of a body on which the
    loop's condition depends, if the condition is tested in the middle.
    """

    id: str
    path: str
    inputs: tuple[PortOutline, ...] = ()
    definitions: tuple[DefinitionOutline, ...] = ()
    blocks: tuple[Block, ...] = ()
    outputs: tuple[PortOutline, ...] = ()
    scheduler_condition: str = ""
    is_before_test: bool = False

    @property
    def is_random(self) -> bool:
        """True if the node draws random numbers outside of its loops and conditionals."""
        has_random_definitions = any(definition.is_random for definition in self.definitions)
        return has_random_definitions or any(draws_numbers(port.value) for port in self.outputs)

    @property
    def loops(self) -> tuple[LoopOutline, ...]:
        """Loops that the node contains."""
        return tuple(block for block in self.blocks if isinstance(block, LoopOutline))

    @property
    def constant(self) -> Array | None:
        """Array that the node provides if it is only a typed constant, else None."""
        if self.inputs or self.blocks or len(self.definitions) != 1 or len(self.outputs) != 1:
            return None
        (definition,), port_value = self.definitions, self.outputs[0].value
        reads_definition = isinstance(port_value, str) and port_value == definition.id
        return (
            definition.value
            if reads_definition and isinstance(definition.value, np.ndarray)
            else None
        )

    @property
    def is_input(self) -> bool:
        """True if the node only returns the value of its one input port, named like the node.

        The input port has no default, and the output port has the same name.
        """
        port_names = [(self.id, port.id, port.id) for port in self.inputs if port.default is None]
        has_only_one_input = (
            not (self.definitions or self.blocks or self.scheduler_condition)
            and len(self.inputs) == 1
        )
        return has_only_one_input and port_names == [
            (port.id, port.id, port.value) for port in self.outputs
        ]

    @property
    def bodies(self) -> tuple[GraphOutline, ...]:
        """Bodies of the node's loops, and branches of its conditionals."""
        return tuple(body for block in self.blocks for body in block.bodies)


class EdgeOutline(Struct, frozen=True):
    """Outline of an edge. `is_feedback` is True if it carries a value of the previous pass."""

    id: str
    path: str
    sender: str
    sender_port: str
    receiver: str
    receiver_port: str
    weight: Any | None = None
    is_feedback: bool = False


class InputOutline(Struct, frozen=True):
    """Outline of a value that enters a node from outside the graph, into a port or a formula.

    `role` is the role of the value: given (a model input), iteration, condition, carried, sliced, delayed,
    captured, default or unbound. `weight` is the weight of the edge.
    """

    name: str
    node_id: str
    port_id: str | None
    role: str
    path: str
    type: str = ""
    default: Any | None = None
    weight: Any | None = None


class OutputOutline(Struct, frozen=True):
    """Outline of a graph's output: an output port, or an input that is passed through."""

    name: str
    node_id: str | None
    port_id: str
    path: str
    type: str = ""


class GraphOutline(Struct, frozen=True):
    """Outline of a graph: the whole model, a loop body or a branch.

    Attributes:
        cycles: Groups of nodes that feed each other.
        termination: Conditions of the scheduler that end a run, in words.
        notes: Reasons why the model cannot be compiled.
        counted_events: Events that the scheduler counts, for a model over time.
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
    source_name: str = ""
    counted_events: tuple[str, ...] = ()

    @property
    def is_scheduled(self) -> bool:
        """True if scheduler conditions may split an evaluation of the graph into several passes."""
        return bool(self.termination) or any(node.scheduler_condition for node in self.nodes)
