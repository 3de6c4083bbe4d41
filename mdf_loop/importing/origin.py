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

MODEL_KEY, ARRAYS_KEY, STORED_KEY = "mdf_loop.model", "mdf_loop.arrays", "mdf_loop.stored"
DIGEST_KEY = "mdf_loop.digest"
_READ_ERRORS = (ValueError, TypeError, LookupError, RecursionError, MemoryError, DecodeError)
"""Errors that can occur when invalid metadata are read."""


def add_origin(proto: onnx.ModelProto, document: Document) -> None:
    """Write the MDF model into the metadata of the ONNX model that was exported from it.

    Write nothing if the arrays in the metadata would make the file larger than 2 GB.
    """
    mdf_content, extracted_arrays = extract_arrays(content_of(document))
    initializer_digests = _initializer_digests(proto.graph)
    array_locations = _ArrayLocations(initializer_digests)
    metadata_entries = {MODEL_KEY: json.dumps(mdf_content, default=str)}
    if extracted_arrays:
        array_paths_and_locations = [
            (
                extracted_array.path,
                array_locations.locate_or_store(extracted_array.array),
                extracted_array.is_list,
            )
            for extracted_array in extracted_arrays
        ]
        metadata_entries[ARRAYS_KEY] = json.dumps(array_paths_and_locations)
    if array_locations.stored_tensors:
        # base64 has 4 letters for 3 bytes.
        if proto.ByteSize() + array_locations.stored_bytes * 4 // 3 > MAX_FILE_BYTES:
            return
        stored_arrays = onnx.GraphProto(initializer=array_locations.stored_tensors)
        metadata_entries[STORED_KEY] = base64.b64encode(stored_arrays.SerializeToString()).decode()
    metadata_entries[DIGEST_KEY] = _model_digest(proto, initializer_digests, metadata_entries)
    for metadata_key, entry_text in metadata_entries.items():
        proto.metadata_props.add(key=metadata_key, value=entry_text)


def origin_of(proto: onnx.ModelProto) -> Content | None:
    """Return the content of the MDF model from which an ONNX file was exported, or None."""
    metadata = {metadata_entry.key: metadata_entry.value for metadata_entry in proto.metadata_props}
    if MODEL_KEY not in metadata:
        return None
    origin_entries = {
        metadata_key: metadata[metadata_key]
        for metadata_key in (MODEL_KEY, ARRAYS_KEY, STORED_KEY)
        if metadata_key in metadata
    }
    if metadata.get(DIGEST_KEY) != _model_digest(
        proto, _initializer_digests(proto.graph), origin_entries
    ):
        return None
    try:
        mdf_content: Content = json.loads(origin_entries[MODEL_KEY])
        insert_arrays(mdf_content, _read_arrays(proto.graph, origin_entries))
    except _READ_ERRORS:
        return None
    return mdf_content


# --- locations of arrays --------------------------------------------------------------------------


_Location: TypeAlias = "str | int | dict[str, str]"
"""Name of an initializer, of a transposed initializer, or index of a stored array."""


class _ArrayLocations:
    """Places in an ONNX file where its MDF model's arrays are: initializers or stored copies."""

    def __init__(self, digests: Sequence[tuple[str, bytes]]) -> None:
        self._name_by_digest = {digest: name for name, digest in digests}
        self._index_by_digest: dict[bytes, int] = {}
        self.stored_tensors: list[onnx.TensorProto] = []
        self.stored_bytes = 0

    def locate_or_store(self, array: Array) -> _Location:
        """Return where in the ONNX file an array is stored, after storing it if necessary."""
        array_tensor = _to_tensor(array)
        tensor_digest = _tensor_digest(array_tensor)
        if tensor_digest in self._name_by_digest:
            return self._name_by_digest[tensor_digest]
        if array.ndim == 2:
            transposed_digest = _tensor_digest(_to_tensor(np.ascontiguousarray(array.T)))
            if transposed_digest in self._name_by_digest:
                return {"turned": self._name_by_digest[transposed_digest]}
        if tensor_digest not in self._index_by_digest:
            self._index_by_digest[tensor_digest] = len(self.stored_tensors)
            self.stored_tensors.append(array_tensor)
            self.stored_bytes += array.nbytes
        return self._index_by_digest[tensor_digest]


def _to_tensor(array: Array) -> onnx.TensorProto:
    is_text = dtype_name(array) == "string"
    return numpy_helper.from_array(array.astype(object) if is_text else array)


def _read_arrays(
    graph: onnx.GraphProto, metadata_entries: Mapping[str, str]
) -> Iterator[ExtractedArray]:
    """Yield the arrays of the original MDF model, with their paths in the model's content."""
    stored_arrays = onnx.GraphProto.FromString(
        base64.b64decode(metadata_entries.get(STORED_KEY, ""))
    )
    tensor_by_location = {
        **{tensor.name: tensor for tensor in graph.initializer},
        **dict(enumerate(stored_arrays.initializer)),
    }
    for content_path, location, is_list in json.loads(metadata_entries.get(ARRAYS_KEY, "[]")):
        is_transposed = isinstance(location, dict)
        array = tensor_to_array(
            tensor_by_location[location["turned"] if is_transposed else location]
        )
        array = np.ascontiguousarray(array.T) if is_transposed else array
        yield ExtractedArray(
            content_path, array if array.flags.writeable else array.copy(), is_list
        )


# --- digests --------------------------------------------------------------------------------------


def _initializer_digests(graph: onnx.GraphProto) -> list[tuple[str, bytes]]:
    """Return the name and the digest of each initializer of a graph."""
    return [(tensor.name, _tensor_digest(tensor)) for tensor in graph.initializer]


def _tensor_digest(tensor: onnx.TensorProto) -> bytes:
    """Return a digest of the dtype, the shape and the bits of a tensor."""
    tensor_hash = hashlib.sha256(json.dumps([tensor.data_type, *tensor.dims]).encode())
    if tensor.HasField("raw_data"):
        tensor_hash.update(tensor.raw_data)
    else:
        unnamed_tensor = onnx.TensorProto()
        unnamed_tensor.CopyFrom(tensor)
        unnamed_tensor.ClearField("name")
        tensor_hash.update(unnamed_tensor.SerializeToString(deterministic=True))
    return tensor_hash.digest()


def _model_digest(
    proto: onnx.ModelProto,
    initializer_digests: Iterable[tuple[str, bytes]],
    metadata_entries: Mapping[str, str],
) -> str:
    """Return a digest of the MDF model in an ONNX file and of all parts of the file that affect results."""
    model_hash = hashlib.sha256()
    for digested_part in _digested_parts(proto, initializer_digests, metadata_entries):
        model_hash.update(len(digested_part).to_bytes(8, "big"))
        model_hash.update(digested_part)
    return model_hash.hexdigest()


def _digested_parts(
    proto: onnx.ModelProto,
    initializer_digests: Iterable[tuple[str, bytes]],
    metadata_entries: Mapping[str, str],
) -> Iterator[bytes]:
    for metadata_key, entry_text in metadata_entries.items():
        yield from (metadata_key.encode(), entry_text.encode())
    for name, initializer_digest in initializer_digests:
        yield from (name.encode(), initializer_digest)
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
