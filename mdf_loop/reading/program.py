"""A document -> its `Program`: inputs, one evaluation of the graph, outputs.

A program is specific to the dtypes and shapes of its inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mdf_loop import onnx_ops
from mdf_loop.build import Builder, Options
from mdf_loop.check import check
from mdf_loop.errors import ArityError, InputError, Poisoned, UnknownNameError, raise_findings
from mdf_loop.ir import Array, Input, Program, Shape, Value
from mdf_loop.lower import Term, suggestion
from mdf_loop.reading.document import Document, Source, open_document
from mdf_loop.reading.given import default_array, given_array
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.loop import read_loop
from mdf_loop.reading.node import Later


@dataclass(frozen=True, slots=True)
class OpenPort:
    """An input port that no edge feeds: it can be given from outside."""

    name: str
    node: str
    port: Any
    where: str

    @property
    def full_name(self) -> str:
        """`node.port`."""
        return f"{self.node}.{self.port.id}"


def open_ports(document: Document) -> tuple[OpenPort, ...]:
    """The graph's inputs: named by port id, by `node.port` where that could mean another port."""
    graph = document.graph
    fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    ports = [(n, p) for n in graph.nodes for p in n.input_ports if (n.id, p.id) not in fed]
    times = Counter(port.id for _, port in ports)
    times.update(f"{n.id}.{p.id}" for n in graph.nodes for p in n.output_ports)
    return tuple(
        OpenPort(
            name=port.id if times[port.id] == 1 else f"{node.id}.{port.id}",
            node=node.id,
            port=port,
            where=f"{document.where}.nodes['{node.id}'].input_ports['{port.id}']",
        )
        for node, port in ports
    )


def bind(document: Document, given: Mapping[str, Any], options: Options) -> dict[str, Array]:
    """The arrays of all inputs: given ones by port id or `node.port`, defaults for the rest.

    Raises:
        InputError: a name is unknown, or a value does not fit what its port states.
    """
    ports = open_ports(document)
    known = {name for port in ports for name in (port.name, port.full_name, port.port.id)}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(
            f"the model has no input '{unknown[0]}'",
            hint=_unknown_input_hint(unknown[0], document, known),
        )
    return {port.name: _array(port, given, options) for port in ports}


def _unknown_input_hint(name: str, document: Document, known: Iterable[str]) -> str:
    for edge in document.graph.edges:
        if name in (edge.receiver_port, f"{edge.receiver}.{edge.receiver_port}"):
            return f"'{name}' is fed by the edge '{edge.id}', so it cannot be given from outside"
    return suggestion(name, sorted(known)) or "the model takes no inputs"


def _array(port: OpenPort, given: Mapping[str, Any], options: Options) -> Array:
    name = next((n for n in (port.full_name, port.name, port.port.id) if n in given), None)
    if name is None:
        return default_array(port.port, options.precision, port.where)
    return given_array(port.port, given[name], options.precision, name, port.where)


@dataclass(frozen=True, slots=True)
class Reading:
    """A program, and what each place of the model became in it."""

    program: Program
    types: Mapping[str, Any]


def read(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    record: Sequence[str] = (),
    options: Options | None = None,
) -> Program:
    """Read one evaluation of an MDF model as a program.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        inputs: values by port id (`node.port` where ambiguous); they fix dtypes and shapes.
        record: `node.port`, `node.parameter` or `node.function` to give besides the outputs.
        options: precision, shapes, bound.

    Raises:
        LoopError: everything that is wrong with the model, at once.
    """
    return read_annotated(source, inputs, record=record, options=options).program


def read_annotated(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    record: Sequence[str] = (),
    options: Options | None = None,
) -> Reading:
    """Like `read`, with the value that each MDF path became."""
    document = open_document(source)
    options = options or Options()
    arrays = bind(document, inputs or {}, options)
    reading = ProgramReader(document, options).read(arrays, record)
    raise_findings(check(reading.program))
    return reading


