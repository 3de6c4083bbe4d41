"""Lowering of calls of `onnx::` functions by the schemas of ONNX operators.

An omitted argument is the value of the same name in the node, as in MDF's engine.
Source: ONNX operators, opset 17 and later; modeci_mdf.functions.onnx (0.4.15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import defs

from mdf_loop.errors import OperandError, UnsupportedError
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.dropout import dropout
from mdf_loop.lower.expression import lower_expression
from mdf_loop.lower.extents import static_extents
from mdf_loop.lower.loop_reductions import reduce_in_loop
from mdf_loop.lower.onnx_attributes import attributes_of, is_known
from mdf_loop.lower.onnx_draws import RANDOM_OPERATORS, onnx_draw
from mdf_loop.lower.onnx_inputs import VARIADIC, inputs_of
from mdf_loop.lower.recurrent import recurrent
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.sequences import STATIC_RESULTS, cast_new_member, known_sequence_member
from mdf_loop.lower.terms import OperatorResults, Term, tensor
from mdf_loop.lower.texts import equal_texts
from mdf_loop.name_suggestions import suggest
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.build_helpers import kind

UNSUPPORTED_OPERATORS = {
    "ImageDecoder": ("reads pictures, for which ONNX Runtime has no kernel", "decode them before"),
    "If": ("takes graphs as its branches, so it is a function of a node", ""),
    "Scan": ("takes a graph as its body", "write it as an onnx::Loop"),
    "Loop": ("takes a graph as its body, so it is a function of a node", "see the loop's args"),
    "SequenceMap": ("takes a graph as its body, so it is a function of a node", ""),
}
"""Reason and hint for each operator that cannot be called as a function."""


def lower_onnx(b: ModelBuilder, op_type: str, args: Mapping[str, Any], scope: Scope) -> Term:
    """Lower a call `onnx::op_type(args)`, and return its value or a tuple of values."""
    if op_type in UNSUPPORTED_OPERATORS:
        reason, hint = UNSUPPORTED_OPERATORS[op_type]
        raise UnsupportedError(f"'onnx::{op_type}' {reason}: it cannot be compiled", hint=hint)
    schema = onnx_schema.schema(op_type)
    if op_type == "Constant":
        return _constant_argument(b, schema, args, scope)
    part_count, args = _read_part_count(b, op_type, args, scope)
    schema = _schema_version(b, op_type, args, scope)
    _refuse_unknown(op_type, schema, args)
    inputs = inputs_of(b, schema, args, scope)
    if op_type == "SequenceInsert":
        inputs = cast_new_member(b, inputs)
    if op_type == "Equal" and all(value is not None and kind(value) == "U" for value in inputs):
        return equal_texts(b, *(value for value in inputs if value is not None))
    static_result = known_sequence_member(b, inputs) if op_type == "SequenceAt" else None
    if op_type in STATIC_RESULTS:
        static_result = STATIC_RESULTS[op_type](b, inputs)
    if static_result is not None:
        return static_result
    attributes = attributes_of(b, schema, args, scope)
    static_result = static_extents(b, op_type, inputs, attributes)
    if static_result is not None:
        return static_result
    if op_type == "RoiAlign":  # the default changed between MDF's opset and OPSET
        attributes.setdefault("coordinate_transformation_mode", "output_half_pixel")
    output_count = part_count or _output_count(schema, inputs, attributes)
    if op_type == "Dropout":
        return _as_term(schema, dropout(b, inputs, attributes))
    if op_type in ("RNN", "LSTM", "GRU"):
        return _as_term(schema, recurrent(b, op_type, inputs, attributes, output_count))
    if op_type in RANDOM_OPERATORS:
        return _as_term(schema, onnx_draw(b, op_type, inputs, attributes))
    loop_reduction = reduce_in_loop(b, op_type, inputs, attributes) if b.in_loop else None
    if loop_reduction is not None:
        return loop_reduction
    outputs = b.multi(op_type, *inputs, output_count=output_count, **attributes)
    return _as_term(schema, outputs)


def _constant_argument(
    b: ModelBuilder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> Term:
    """Return the value of `onnx::Constant`, from its argument or the node's `value`."""
    expressions = list(args.values())
    if not expressions:
        expressions = [name for name in schema.attributes if scope.find_in_node(name) is not None]
    if len(expressions) != 1:
        raise OperandError(f"onnx::Constant takes one value, got {len(expressions)}")
    return lower_expression(b, expressions[0], scope)


def _schema_version(
    b: ModelBuilder, op_type: str, args: Mapping[str, Any], scope: Scope
) -> defs.OpSchema:
    """Return the first schema of an ONNX operator that has all arguments of the call.

    If an argument is known only at run time, choose a later version in which the argument is an input.
    """
    first_schema = onnx_schema.schema(op_type, args)
    for name in first_schema.attributes:
        later_schema = onnx_schema.schema_with_input(op_type, name)
        if later_schema is not None and not is_known(b, name, args, scope):
            return later_schema
    return first_schema


def _refuse_unknown(op_type: str, schema: defs.OpSchema, args: Mapping[str, Any]) -> None:
    known_names = [parameter.name for parameter in schema.inputs] + list(schema.attributes)
    if any(parameter.option == VARIADIC for parameter in schema.inputs):
        return
    for argument_name in args:
        if argument_name not in known_names:
            raise OperandError(
                f"onnx::{op_type} has no argument '{argument_name}'",
                hint=suggest(argument_name, known_names),
            )


def _read_part_count(
    b: ModelBuilder, op_type: str, args: Mapping[str, Any], scope: Scope
) -> tuple[int, Mapping[str, Any]]:
    """Return the number of parts of an `onnx::Split` call (0 if absent), and the other arguments."""
    if op_type != "Split" or args.get("num_outputs") is None:
        return 0, args
    constant_part_count = b.evaluated(tensor(b, lower_expression(b, args["num_outputs"], scope)))
    if (
        constant_part_count is None
        or constant_part_count.size != 1
        or constant_part_count.dtype.kind not in "iu"
        or constant_part_count < 1
    ):
        raise OperandError(f"onnx::Split cannot make {args['num_outputs']} parts")
    return int(constant_part_count), {
        argument_name: expression
        for argument_name, expression in args.items()
        if argument_name != "num_outputs"
    }


def _output_count(
    schema: defs.OpSchema, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> int:
    """Return the number of outputs of an ONNX operator in a call.

    These are all results of its schema, as in MDF's engine.
    """
    if schema.name == "Split":
        part_sizes = inputs[1] if len(inputs) > 1 else None
        return _part_count(part_sizes) if part_sizes is not None else 1
    if schema.name == "BatchNormalization" and not attributes.get("training_mode"):
        return 1
    return len(schema.outputs)


def _part_count(part_sizes: Value) -> int:
    if not part_sizes.shape or not isinstance(part_sizes.shape[0], int):
        raise OperandError(f"how many parts onnx::Split makes must be known, not {part_sizes.type}")
    return part_sizes.shape[0]


def _as_term(schema: defs.OpSchema, outputs: tuple[Value, ...]) -> Term:
    """Return the outputs of an ONNX operator as one value, or as a tuple of several values.

    If the later outputs are optional, a bare name denotes the first output.
    """
    if schema.min_output <= 1 < len(schema.outputs):
        return OperatorResults(outputs)
    return outputs[0] if len(outputs) == 1 else outputs
