"""The MDF model inside an ONNX file that was made of it: importing the file gives that model back.

    mdf_loop.model     the model as JSON, without its arrays
    mdf_loop.arrays    where they stand in it, and where their bits are: in an initializer of the
                       graph, as it is or turned (a pass transposed it), or among the following
    mdf_loop.stored    arrays that no initializer has: nothing reads them
    mdf_loop.digest    of the graph and of these

They are metadata of the file. A file that was changed since is read from its graph, as every other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper

from mdf_loop.document.content import content_of
from mdf_loop.document.document import Document
from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.lifting import Lifted, lift, put_back
from mdf_loop.importing.onnx_graph import array_of
from mdf_loop.ir import Array
from mdf_loop.ir.types import LARGEST_FILE, dtype_name

MODEL, ARRAYS, STORED = "mdf_loop.model", "mdf_loop.arrays", "mdf_loop.stored"
DIGEST = "mdf_loop.digest"
_NO_ORIGIN = (ValueError, TypeError, LookupError, RecursionError, MemoryError, DecodeError)
"""What reading ends in where somebody else has written these metadata."""


def add_origin(proto: onnx.ModelProto, document: Document) -> None:
    """Put the MDF model into the metadata of the ONNX model that was made of it.

    Not where arrays that are stored beside the graph make it more than a file can hold.
    """
    content, lifted = lift(content_of(document))
    prints = _prints(proto.graph)
    places = _Places(prints)
    entries = {MODEL: json.dumps(content, default=str)}
    if lifted:
        found = [(each.path, places.of(each.array), each.listed) for each in lifted]
        entries[ARRAYS] = json.dumps(found)
    if places.stored:
        if proto.ByteSize() + places.bytes * 4 // 3 > LARGEST_FILE:  # base64: 4 letters for 3 bytes
            return
        kept = onnx.GraphProto(initializer=places.stored)
        entries[STORED] = base64.b64encode(kept.SerializeToString()).decode()
    entries[DIGEST] = _digest(proto, prints, entries)
    for key, text in entries.items():
        proto.metadata_props.add(key=key, value=text)


def origin_of(proto: onnx.ModelProto) -> Content | None:
    """The content of the MDF model that the file was made of; None if it cannot be told."""
    said = {entry.key: entry.value for entry in proto.metadata_props}
    if MODEL not in said:
        return None
    entries = {key: said[key] for key in (MODEL, ARRAYS, STORED) if key in said}
    if said.get(DIGEST) != _digest(proto, _prints(proto.graph), entries):
        return None
    try:
        content: Content = json.loads(entries[MODEL])
        put_back(content, _lifted(proto.graph, entries))
    except _NO_ORIGIN:
        return None
    return content


# --- where arrays are -----------------------------------------------------------------------------


_Place: TypeAlias = "str | int | dict[str, str]"
"""The name of an initializer, of one that is turned, or a number among what is stored."""


class _Places:
    """Where arrays are: in an initializer that has their bits, else (once) in what is stored."""

    def __init__(self, prints: Sequence[tuple[str, bytes]]) -> None:
        self._names = {bits: name for name, bits in prints}
        self._numbers: dict[bytes, int] = {}
        self.stored: list[onnx.TensorProto] = []
        self.bytes = 0

    def of(self, array: Array) -> _Place:
        """Where its bits are."""
        tensor = _tensor(array)
        bits = _print(tensor)
        if bits in self._names:
            return self._names[bits]
        if array.ndim == 2:
            turned = _print(_tensor(np.ascontiguousarray(array.T)))
            if turned in self._names:
                return {"turned": self._names[turned]}
        if bits not in self._numbers:
            self._numbers[bits] = len(self.stored)
            self.stored.append(tensor)
            self.bytes += array.nbytes
        return self._numbers[bits]


def _tensor(array: Array) -> onnx.TensorProto:
    is_text = dtype_name(array) == "string"
    return numpy_helper.from_array(array.astype(object) if is_text else array)


def _lifted(graph: onnx.GraphProto, entries: Mapping[str, str]) -> Iterator[Lifted]:
    """The arrays of the model with their places in it."""
    kept = onnx.GraphProto.FromString(base64.b64decode(entries.get(STORED, "")))
    tensors = {**{t.name: t for t in graph.initializer}, **dict(enumerate(kept.initializer))}
    for path, place, listed in json.loads(entries.get(ARRAYS, "[]")):
        turned = isinstance(place, dict)
        array = array_of(tensors[place["turned"] if turned else place])
        array = np.ascontiguousarray(array.T) if turned else array
        yield Lifted(path, array if array.flags.writeable else array.copy(), listed)


# --- what tells one file from another -------------------------------------------------------------


def _prints(graph: onnx.GraphProto) -> list[tuple[str, bytes]]:
    """Every initializer's name, and what tells its array from others."""
    return [(tensor.name, _print(tensor)) for tensor in graph.initializer]


def _print(tensor: onnx.TensorProto) -> bytes:
    """What tells an array from all others: a digest of its dtype, its shape and its bits."""
    made = hashlib.sha256(json.dumps([tensor.data_type, *tensor.dims]).encode())
    if tensor.HasField("raw_data"):
        made.update(tensor.raw_data)
    else:
        alone = onnx.TensorProto()
        alone.CopyFrom(tensor)
        alone.ClearField("name")
        made.update(alone.SerializeToString(deterministic=True))
    return made.digest()


def _digest(
    proto: onnx.ModelProto, prints: Iterable[tuple[str, bytes]], entries: Mapping[str, str]
) -> str:
    """A digest of all that the numbers of a file depend on, and of the model in it."""
    made = hashlib.sha256()
    for part in _parts(proto, prints, entries):
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.hexdigest()


def _parts(
    proto: onnx.ModelProto, prints: Iterable[tuple[str, bytes]], entries: Mapping[str, str]
) -> Iterator[bytes]:
    for key, text in entries.items():
        yield from (key.encode(), text.encode())
    for name, bits in prints:
        yield from (name.encode(), bits)
    for message in (*proto.opset_import, *proto.functions):
        yield message.SerializeToString(deterministic=True)
    for field, value in proto.graph.ListFields():
        yield field.name.encode()
        if isinstance(value, str):
            yield value.encode()
        elif field.name != "initializer":
            yield from (part.SerializeToString(deterministic=True) for part in value)