class ProgramReader:
    """Puts a program together: inputs, graph, outputs."""

    def __init__(self, document: Document, options: Options) -> None:
        self.document = document
        self.b = Builder(options)
        self.inputs: dict[str, Input] = {}
        self.ports = {(p.node, p.port.id): p for p in open_ports(document)}

    def read(self, arrays: Mapping[str, Array], record: Sequence[str]) -> Reading:
        """Read the graph for inputs of these types."""
        self.declare(arrays)
        graph = self.read_graph(self.b)
        outputs = self.outputs(graph, record)
        return Reading(self.program(outputs), self.b.types)

    def declare(self, arrays: Mapping[str, Array]) -> None:
        """Make the graph's open ports inputs of the program."""
        for port in self.ports.values():
            array = arrays[port.name]
            dtype = onnx_ops.dtype_name(array)
            with self.b.at(port.where):
                self.declare_one(port.name, dtype, array.shape, (port.full_name,), array)

    def declare_one(
        self,
        name: str,
        dtype: str,
        shape: Shape,
        ports: tuple[str, ...] = (),
        default: Array | None = None,
    ) -> Value:
        """Make a named input of the program."""
        self.inputs[name] = Input(self.b.new(dtype, shape, name), ports, default)
        return self.inputs[name].value

    def read_graph(self, b: Builder, later: Later | None = None) -> GraphReader:
        """Read one evaluation into a builder: the program's own, or that of a loop's body."""

        def supply(node: Any, port: Any, where: str) -> Term:
            return self.inputs[self.ports[node.id, port.id].name].value

        document = self.document
        return GraphReader(
            b, document.graph, document.where, supply, None, document, read_loop, later
        ).read()

    def program(self, outputs: Mapping[str, Value]) -> Program:
        """The program with these outputs, or all errors that were found."""
        raise_findings(self.b.findings.found)
        return Program(
            name=self.document.graph.id,
            inputs=tuple(self.inputs.values()),
            ops=tuple(self.b.ops),
            outputs=tuple(outputs.items()),
        )

    def outputs(self, graph: GraphReader, record: Sequence[str]) -> dict[str, Value]:
        """The outputs of the graph, and what else is to be recorded, by `node.port`."""
        outputs: dict[str, Value] = {}
        for name in (*self._output_names(), *record):
            with self.b.findings.catch():
                full, term = self._find_output(name, graph)
                if isinstance(term, tuple):
                    raise ArityError(
                        f"'{full}' is {len(term)} results, an output is one",
                        self.document.where,
                        "choose one in the port's value, e.g. loop[0]",
                    )
                outputs[full] = term
        return outputs

    def _output_names(self) -> list[str]:
        """`metadata.outputs` where given, else every output port that feeds no edge."""
        graph = self.document.graph
        stated = (graph.metadata or {}).get("outputs")
        if stated:
            return [str(name) for name in stated]
        sent = {(edge.sender, edge.sender_port) for edge in graph.edges}
        return [
            f"{n.id}.{p.id}"
            for n in graph.nodes
            for p in n.output_ports
            if (n.id, p.id) not in sent
        ]

    def _find_output(self, name: str, graph: GraphReader) -> tuple[str, Term]:
        for node in self.document.graph.nodes:
            for kind in ("output_ports", "parameters", "functions"):
                for item in getattr(node, kind):
                    full = f"{node.id}.{item.id}"
                    if name == full or (kind == "output_ports" and name == item.id):
                        return full, self._term(graph, node.id, item.id, kind)
        known = [f"{n.id}.{p.id}" for n in self.document.graph.nodes for p in n.output_ports]
        raise UnknownNameError(
            f"the model has no output '{name}'", self.document.where, suggestion(name, known)
        )

    def _term(self, graph: GraphReader, node: str, item: str, kind: str) -> Term:
        reader = graph.readers.get(node)
        if reader is None:
            raise Poisoned
        if kind != "output_ports":
            return reader.scope.get(item)
        term = graph.outputs.get((node, item))
        if term is None:
            raise Poisoned
        return term
