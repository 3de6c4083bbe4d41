"""Checks of the tensors of an ONNX file before they are decoded: element type, extents, data size.

External data must be in the folder of the model, and must have the declared size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from onnx import external_data_helper

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.onnx_paths import body_path, path_of_node
from mdf_loop.ir.types import dtype_of
from mdf_loop.paths import record_read_file

TensorProto = onnx.TensorProto
_DATA_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data", TensorProto.COMPLEX64: "float_data", TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data", TensorProto.INT64: "int64_data", TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data", TensorProto.STRING: "string_data",
}  # fmt: skip
"""Field with the numbers of an element type in a tensor without raw_data. The default is int32_data."""
_ELEMENT_BYTES: dict[int, int] = {
    TensorProto.FLOAT: 4, TensorProto.DOUBLE: 8, TensorProto.FLOAT16: 2, TensorProto.BFLOAT16: 2, TensorProto.COMPLEX64: 8, TensorProto.COMPLEX128: 16,
    TensorProto.INT8: 1, TensorProto.INT16: 2, TensorProto.INT32: 4, TensorProto.INT64: 8, TensorProto.UINT8: 1, TensorProto.UINT16: 2, TensorProto.UINT32: 4,
    TensorProto.UINT64: 8, TensorProto.BOOL: 1,
}  # fmt: skip
_NUMBERS_PER_ELEMENT: dict[int, int] = {TensorProto.COMPLEX64: 2, TensorProto.COMPLEX128: 2}


def check_dtype(code: int, where: str, what: str) -> None:
    """Raise an error if a tensor's element type is invalid or unsupported."""
    if code not in TensorProto.DataType.values() or code == TensorProto.UNDEFINED:
        raise ModelError(f"{what} has element type number {code}, which ONNX does not have", where)
    try:
        dtype_of(code)
    except KeyError:
        dtype_name = TensorProto.DataType.Name(code).lower()
        raise UnsupportedError(
            f"{what} has element type {dtype_name}, which is not supported",
            where,
            "export the model with floats, integers, truth values or texts of 8 bits and more",
        ) from None


def tensors_in(graph: onnx.GraphProto, where: str) -> Iterator[tuple[onnx.TensorProto, str]]:
    """Yield each tensor of a graph and of its bodies, with the tensor's path in the file."""
    pending_graphs = [(graph, where)]
    while pending_graphs:
        visited_graph, graph_path = pending_graphs.pop()
        for tensor in visited_graph.initializer:
            yield tensor, f"{graph_path}.initializer['{tensor.name}']"
        for node_index, node in enumerate(visited_graph.node):
            for attribute, attribute_path in _attributes_with_paths(
                node, path_of_node(graph_path, node, node_index)
            ):
                if attribute.HasField("t"):
                    yield attribute.t, attribute_path
                yield from ((tensor, attribute_path) for tensor in attribute.tensors)
                pending_graphs.extend(
                    (nested_graph, attribute_path)
                    for nested_graph in (*_graph_attribute(attribute), *attribute.graphs)
                )


def _attributes_with_paths(
    node: onnx.NodeProto, node_path: str
) -> Iterator[tuple[onnx.AttributeProto, str]]:
    return ((attribute, body_path(node_path, attribute.name)) for attribute in node.attribute)


def _graph_attribute(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g] if attribute.HasField("g") else []


def check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """Raise an error unless element type and extents are valid, and the data have the matching size."""
    tensor_description = f"tensor '{tensor.name}'" if tensor.name else "a tensor"
    check_dtype(tensor.data_type, where, tensor_description)
    if any(extent < 0 for extent in tensor.dims):
        raise ModelError(
            f"{tensor_description} has a negative extent in its shape {_format_type(tensor)}", where
        )
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{tensor_description} is stored in segments", where)
    if tensor.data_location == TensorProto.EXTERNAL:
        return
    if tensor.HasField("raw_data") and tensor.data_type == TensorProto.STRING:
        raise ModelError(
            f"{tensor_description} has its texts as raw data, which ONNX does not allow", where
        )
    actual_size, expected_size, size_unit = _data_size(tensor)
    if actual_size != expected_size:
        raise ModelError(
            f"{tensor_description} is declared as {_format_type(tensor)}, which is {expected_size} {size_unit}, but the file "
            f"has {actual_size} {size_unit} for it",
            where,
            "the file is damaged, or was written wrongly",
        )


