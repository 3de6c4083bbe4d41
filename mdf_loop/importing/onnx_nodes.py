"""Check of one ONNX node against the schema of its operator."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import defs

from mdf_loop.errors import ArityError, ModelError
from mdf_loop.importing.onnx_library import Library
from mdf_loop.ops import row_of
from mdf_loop.ops.registry import no_attribute_fault

_REQUIRED_INPUT = defs.OpSchema.FormalParameterOption.Single
_ATTRIBUTE_KINDS = {
    int(attribute_kind): str(onnx.AttributeProto.AttributeType.Name(attribute_kind)).lower()
    for attribute_kind in onnx.AttributeProto.AttributeType.values()
}


def kind_number(formal: Any) -> int:
    """Return the `AttributeProto` type number of an attribute in an operator's schema."""
    return int(formal.type.value)


def check_node(node: onnx.NodeProto, library: Library, where: str) -> None:
    """Raise an error if a node does not fit its operator, or the function that it calls."""
    called_function = library.function(node)
    if called_function is not None:
        _check_call_counts(node, len(called_function.input), len(called_function.output), where)
        return
    operator_schema = library.schema(node, where)
    _check_counts(node, operator_schema, where)
    _check_attributes(node, operator_schema, where)
    if operator_schema.name == "Scan":
        _check_scan(node, int(operator_schema.since_version == 8), where)
    elif operator_schema.name in _BODY_CHECKS and not operator_schema.domain:
        _BODY_CHECKS[operator_schema.name](node, where)


def _check_call_counts(node: onnx.NodeProto, inputs: int, outputs: int, where: str) -> None:
    for inputs_or_outputs, count, max_count in (
        ("inputs", len(node.input), inputs),
        ("outputs", len(node.output), outputs),
    ):
        if count > max_count:
            raise ArityError(
                f"function '{node.op_type}' has {max_count} {inputs_or_outputs}, given {count}",
                where,
            )


def _check_counts(node: onnx.NodeProto, schema: defs.OpSchema, where: str) -> None:
    if schema.deprecated:
        raise ModelError(
            f"operator '{node.op_type}' does not exist any more in opset {schema.since_version} "
            "and later",
            where,
        )
    for inputs_or_outputs, actual_count, min_count, max_count in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not min_count <= actual_count <= max_count:
            expected_count_text = (
                f"{min_count}" if min_count == max_count else f"{min_count} to {max_count}"
            )
            expected_count_text = (
                f"at least {min_count}" if max_count > 10_000 else expected_count_text
            )
            raise ArityError(
                f"{node.op_type} has {expected_count_text} {inputs_or_outputs}, given {actual_count}",
                where,
            )
    for formal_input, input_name in zip(schema.inputs, node.input, strict=False):
        if formal_input.option == _REQUIRED_INPUT and not input_name:
            raise ArityError(f"input '{formal_input.name}' of {node.op_type} must be given", where)


def attribute_fault_of(node: onnx.NodeProto) -> str:
    """Return a description of the invalid text attributes of an ONNX node, or an empty text."""
    describe_fault = row_of(node.op_type).attribute_fault
    if describe_fault is no_attribute_fault:
        return ""
    return describe_fault(
        {
            attribute.name: attribute.s
            for attribute in node.attribute
            if attribute.type == onnx.AttributeProto.STRING
        }
    )


def _check_attributes(node: onnx.NodeProto, operator_schema: defs.OpSchema, where: str) -> None:
    attribute_names: set[str] = set()
    for attribute in node.attribute:
        if attribute.name in attribute_names:
            raise ModelError(f"attribute '{attribute.name}' is given twice", where)
        attribute_names.add(attribute.name)
        formal_attribute = operator_schema.attributes.get(attribute.name)
        if formal_attribute is None:
            raise ModelError(f"{node.op_type} has no attribute '{attribute.name}'", where)
        if attribute.ref_attr_name:
            continue
        attribute_kind = kind_number(formal_attribute)
        if attribute.type != attribute_kind:
            raise ModelError(
                f"attribute '{attribute.name}' of {node.op_type} must be {_ATTRIBUTE_KINDS[attribute_kind]}, not "
                f"{_ATTRIBUTE_KINDS.get(attribute.type, attribute.type)}",
                where,
            )
        if attribute_kind == onnx.AttributeProto.GRAPH and not attribute.HasField("g"):
            raise ModelError(f"attribute '{attribute.name}' holds no graph", where)
    if not operator_schema.domain and (attribute_fault := attribute_fault_of(node)):
        raise ModelError(attribute_fault, where)
    for attribute_name, formal_attribute in operator_schema.attributes.items():
        if formal_attribute.required and attribute_name not in attribute_names:
            body_or_attribute = (
                "body" if formal_attribute.type == defs.OpSchema.AttrType.GRAPH else "attribute"
            )
            raise ModelError(f"{node.op_type} has no {body_or_attribute} '{attribute_name}'", where)


