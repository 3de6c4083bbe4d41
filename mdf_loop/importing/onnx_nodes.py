"""One node of an ONNX file against ONNX's definition of its operator: counts, attributes, bodies."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import defs

from mdf_loop.errors import ArityError, ModelError
from mdf_loop.importing.onnx_library import Library

_SINGLE = defs.OpSchema.FormalParameterOption.Single
_KINDS = {
    int(kind): str(onnx.AttributeProto.AttributeType.Name(kind)).lower()
    for kind in onnx.AttributeProto.AttributeType.values()
}


def kind_number(formal: Any) -> int:
    """ONNX's number for the kind of an attribute."""
    return int(formal.type.value)


def check_node(node: onnx.NodeProto, library: Library, where: str) -> None:
    """Refuse a node that its operator (or the function that it calls) cannot be."""
    function = library.function(node)
    if function is not None:
        _at_most(node, len(function.input), len(function.output), where)
        return
    schema = library.schema(node, where)
    _counts(node, schema, where)
    _attributes(node, schema, where)
    if schema.name == "Scan":
        _scan(node, int(schema.since_version == 8), where)
    elif schema.name in _BODIES and not schema.domain:
        _BODIES[schema.name](node, where)


def _at_most(node: onnx.NodeProto, inputs: int, outputs: int, where: str) -> None:
    for word, has, most in (
        ("inputs", len(node.input), inputs),
        ("outputs", len(node.output), outputs),
    ):
        if has > most:
            raise ArityError(f"function '{node.op_type}' has {most} {word}, given {has}", where)


def _counts(node: onnx.NodeProto, schema: defs.OpSchema, where: str) -> None:
    if schema.deprecated:
        raise ModelError(
            f"operator '{node.op_type}' does not exist any more in opset {schema.since_version} "
            "and later",
            where,
        )
    for word, has, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= has <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            wanted = f"at least {least}" if most > 10_000 else wanted
            raise ArityError(f"{node.op_type} has {wanted} {word}, given {has}", where)
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if formal.option == _SINGLE and not name:
            raise ArityError(f"input '{formal.name}' of {node.op_type} must be given", where)


def _attributes(node: onnx.NodeProto, schema: defs.OpSchema, where: str) -> None:
    seen: set[str] = set()
    for attribute in node.attribute:
        if attribute.name in seen:
            raise ModelError(f"attribute '{attribute.name}' is given twice", where)
        seen.add(attribute.name)
        formal = schema.attributes.get(attribute.name)
        if formal is None:
            raise ModelError(f"{node.op_type} has no attribute '{attribute.name}'", where)
        if attribute.ref_attr_name:
            continue
        wanted = kind_number(formal)
        if attribute.type != wanted:
            raise ModelError(
                f"attribute '{attribute.name}' of {node.op_type} must be {_KINDS[wanted]}, not "
                f"{_KINDS.get(attribute.type, attribute.type)}",
                where,
            )
        if wanted == onnx.AttributeProto.GRAPH and not attribute.HasField("g"):
            raise ModelError(f"attribute '{attribute.name}' holds no graph", where)
    for name, formal in schema.attributes.items():
        if formal.required and name not in seen:
            word = "body" if formal.type == defs.OpSchema.AttrType.GRAPH else "attribute"
            raise ModelError(f"{node.op_type} has no {word} '{name}'", where)


def _body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    found: onnx.GraphProto = next(a.g for a in node.attribute if a.name == name)
    return found


def _loop(node: onnx.NodeProto, where: str) -> None:
    body, carried = _body(node, "body"), max(len(node.input) - 2, 0)
    _same(
        f"a body of {2 + carried} inputs (iteration, condition and {carried} carried values)",
        2 + carried, "inputs", len(body.input), where,
    )  # fmt: skip
    least = 1 + carried
    if len(body.output) < least:
        raise ArityError(
            f"Loop with {carried} carried values needs a body of at least {least} outputs "
            f"(condition, carried values, then recorded ones), but it has {len(body.output)}",
            f"{where}.body",
        )
    _same(
        f"{len(body.output) - 1} outputs ({carried} carried values and "
        f"{len(body.output) - least} recorded ones, as its body has)",
        len(body.output) - 1, "outputs", len(node.output), where,
    )  # fmt: skip


def _same(wanted: str, count: int, word: str, has: int, where: str) -> None:
    if has != count:
        raise ArityError(f"this node needs {wanted}, but there are {has} {word}", where)


def _if(node: onnx.NodeProto, where: str) -> None:
    for name in ("then_branch", "else_branch"):
        branch = _body(node, name)
        _same(
            f"as many results in {name} as it has outputs ({len(node.output)})",
            len(node.output), "results", len(branch.output), f"{where}.{name}",
        )  # fmt: skip
        if branch.input:
            raise ArityError(
                f"a branch has no inputs, given {len(branch.input)}", f"{where}.{name}"
            )


def _scan(node: onnx.NodeProto, before: int, where: str) -> None:
    """`before`: inputs in front of the carried ones (opset 8 has sequence_lens there)."""
    body = _body(node, "body")
    scanned = next(a.i for a in node.attribute if a.name == "num_scan_inputs")
    given = len(node.input) - before
    if not 1 <= scanned <= given:
        raise ArityError(f"num_scan_inputs is {scanned}, but there are {given} inputs", where)
    _same(f"a body of {given} inputs", given, "inputs", len(body.input), where)
    _same(
        f"{len(body.output)} outputs, as its body has",
        len(body.output), "outputs", len(node.output), where,
    )  # fmt: skip


def _sequence_map(node: onnx.NodeProto, where: str) -> None:
    body = _body(node, "body")
    _same(f"a body of {len(node.input)} inputs", len(node.input), "inputs", len(body.input), where)
    _same(
        f"{len(body.output)} outputs, as its body has",
        len(body.output), "outputs", len(node.output), where,
    )  # fmt: skip


_BODIES = {"Loop": _loop, "If": _if, "SequenceMap": _sequence_map}