def _data_size(tensor: onnx.TensorProto) -> tuple[int, int, str]:
    element_count = math.prod(tensor.dims)
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data), element_count * _ELEMENT_BYTES[tensor.data_type], "bytes"
    field_name = _DATA_FIELDS.get(tensor.data_type, "int32_data")
    return (
        len(getattr(tensor, field_name)),
        element_count * _NUMBERS_PER_ELEMENT.get(tensor.data_type, 1),
        "numbers",
    )


def _format_type(tensor: onnx.TensorProto) -> str:
    dtype_name = TensorProto.DataType.Name(tensor.data_type).lower()
    return f"{dtype_name}[{', '.join(str(extent) for extent in tensor.dims)}]"


def load_external(tensor: onnx.TensorProto, where: str, folder: Path) -> int:
    """Load the external data of a tensor, after checks that the file belongs to the model.

    Returns:
        The number of bytes.
    """
    external_fields = {
        external_field.key: external_field.value for external_field in tensor.external_data
    }
    data_file = _find_data_file(external_fields.get("location", ""), tensor.name, where, folder)
    byte_offset, byte_count = (
        _parse_count(external_fields, "offset", where),
        _declared_bytes(tensor, external_fields, where),
    )
    file_size = record_read_file(data_file).stat().st_size
    if byte_offset + byte_count > file_size:
        raise ModelError(
            f"the data of tensor '{tensor.name}' should be bytes {byte_offset} to {byte_offset + byte_count} "
            f"of '{external_fields['location']}', but that file has {file_size} bytes",
            where,
            "the data file is cut short, or belongs to another model",
        )
    try:
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"the data of tensor '{tensor.name}' cannot be read: {error}", where
        ) from None
    tensor.ClearField("data_location")
    del tensor.external_data[:]
    return byte_count


def _find_data_file(location: str, name: str, where: str, folder: Path) -> Path:
    if not location or "\0" in location:
        raise ModelError(f"tensor '{name}' does not say in which file its data lies", where)
    windows_path = PureWindowsPath(location)
    is_absolute = (
        PurePosixPath(location).is_absolute() or windows_path.is_absolute() or windows_path.drive
    )
    leads_upward = ".." in PurePosixPath(location).parts or ".." in windows_path.parts
    data_file = folder / location
    is_outside_folder = is_absolute or leads_upward
    if is_outside_folder or not data_file.resolve().is_relative_to(folder.resolve()):
        raise ModelError(
            f"the data of tensor '{name}' is said to lie in '{location}', outside the folder of "
            "the model; that is not read",
            where,
            "put the data file beside the model",
        )
    if not data_file.is_file():
        raise ModelError(
            f"the data of tensor '{name}' should lie in '{location}' beside the model, but there "
            "is no such file",
            where,
            "copy the data file together with the model",
        )
    return data_file


def _declared_bytes(tensor: onnx.TensorProto, external_fields: dict[str, str], where: str) -> int:
    if tensor.data_type == TensorProto.STRING:
        raise ModelError(f"texts of tensor '{tensor.name}' cannot lie in another file", where)
    byte_count: int = math.prod(tensor.dims) * _ELEMENT_BYTES[tensor.data_type]
    declared_length = (
        _parse_count(external_fields, "length", where)
        if "length" in external_fields
        else byte_count
    )
    if declared_length != byte_count:
        raise ModelError(
            f"tensor '{tensor.name}' is declared as {_format_type(tensor)}, which is {byte_count} bytes, "
            f"but its data is said to have {declared_length} bytes",
            where,
        )
    return byte_count


def _parse_count(external_fields: dict[str, str], key: str, where: str) -> int:
    count_text = external_fields.get(key, "0")
    if not (count_text.isascii() and count_text.isdigit()) or len(count_text) > 18:
        raise ModelError(f"{key} '{count_text[:40]}' of a data file is not a whole number", where)
    return int(count_text)
