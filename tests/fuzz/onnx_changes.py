"""Mutations of the protobuf messages of an ONNX model.

The mutations remove, duplicate, reorder or replace fields of any message, and exchange bodies. Other
mutations point to external data in other files.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

from tests.fuzz.byte_changes import mutate_bytes
from tests.fuzz.seeds import Files

_INTEGER_TYPES = {
    *(Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_ENUM),
    *(Field.TYPE_BOOL, Field.TYPE_SINT32, Field.TYPE_SINT64),
}
_32_BIT_TYPES = {Field.TYPE_INT32, Field.TYPE_UINT32, Field.TYPE_SINT32, Field.TYPE_ENUM}
NUMBERS = (0, 1, 2, 3, 5, 7, 9, 10, 11, 16, 17, 24, 100, -1, -2, -9, 65536, 2**31 - 1, -(2**31))
LARGE = (2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
REALS = (0.0, 1.0, -1.0, 0.5, 1e38, -1e38, float("nan"), float("inf"), 1e-45)
NAMES = ("", "x", "?", "a b", "a.b", "a/b", "0", "𝜆", "None", "if", "i" * 300, "$.x['y']")
LOCATIONS = ("w.bin", "../w.bin", "/etc/passwd", "", "model.onnx", "a/../../w", "\0", ".")


def mutate_onnx(rng: random.Random, files: Files, times: int) -> Files:
    """Return the model after some mutations of its messages."""
    model = onnx.ModelProto()
    model.ParseFromString(files.content)
    for _ in range(times):
        rng.choice(_CHANGES)(rng, model)
    content = model.SerializeToString(deterministic=True)
    return dataclasses.replace(files, content=content)


def messages(root: Message) -> Iterator[Message]:
    """Yield the message and all messages inside it."""
    yield root
    for field, value in root.ListFields():
        if field.type == Field.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield from messages(part)


def messages_of_type(root: Message, kind: type[Message]) -> list[Any]:
    """Return the messages of a type, outermost first."""
    return [message for message in messages(root) if isinstance(message, kind)]


def _random_field(
    rng: random.Random, root: Message, repeated: bool | None = None
) -> tuple[Any, Any]:
    """Return a random message and one of its set fields."""
    fields = [
        (message, field)
        for message in messages(root)
        for field, _ in message.ListFields()
        if repeated is None or field.is_repeated == repeated
    ]
    return rng.choice(fields) if fields else (root, root.DESCRIPTOR.fields[0])


def _names(root: Message) -> list[str]:
    names = [
        name
        for node in messages_of_type(root, onnx.NodeProto)
        for name in (*node.input, *node.output)
    ]
    return [*names, *(value.name for value in messages_of_type(root, onnx.ValueInfoProto))]


def _random_scalar(rng: random.Random, root: Message, field: Any, old: Any) -> Any:
    if field.type in _INTEGER_TYPES:
        if field.type == Field.TYPE_BOOL:
            return not old
        return rng.choice(
            (*NUMBERS, old + 1, old - 1, *(() if field.type in _32_BIT_TYPES else LARGE))
        )
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return rng.choice(REALS)
    if field.type == Field.TYPE_BYTES:
        return mutate_bytes(rng, old, 1)
    return rng.choice((rng.choice(_names(root) or [""]), rng.choice(NAMES)))


def _change_scalar(rng: random.Random, root: Message) -> None:
    message, field = _random_field(rng, root)
    value = getattr(message, field.name)
    try:
        if field.type == Field.TYPE_MESSAGE:
            message.ClearField(field.name)
        elif not field.is_repeated:
            setattr(message, field.name, _random_scalar(rng, root, field, value))
        elif value:
            position = rng.randrange(len(value))
            value[position] = _random_scalar(rng, root, field, value[position])
    except ValueError:  # closed enums and numbers out of range
        message.ClearField(field.name)


def _clear_field(rng: random.Random, root: Message) -> None:
    message, field = _random_field(rng, root)
    if message is not root:
        message.ClearField(field.name)


def _change_repeated_field(rng: random.Random, root: Message) -> None:
    """Remove, duplicate or move one entry of a repeated field."""
    message, field = _random_field(rng, root, True)
    if not field.is_repeated:
        return
    entries = list(getattr(message, field.name))
    if not entries:
        return
    removed_entry = entries.pop(rng.randrange(len(entries)))
    for _ in range(rng.choice((0, 0, 1, 2, 2))):
        entries.insert(rng.randrange(len(entries) + 1), removed_entry)
    copies = [_copy(entry) for entry in entries]
    message.ClearField(field.name)
    getattr(message, field.name).extend(copies)


def _copy(entry: Any) -> Any:
    if not isinstance(entry, Message):
        return entry
    copy = type(entry)()
    copy.CopyFrom(entry)
    return copy


def _replace_message(rng: random.Random, root: Message) -> None:
    """Replace a message by another of its type, for example a body by an enclosing body."""
    candidates = [message for message in messages(root) if message is not root]
    if not candidates:
        return
    one = rng.choice(candidates)
    alike = [message for message in candidates if type(message) is type(one)]
    copy = _copy(rng.choice(alike))
    one.CopyFrom(copy)


def _replace_input(rng: random.Random, root: Message) -> None:
    """Replace an input of a node, mostly by a value of the same graph, which makes type errors and cycles."""
    graphs = [
        g for g in messages_of_type(root, onnx.GraphProto) if any(node.input for node in g.node)
    ]
    if graphs:
        graph = rng.choice(graphs)
        names = rng.choice([node.input for node in graph.node if node.input])
        near = [*(v.name for v in graph.input), *(n for node in graph.node for n in node.output)]
        names[rng.randrange(len(names))] = rng.choice((*near, *near, rng.choice(_names(root)), ""))


def _rename_output(rng: random.Random, root: Message) -> None:
    """Rename an output of a node, which makes duplicate and unknown names."""
    nodes = [node for node in messages_of_type(root, onnx.NodeProto) if node.output]
    if nodes:
        names = rng.choice(nodes).output
        names[rng.randrange(len(names))] = rng.choice((*_names(root), "", "new"))


def _change_type(rng: random.Random, root: Message) -> None:
    """Replace a stated type."""
    values = messages_of_type(root, onnx.ValueInfoProto)
    if values:
        kind = rng.choice((*range(1, 17), *range(1, 17), 99))
        shape = rng.choice((None, [], [1], [2], [0], [2, 3], ["n"], ["n", 3], [2**40, 2**40]))
        type_proto = onnx.helper.make_tensor_type_proto(kind, shape)
        match rng.randrange(4):
            case 0:
                type_proto = onnx.helper.make_sequence_type_proto(type_proto)
            case 1:
                type_proto = onnx.helper.make_optional_type_proto(type_proto)
        rng.choice(values).type.CopyFrom(type_proto)


def _change_operator(rng: random.Random, root: Message) -> None:
    nodes = messages_of_type(root, onnx.NodeProto)
    if nodes:
        node = rng.choice(nodes)
        known = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
        alike = [other.op_type for other in nodes]
        node.op_type = rng.choice((rng.choice(known), rng.choice(alike)))
        if rng.random() < 0.05:
            node.domain = rng.choice(("ai.onnx.ml", "com.microsoft", "ai.onnx", "me"))


def _change_attribute(rng: random.Random, root: Message) -> None:
    """Set an attribute of the operator to a random value."""
    nodes = messages_of_type(root, onnx.NodeProto)
    if not nodes:
        return
    node = rng.choice(nodes)
    try:
        known = sorted(onnx.defs.get_schema(node.op_type).attributes)
    except onnx.defs.SchemaError:
        known = []
    name = rng.choice((*known, "axis", "to"))
    value = rng.choice((*NUMBERS, *REALS, "", "x", [0], [-1, 5], [1.5], [2**62], "sum"))
    others = [_copy(attribute) for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*others, onnx.helper.make_attribute(name, value)])


def _change_tensor(rng: random.Random, root: Message) -> None:
    """Change size, dtype or storage of a tensor, so that they contradict its data."""
    tensors = messages_of_type(root, onnx.TensorProto)
    if not tensors:
        return
    tensor = rng.choice(tensors)
    match rng.randrange(5):
        case 0:
            tensor.dims.extend([rng.choice((*NUMBERS, *LARGE))])
        case 1 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice((*NUMBERS, *LARGE))
        case 2:
            tensor.data_type = rng.randrange(30)
        case 3:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
            entries = {
                "location": LOCATIONS,
                "offset": ("0", "-1", "9" * 30, "x"),
                "length": ("8", "-1", "x"),
            }
            for key, values in entries.items():
                if rng.random() < 0.7:
                    tensor.external_data.add(key=key, value=rng.choice(values))
        case _:
            numbers = tensor.raw_data or rng.randbytes(8)
            tensor.raw_data = mutate_bytes(rng, numbers, 1)


def _nest_graph(rng: random.Random, root: Message) -> None:
    """Nest a graph inside itself several times."""
    holders = [a for a in messages_of_type(root, onnx.AttributeProto) if a.HasField("g")]
    for _ in range(rng.choice((1, 3, 8)) if holders else 0):
        attribute = rng.choice(holders)
        node = onnx.NodeProto(op_type=rng.choice(("If", "Loop", "Scan")), input=["", ""])
        body = node.attribute.add(name="body", type=onnx.AttributeProto.GRAPH)
        body.g.CopyFrom(attribute.g)
        attribute.g.node.extend([node])
        if root.ByteSize() > 300_000:
            return


def _change_opset(rng: random.Random, root: Message) -> None:
    versions = (0, 1, 5, 7, 9, 10, 11, 12, 13, 14, 16, 18, 20, 21, 23, 24, 99, -1, 2**62)
    if isinstance(root, onnx.ModelProto):
        root.opset_import.add(domain=rng.choice(("", "ai.onnx")), version=rng.choice(versions))
        if rng.random() < 0.7:
            del root.opset_import[:-1]


_CHANGES: tuple[Callable[[random.Random, Message], None], ...] = (
    *(
        _change_scalar,
        _change_scalar,
        _change_scalar,
        _clear_field,
        _change_repeated_field,
        _change_repeated_field,
        _replace_message,
    ),
    *(
        _replace_message,
        _replace_input,
        _replace_input,
        _replace_input,
        _replace_input,
        _rename_output,
        _change_type,
        _change_type,
        _change_operator,
    ),
    *(
        _change_operator,
        _change_operator,
        _change_attribute,
        _change_attribute,
        _change_attribute,
        _change_tensor,
        _change_tensor,
        _nest_graph,
        _change_opset,
    ),
)
