"""Storage of the original MDF model in the metadata of an exported ONNX file.

    mdf_loop.model     the model as JSON, without its arrays
    mdf_loop.arrays    the path of each array in the model, and the location of its bits: an initializer
                       of the graph, an initializer that a pass has transposed, or `mdf_loop.stored`
    mdf_loop.stored    arrays that are in no initializer, because no operator reads them
    mdf_loop.digest    digest of the graph and of the entries above

The entries are metadata of the file. If a file was changed after its export, its digest differs. Such a file
is imported from its graph, like a file of another program.
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
from mdf_loop.importing.lifting import ExtractedArray, extract_arrays, insert_arrays
from mdf_loop.importing.onnx_graph import tensor_to_array
from mdf_loop.ir import Array
from mdf_loop.ir.types import MAX_FILE_BYTES, dtype_name

MODEL, ARRAYS, STORED = "mdf_loop.model", "mdf_loop.arrays", "mdf_loop.stored"
DIGEST = "mdf_loop.digest"
_READ_ERRORS = (ValueError, TypeError, LookupError, RecursionError, MemoryError, DecodeError)
"""Errors that can occur when invalid metadata are read."""


def add_origin(proto: onnx.ModelProto, document: Document) -> None:
    """Write the MDF model into the metadata of the ONNX model that was exported from it.

    Write nothing if the arrays in the metadata would make the file larger than 2 GB.
    """
    content, extracted_arrays = extract_arrays(content_of(document))
    initializer_digests = _initializer_digests(proto.graph)
    array_locations = _ArrayLocations(initializer_digests)
    entries = {MODEL: json.dumps(content, default=str)}
    if extracted_arrays:
        locations = [
            (
                extracted_array.path,
                array_locations.of(extracted_array.array),
                extracted_array.is_list,
            )
            for extracted_array in extracted_arrays
        ]
        entries[ARRAYS] = json.dumps(locations)
    if array_locations.stored:
        # base64 has 4 letters for 3 bytes.
        if proto.ByteSize() + array_locations.bytes * 4 // 3 > MAX_FILE_BYTES:
            return
        stored_arrays = onnx.GraphProto(initializer=array_locations.stored)
        entries[STORED] = base64.b64encode(stored_arrays.SerializeToString()).decode()
    entries[DIGEST] = _model_digest(proto, initializer_digests, entries)
    for key, entry_text in entries.items():
        proto.metadata_props.add(key=key, value=entry_text)


def origin_of(proto: onnx.ModelProto) -> Content | None:
    """Return the content of the MDF model from which an ONNX file was exported, or None."""
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    if MODEL not in metadata:
        return None
    entries = {key: metadata[key] for key in (MODEL, ARRAYS, STORED) if key in metadata}
    if metadata.get(DIGEST) != _model_digest(proto, _initializer_digests(proto.graph), entries):
        return None
    try:
        content: Content = json.loads(entries[MODEL])
        insert_arrays(content, _read_arrays(proto.graph, entries))
    except _READ_ERRORS:
        return None
    return content


# --- locations of arrays --------------------------------------------------------------------------


_Location: TypeAlias = "str | int | dict[str, str]"
"""Name of an initializer, of a transposed initializer, or index of a stored array."""


class _ArrayLocations:
    """Locations of an MDF model's arrays in its ONNX file: equal initializers, or stored copies."""

    def __init__(self, digests: Sequence[tuple[str, bytes]]) -> None:
        self._names = {digest: name for name, digest in digests}
        self._numbers: dict[bytes, int] = {}
        self.stored: list[onnx.TensorProto] = []
        self.bytes = 0

    def of(self, array: Array) -> _Location:
        """Return the location of an array, and store the array if no initializer has its bits."""
        tensor = _to_tensor(array)
        digest = _tensor_digest(tensor)
        if digest in self._names:
            return self._names[digest]
        if array.ndim == 2:
            transposed_digest = _tensor_digest(_to_tensor(np.ascontiguousarray(array.T)))
            if transposed_digest in self._names:
                return {"turned": self._names[transposed_digest]}
        if digest not in self._numbers:
            self._numbers[digest] = len(self.stored)
            self.stored.append(tensor)
            self.bytes += array.nbytes
        return self._numbers[digest]


def _to_tensor(array: Array) -> onnx.TensorProto:
    is_text = dtype_name(array) == "string"
    return numpy_helper.from_array(array.astype(object) if is_text else array)


def _read_arrays(graph: onnx.GraphProto, entries: Mapping[str, str]) -> Iterator[ExtractedArray]:
    """Yield the arrays of the original MDF model, with their paths in the model's content."""
    stored_arrays = onnx.GraphProto.FromString(base64.b64decode(entries.get(STORED, "")))
    tensors = {
        **{tensor.name: tensor for tensor in graph.initializer},
        **dict(enumerate(stored_arrays.initializer)),
    }
    for path, location, is_list in json.loads(entries.get(ARRAYS, "[]")):
        is_transposed = isinstance(location, dict)
        array = tensor_to_array(tensors[location["turned"] if is_transposed else location])
        array = np.ascontiguousarray(array.T) if is_transposed else array
        yield ExtractedArray(path, array if array.flags.writeable else array.copy(), is_list)


# --- digests --------------------------------------------------------------------------------------


def _initializer_digests(graph: onnx.GraphProto) -> list[tuple[str, bytes]]:
    """Return the name and the digest of each initializer of a graph."""
    return [(tensor.name, _tensor_digest(tensor)) for tensor in graph.initializer]


def _tensor_digest(tensor: onnx.TensorProto) -> bytes:
    """Return a digest of the dtype, the shape and the bits of a tensor."""
    digest = hashlib.sha256(json.dumps([tensor.data_type, *tensor.dims]).encode())
    if tensor.HasField("raw_data"):
        digest.update(tensor.raw_data)
    else:
        unnamed_tensor = onnx.TensorProto()
        unnamed_tensor.CopyFrom(tensor)
        unnamed_tensor.ClearField("name")
        digest.update(unnamed_tensor.SerializeToString(deterministic=True))
    return digest.digest()


def _model_digest(
    proto: onnx.ModelProto, digests: Iterable[tuple[str, bytes]], entries: Mapping[str, str]
) -> str:
    """Return a digest of the MDF model in an ONNX file and of all parts of the file that affect results."""
    digest = hashlib.sha256()
    for digested_part in _digested_parts(proto, digests, entries):
        digest.update(len(digested_part).to_bytes(8, "big"))
        digest.update(digested_part)
    return digest.hexdigest()


def _digested_parts(
    proto: onnx.ModelProto, digests: Iterable[tuple[str, bytes]], entries: Mapping[str, str]
) -> Iterator[bytes]:
    for key, entry_text in entries.items():
        yield from (key.encode(), entry_text.encode())
    for name, digest in digests:
        yield from (name.encode(), digest)
    for proto_message in (*proto.opset_import, *proto.functions):
        yield proto_message.SerializeToString(deterministic=True)
    for field, field_value in proto.graph.ListFields():
        yield field.name.encode()
        if isinstance(field_value, str):
            yield field_value.encode()
        elif field.name != "initializer":
            yield from (
                message_part.SerializeToString(deterministic=True) for message_part in field_value
            )
