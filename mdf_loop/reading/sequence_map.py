"""Conversion of `onnx::SequenceMap` to a `Loop` that applies a body to each member of a sequence.

    out = []                                          out = SequenceEmpty()
    for a, b in zip(xs, ys):                ->        loop i < SequenceLength(xs), carrying out:
        out.append(body(a, b, z))                         a = SequenceAt(xs, i); b = SequenceAt(ys, i)
                                                          out = SequenceInsert(out, body(a, b, z))

Inputs that are tensors are the same for every member. A run fails if a further sequence is shorter than the
first.

Source: ONNX operators, SequenceMap-17 (its function body).
"""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.document.bodies import written_body
from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Node
from mdf_loop.errors import ArityError, OperandError, SignatureError
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.ir.types import element_type, is_sequence, is_tensor, sequence_of, wrong_kind_error
from mdf_loop.lower import Scope, Term, is_omitted, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.sequences import as_sequence
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.inner_graph import InnerGraph
from mdf_loop.reading.names_read import refuse_unread
from mdf_loop.reading.owned_graph import OwnedGraph, Role, find_owned_graph
from mdf_loop.reading.readers import FunctionResults, register_reader

MAP_ARGUMENTS = ("input_sequence", "additional_inputs", "body")
"""Names of a SequenceMap's own arguments. All other arguments are captured values under other names."""


@register_reader("onnx::SequenceMap")
def read_sequence_map(
    b: ModelBuilder,
    item: FunctionOrParameter,
    node: Node,
    where: str,
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of a Function or Parameter that is a SequenceMap, and return its results."""
    map_name = f"{node.id}.{item.id}"
    owned_graph = find_owned_graph(
        written_body(item, node), item, where, describe_body(map_name), document
    )
    input_names, output_names = _check_signature(owned_graph)
    map_arguments = dict(item.args or {})
    refuse_unread(item, node, where, MAP_ARGUMENTS, document, (f"'{map_name}'", "its body does"))
    inner_scope = scope.inner()
    for argument in (name for name in map_arguments if name not in MAP_ARGUMENTS):
        with b.at(f"{where}.args.{argument}"):
            inner_scope.define(
                argument, lower_expression(b, map_arguments[argument], scope, argument)
            )
    with b.at(where, map_name):
        operands = _lower_inputs(b, map_arguments, scope)
    if len(input_names) != len(operands):
        raise ArityError(
            f"'{map_name}' has {len(operands)} inputs, but metadata.inputs of its body names "
            f"{len(input_names)}: {list(input_names)}",
            owned_graph.where,
        )
    operands_by_name = dict(zip(input_names, operands, strict=True))
    sequence_map = _LoweredSequenceMap(
        map_name, where, operands_by_name, owned_graph, output_names, inner_scope, document
    )
    loop = b.append(sequence_map.build_loop(b))
    final_sequences = tuple(carried_value.final for carried_value in loop.carried)
    return FunctionResults(final_sequences[0] if len(final_sequences) == 1 else final_sequences)


def describe_body(name: str) -> Role:
    """Return the words that name the body of a SequenceMap in error messages."""
    return Role(owner=f"'{name}'", owner_kind="map")


def _check_signature(owned: OwnedGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the body's inputs and outputs, or raise SignatureError if they are missing."""
    for stated_field, stated_names in (
        ("inputs", owned.input_names),
        ("outputs", owned.output_names),
    ):
        if not stated_names:
            raise SignatureError(
                f"{owned.role.description} does not say in which order its {stated_field} stand",
                owned.where,
                "write metadata: {inputs: [one name for each input], outputs: [...]}",
            )
    return owned.input_names or (), owned.output_names or ()


def _lower_inputs(b: ModelBuilder, args: dict[str, DocumentValue], scope: Scope) -> list[Value]:
    """Convert the inputs of a SequenceMap to program values, which are sequences and tensors."""
    if is_omitted(args.get("input_sequence")):
        missing_input_hint = suggest("input_sequence", args)
        raise OperandError(
            "onnx::SequenceMap needs the argument 'input_sequence'", hint=missing_input_hint
        )
    first_sequence = as_sequence(
        b, lower_expression(b, args["input_sequence"], scope, "input_sequence")
    )
    further_terms: Term = ()
    additional_inputs = args.get("additional_inputs")
    if not (
        is_omitted(additional_inputs)
        or (isinstance(additional_inputs, list | tuple) and not additional_inputs)
    ):
        further_terms = lower_expression(b, additional_inputs, scope, "additional_inputs")
    further_inputs = further_terms if isinstance(further_terms, tuple) else (further_terms,)
    map_inputs = [first_sequence, *(tensor(b, term) for term in further_inputs)]
    for map_input in map_inputs:
        if not (is_tensor(map_input.dtype) or is_sequence(map_input.dtype)):
            raise wrong_kind_error(map_input, "an input of onnx::SequenceMap", ("tensor", "seq"))
    return map_inputs


class _LoweredSequenceMap(Struct, frozen=True):
    """SequenceMap with its arguments as program values, before its body is converted."""

    name: str
    where: str
    operands: dict[str, Value]
    body: OwnedGraph
    outputs: tuple[str, ...]
    scope: Scope
    document: Document

    def build_loop(self, b: ModelBuilder) -> Loop:
        """Build the loop over the members of the first sequence."""
        body_builder = b.loop_body()
        with body_builder.at(self.where, self.name):
            iteration = body_builder.new("int64", (), f"{self.name}.i")
            condition = body_builder.new("bool", (), f"{self.name}.go")
            body_inputs = {
                input_name: _select_member(body_builder, operand, iteration)
                for input_name, operand in self.operands.items()
            }
        body = InnerGraph(body_builder, self.body, self.scope.inner(body_inputs), self.document)
        with body_builder.at(self.body.where):
            body_outputs = [body.value(name) for name in self.outputs]
        with b.at(self.where, self.name), body_builder.at(self.where, self.name):
            carried_values = tuple(
                self._build_carried_sequence(b, body_builder, output, name)
                for output, name in zip(body_outputs, self.outputs, strict=True)
            )
            member_count = b.op("SequenceLength", next(iter(self.operands.values())))
        return Loop(
            name=self.name,
            trip_count=member_count,
            condition=None,
            iteration=iteration,
            condition_in=condition,
            condition_out=None,
            carried=carried_values,
            recorded=(),
            ops=tuple(body_builder.ops),
            where=self.where,
        )

    def _build_carried_sequence(
        self, b: ModelBuilder, body_builder: ModelBuilder, member: Value, name: str
    ) -> Carried:
        """Build the carried sequence to which a SequenceMap's body appends an output in each iteration."""
        if not is_tensor(member.dtype):
            raise wrong_kind_error(member, f"the output '{name}' of {self.body.role.description}")
        dtype = sequence_of(member.dtype)
        empty_sequence = b.op("SequenceEmpty", dtype=element_type(member.dtype))
        carried_input = body_builder.new(dtype, None, f"{self.name}.{name}")
        carried_output = body_builder.op("SequenceInsert", carried_input, member)
        final_sequence = b.new(dtype, None, f"{self.name}.{name}")
        return Carried(empty_sequence, carried_input, carried_output, final_sequence, name)


def _select_member(body_builder: ModelBuilder, value: Value, iteration: Value) -> Value:
    """Return the value of an input in one iteration: a member of a sequence, or an entire tensor."""
    if is_tensor(value.dtype):
        return value
    return body_builder.op("SequenceAt", value, iteration)
