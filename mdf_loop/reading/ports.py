"""Computation of the values of input ports from edges, default values, or the caller.

Source: modeci_mdf.execution_engine.EvaluableInput and EvaluableGraph.evaluate_edge (0.4.15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.document.parts import Edge, InputPort, Node
from mdf_loop.document.stated_types import stated_dtype
from mdf_loop.errors import ModelError
from mdf_loop.ir import Value
from mdf_loop.ir.types import kind_of
from mdf_loop.lower import Term, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import add, literal, multiply
from mdf_loop.reading.memory import Memory, create_placeholder, select_term
from mdf_loop.reading.port_types import convert_port_value
from mdf_loop.reading.port_values import lower_default
from mdf_loop.reading.schedule.known import Truth, logical_or

PortSupplier = Callable[[Node, InputPort, str], Term]
"""Function (node, port, path) -> value, for an input port that no edge feeds."""

_REDUCE_FUNCTIONS: Mapping[str, Callable[[ModelBuilder, Value, Value], Value]] = {
    "overwrite": lambda b, old, new: new,
    "add": add,
    "multiply": multiply,
}


class Ports(Struct, frozen=True):
    """Input ports of a graph, with the edges that lead to each port."""

    edges_by_port: Mapping[tuple[str, str], Sequence[Edge]]
    where: str
    supply: PortSupplier

    def read_port(self, memory: Memory, node: Node, port: InputPort, where: str) -> Term:
        """Return the current value of an input port from its edges, its default or the caller."""
        port_edges = self.edges_by_port.get((node.id, port.id))
        if port_edges is None:
            return self.supply(node, port, where)
        reduce_mode = port.reduce or "overwrite"
        if reduce_mode not in _REDUCE_FUNCTIONS:
            raise ModelError(
                f"the port '{port.id}' has an unknown reduce mode '{reduce_mode}'",
                hint="use 'overwrite', 'add' or 'multiply'",
            )
        b = memory.b
        port_term: Term | None = None
        has_value: Truth = False
        for edge in port_edges:
            has_sender_run = memory.has_run(edge.sender)
            if has_sender_run is False:
                continue
            edge_value = self._read_edge(memory, edge)
            if port_term is not None:
                combined_value = _REDUCE_FUNCTIONS[reduce_mode](
                    b, tensor(b, port_term), tensor(b, edge_value)
                )
                edge_value = (
                    combined_value
                    if has_value is True
                    else select_term(b, has_value, combined_value, edge_value)
                )
            if has_sender_run is not True:
                dtype = tensor(b, edge_value).dtype
                previous_value = (
                    _find_value_before_edges(b, port, where, dtype)
                    if port_term is None
                    else port_term
                )
                edge_value = select_term(b, has_sender_run, edge_value, previous_value)
            port_term, has_value = edge_value, logical_or(b, has_value, has_sender_run)
        if port_term is None:
            is_first_run = memory.has_run(node.id) is False and reduce_mode == "overwrite"
            return _find_value_before_edges(
                b, port, where, "int64" if is_first_run else b.float_dtype
            )
        return convert_port_value(b, port, port_term) if isinstance(port_term, Value) else port_term

    def _read_edge(self, memory: Memory, edge: Edge) -> Term:
        """Return the value that an edge passes: the sender's last output times the edge's weight."""
        term = memory.get(("output", edge.sender, edge.sender_port))
        weight = (edge.parameters or {}).get("weight", 1)
        if isinstance(weight, int | float) and weight == 1:
            return term
        b = memory.b
        with b.at(f"{self.where}.edges['{edge.id}'].parameters.weight"):
            if isinstance(weight, str):
                raise ModelError(f"an edge weight is a number or a list of numbers, not '{weight}'")
            return multiply(b, literal(b, weight), tensor(b, term))


def _find_value_before_edges(b: ModelBuilder, port: InputPort, where: str, dtype: str) -> Value:
    """Return the value of a port that no edge has fed yet: its default, or zeros.

    As in modeci_mdf, the zeros are integers unless the port's type says float.
    """
    if port.default_value is not None:
        return lower_default(b, port, where)
    shape = port.shape or ()
    if any(extent < 0 for extent in shape):
        raise ModelError(
            f"nothing has arrived at the port '{port.id}' when it is read for the first time, and "
            f"its shape {list(shape)} is open",
            where,
            "give it a default_value of the shape that will arrive",
        )
    for zeros_dtype in (stated_dtype(port, b.options.precision) or dtype, dtype):
        if kind_of(zeros_dtype) in "Uso":
            return create_placeholder(b, zeros_dtype, tuple(port.shape or ()))
    is_integer = "float" not in str(port.type or "")
    zeros = np.zeros(tuple(port.shape or ()), dtype if is_integer else b.float_dtype)
    return b.constant(zeros)
