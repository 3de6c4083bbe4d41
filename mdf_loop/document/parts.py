"""Parts of an MDF model as frozen data: graphs, nodes, ports, functions, parameters, edges, conditions.

The fields have the names and defaults of the classes of modeci_mdf (0.4.15). Two parts are equal only if they
are the same object. Parts contain no cycles, so the garbage collector does not track them.
`mdf_loop.document.modeci` converts parts from and to objects of modeci_mdf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

DocumentValue: TypeAlias = object
"""Value in a document: a number, an expression, a list, a mapping, an array or a graph."""


class Part(Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """Part of a model."""


class _PartWithMetadata(Part, frozen=True, eq=False, kw_only=True, gc=False):
    """Part of a model, with remarks or settings in its metadata."""

    metadata: Mapping[str, DocumentValue] | None = None


class NamedPart(_PartWithMetadata, frozen=True, eq=False, kw_only=True, gc=False):
    """Part of a model with an id, which is unique in its section."""

    id: str


class InputPort(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Port through which a node receives a value, or `default_value` without an edge."""

    default_value: DocumentValue = None
    shape: tuple[int, ...] | None = ()
    type: str | None = None
    reduce: str | None = "overwrite"


class OutputPort(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Port through which a node sends a value."""

    value: DocumentValue = None
    shape: tuple[int, ...] | None = ()
    type: str | None = None


class Function(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Function with its arguments, or an expression in `value`."""

    function: str | None = None
    args: Mapping[str, DocumentValue] | None = None
    value: DocumentValue = None


class ParameterCondition(Part, frozen=True, eq=False, kw_only=True, gc=False):
    """Value that a parameter takes if the expression `test` is true."""

    id: str
    test: DocumentValue = None
    value: DocumentValue = None


class Parameter(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Constant, expression, function or state of a node."""

    value: DocumentValue = None
    default_initial_value: DocumentValue = None
    time_derivative: str | None = None
    function: str | None = None
    args: Mapping[str, DocumentValue] | None = None
    conditions: Sequence[ParameterCondition | Mapping[str, DocumentValue]] = field(
        default_factory=list
    )


class Node(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Unit of evaluation with ports, functions and parameters."""

    input_ports: Sequence[InputPort] = field(default_factory=list)
    functions: Sequence[Function] = field(default_factory=list)
    parameters: Sequence[Parameter] = field(default_factory=list)
    output_ports: Sequence[OutputPort] = field(default_factory=list)

    @property
    def functions_and_parameters(self) -> tuple[FunctionOrParameter, ...]:
        """All functions, then all parameters."""
        return (*self.functions, *self.parameters)


class Edge(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Connection of an output port of one node with an input port of a node."""

    sender: str
    receiver: str
    sender_port: str
    receiver_port: str
    parameters: Mapping[str, DocumentValue] | None = None


class Condition(_PartWithMetadata, frozen=True, eq=False, kw_only=True, gc=False):
    """Condition of the scheduler. The arguments may contain other conditions."""

    type: str
    kwargs: Mapping[str, DocumentValue] = field(default_factory=dict)


class ConditionSet(_PartWithMetadata, frozen=True, eq=False, kw_only=True, gc=False):
    """Conditions of nodes by node id, and conditions that end a time scale by time scale."""

    node_specific: Mapping[str, DocumentValue] | None = None
    termination: Mapping[str, DocumentValue] | None = None


class Graph(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Nodes with the edges between them and the conditions under which they run."""

    nodes: Sequence[Node] = field(default_factory=list)
    edges: Sequence[Edge] = field(default_factory=list)
    parameters: Mapping[str, DocumentValue] | None = None
    conditions: ConditionSet | None = None

    @property
    def node_conditions(self) -> Mapping[str, DocumentValue]:
        """Conditions under which nodes run, by node id."""
        return (self.conditions.node_specific if self.conditions else None) or {}

    @property
    def termination_conditions(self) -> Mapping[str, DocumentValue]:
        """Conditions that end a time scale, by time scale."""
        return (self.conditions.termination if self.conditions else None) or {}

    def find_node(self, node_id: str) -> Node:
        """Return the node with an id. The graph must contain the node."""
        return next(node for node in self.nodes if node.id == node_id)


class Model(NamedPart, frozen=True, eq=False, kw_only=True, gc=False):
    """Graphs of a model, with remarks on the origin of the model."""

    format: str
    generating_application: str
    onnx_opset_version: str | None = None
    graphs: Sequence[Graph] = field(default_factory=list)


FunctionOrParameter: TypeAlias = Function | Parameter
"""Part of a node that a function or an expression computes."""

NodePart: TypeAlias = OutputPort | Parameter | Function | InputPort