def _find_body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    body_graph: onnx.GraphProto = next(
        attribute.g for attribute in node.attribute if attribute.name == name
    )
    return body_graph


def _check_loop(node: onnx.NodeProto, where: str) -> None:
    body_graph, carried_count = _find_body(node, "body"), max(len(node.input) - 2, 0)
    _check_equal(
        f"a body of {2 + carried_count} inputs (iteration, condition and {carried_count} carried values)",
        2 + carried_count, "inputs", len(body_graph.input), where,
    )  # fmt: skip
    min_output_count = 1 + carried_count
    if len(body_graph.output) < min_output_count:
        raise ArityError(
            f"Loop with {carried_count} carried values needs a body of at least {min_output_count} outputs "
            f"(condition, carried values, then recorded ones), but it has {len(body_graph.output)}",
            f"{where}.body",
        )
    _check_equal(
        f"{len(body_graph.output) - 1} outputs ({carried_count} carried values and "
        f"{len(body_graph.output) - min_output_count} recorded ones, as its body has)",
        len(body_graph.output) - 1, "outputs", len(node.output), where,
    )  # fmt: skip


def _check_equal(
    expectation: str, expected_count: int, inputs_or_outputs: str, actual_count: int, where: str
) -> None:
    if actual_count != expected_count:
        raise ArityError(
            f"this node needs {expectation}, but there are {actual_count} {inputs_or_outputs}",
            where,
        )


def _check_branches(node: onnx.NodeProto, where: str) -> None:
    for branch_name in ("then_branch", "else_branch"):
        branch_graph = _find_body(node, branch_name)
        _check_equal(
            f"as many results in {branch_name} as it has outputs ({len(node.output)})",
            len(node.output), "results", len(branch_graph.output), f"{where}.{branch_name}",
        )  # fmt: skip
        if branch_graph.input:
            raise ArityError(
                f"a branch has no inputs, given {len(branch_graph.input)}", f"{where}.{branch_name}"
            )


def _check_scan(node: onnx.NodeProto, leading_inputs: int, where: str) -> None:
    """Check that a Scan node and its body have matching numbers of inputs and outputs.

    The first `leading_inputs` inputs (sequence_lens in opset 8) are not passed to the body.
    """
    body_graph = _find_body(node, "body")
    scan_input_count = next(
        attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"
    )
    input_count = len(node.input) - leading_inputs
    if not 1 <= scan_input_count <= input_count:
        raise ArityError(
            f"num_scan_inputs is {scan_input_count}, but there are {input_count} inputs", where
        )
    _check_equal(
        f"a body of {input_count} inputs", input_count, "inputs", len(body_graph.input), where
    )
    _check_equal(
        f"{len(body_graph.output)} outputs, as its body has",
        len(body_graph.output), "outputs", len(node.output), where,
    )  # fmt: skip


def _check_sequence_map(node: onnx.NodeProto, where: str) -> None:
    body_graph = _find_body(node, "body")
    _check_equal(
        f"a body of {len(node.input)} inputs",
        len(node.input),
        "inputs",
        len(body_graph.input),
        where,
    )
    _check_equal(
        f"{len(body_graph.output)} outputs, as its body has",
        len(body_graph.output), "outputs", len(node.output), where,
    )  # fmt: skip


_BODY_CHECKS = {"Loop": _check_loop, "If": _check_branches, "SequenceMap": _check_sequence_map}
