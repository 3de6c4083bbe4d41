"""The MDF model inside an ONNX file that was made of it: importing the file gives that model back.

It stands in the file's metadata with a digest of the ONNX graph. A file that was changed since is
read from its graph, as every other file.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np
import onnx

from mdf_loop.files import ARCHIVE_ERRORS, write_arrays
from mdf_loop.importing.graph_writer import Content
from mdf_loop.importing.writing import plain
from mdf_loop.ir import Array
from mdf_loop.reading.content import content_of
from mdf_loop.reading.document import Document
from mdf_loop.reading.tensors import stored, with_arrays

MODEL, ARRAYS, DIGEST = "mdf_loop.model", "mdf_loop.arrays", "mdf_loop.graph"
_SIDE = "arrays"


def with_origin(proto: onnx.ModelProto, document: Document) -> onnx.ModelProto:
    """The same ONNX model, with the MDF model in its metadata."""
    large: dict[str, Array] = {}
    content = plain(content_of(document), _SIDE, large)
    marked = onnx.ModelProto()
    marked.CopyFrom(proto)
    entries = {MODEL: json.dumps(content, default=str), DIGEST: _digest(proto.graph)}
    if large:
        entries[ARRAYS] = _packed(large)
    for key, text in entries.items():
        marked.metadata_props.add(key=key, value=text)
    return marked


def origin_of(proto: onnx.ModelProto) -> Content | None:
    """The content of the MDF model that the file was made of; None if it cannot be told.

    Raises:
        ModelError: the metadata says a model that is none.
    """
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    if MODEL not in entries or entries.get(DIGEST) != _digest(proto.graph):
        return None
    try:
        content = json.loads(entries[MODEL])
        arrays = _unpacked(entries.get(ARRAYS, ""))
    except (*ARCHIVE_ERRORS, RecursionError):
        return None
    made: Content = with_arrays(content, lambda _: arrays)
    return made


def _digest(graph: onnx.GraphProto) -> str:
    return hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()


def _packed(arrays: dict[str, Array]) -> str:
    stream = io.BytesIO()
    kept = {name: stored(array) for name, array in arrays.items()}
    write_arrays(stream, kept, zipfile.ZIP_DEFLATED)
    return base64.b64encode(stream.getvalue()).decode()


def _unpacked(text: str) -> dict[str, Any]:
    if not text:
        return {}
    with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as archive:
        return dict(archive)
