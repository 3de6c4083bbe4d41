"""Reading, checking and repair of .onnx files.

All parts are checked before numbers are decoded or memory is allocated. The checks cover the bytes, the
opsets, the tensors and their data files, then the names, counts and bodies of all nodes. The nodes are
sorted topologically.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.onnx_graphs import check_graph
from mdf_loop.importing.onnx_library import Library, check_functions
from mdf_loop.importing.onnx_references import resolve_references
from mdf_loop.importing.onnx_tensors import check_tensor, load_external, tensors_in
from mdf_loop.importing.onnx_text import check_text
from mdf_loop.ir.types import MAX_FILE_BYTES

_COPY_HINT = "is it an ONNX model, and was it copied completely?"


def open_onnx(path: Path) -> onnx.ModelProto:
    """Read the ONNX model in a file, and load the external data of its tensors.

    Raises:
        ModelError: The file is missing, damaged or contradicts itself.
        UnsupportedError: The model has unknown operators or unsupported element types.
    """
    try:
        return _check_model(_parse_model(_read_bytes(path), path), path.parent)
    except RecursionError:
        raise ModelError(f"'{path}' nests its bodies too deep to be read", str(path)) from None


def check_onnx(model: onnx.ModelProto) -> onnx.ModelProto:
    """Check an ONNX model without external data, and return a repaired copy of the model.

    Raises:
        ModelError: The model contradicts itself, or has data in other files.
        UnsupportedError: The model has unknown operators, unsupported element types, or 2 GB of
            data.
    """
    model_copy = onnx.ModelProto()
    try:
        model_copy.CopyFrom(model)
    except EncodeError:
        raise _size_error() from None
    return _check_model(model_copy, None)


def _check_model(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """Check and repair a model whose data files are in `folder`, and return the model."""
    check_text(model)
    library = Library.of(model)
    check_functions(library)
    loaded_bytes = 0
    resolve_references(model, library)
    for tensor, tensor_path in tensors_in(model.graph, "$.graph"):
        check_tensor(tensor, tensor_path)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            if folder is None:
                raise ModelError(
                    f"the data of tensor '{tensor.name}' lies in another file",
                    tensor_path,
                    "give the path of the model, or load the model with its data",
                )
            loaded_bytes += load_external(tensor, tensor_path, folder)
            if loaded_bytes > MAX_FILE_BYTES:
                raise _size_error()
    check_graph(model.graph, library)
    return model


def _size_error() -> UnsupportedError:
    return UnsupportedError(
        "the model has more than 2 GB of data, which is more than ONNX Runtime is given at once",
        hint="split the model, or store its weights in a smaller dtype",
    )


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder, not a file", str(path))
    try:
        file_size = path.stat().st_size
        if file_size > MAX_FILE_BYTES:
            raise UnsupportedError(
                f"'{path}' has {file_size} bytes; one ONNX file holds 2 GB at most",
                str(path),
                "store the large tensors as external data",
            )
        file_bytes = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"there is no file '{path}'", str(path)) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"'{path}' cannot be read: {error}", str(path)) from None
    if not file_bytes:
        raise ModelError(f"'{path}' is empty", str(path), _COPY_HINT)
    return file_bytes


def _parse_model(content: bytes, path: Path) -> onnx.ModelProto:
    try:
        model = onnx.ModelProto()
        model.ParseFromString(content)
    except DecodeError as error:
        if "MaxDepth" in str(error) or "depth" in str(error):
            raise ModelError(
                f"'{path}' nests its bodies too deep: more than about 30 loops and branches "
                "inside each other",
                str(path),
                "flatten the model, or use functions",
            ) from None
        raise ModelError(
            f"'{path}' is not a whole ONNX file: it is damaged, cut short, of another "
            "kind, or nests its bodies too deep",
            str(path),
            _COPY_HINT,
        ) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError(f"'{path}' holds no graph", str(path), _COPY_HINT)
    if not model.graph.output:
        raise ModelError("the graph of the model has no outputs", "$.graph.output")
    return model
