"""Tensors of an ONNX file before anybody decodes them: element type, extents, size of the data.

Data that lies outside the file must lie inside the model's folder and reach as far as is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from onnx import external_data_helper

from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.importing.onnx_places import in_body, node_place
from mdf_loop.ir.types import dtype_of
from mdf_loop.paths import noted

T = onnx.TensorProto
_FIELDS: dict[int, str] = {
    T.FLOAT: "float_data", T.COMPLEX64: "float_data", T.DOUBLE: "double_data",
    T.COMPLEX128: "double_data", T.INT64: "int64_data", T.UINT32: "uint64_data",
    T.UINT64: "uint64_data", T.STRING: "string_data",
}  # fmt: skip
"""Element type -> where its numbers stand if not in raw_data; the others in int32_data."""
_BYTES: dict[int, int] = {
    T.FLOAT: 4, T.DOUBLE: 8, T.FLOAT16: 2, T.BFLOAT16: 2, T.COMPLEX64: 8, T.COMPLEX128: 16,
    T.INT8: 1, T.INT16: 2, T.INT32: 4, T.INT64: 8, T.UINT8: 1, T.UINT16: 2, T.UINT32: 4,
    T.UINT64: 8, T.BOOL: 1,
}  # fmt: skip
_PARTS: dict[int, int] = {T.COMPLEX64: 2, T.COMPLEX128: 2}


def check_dtype(code: int, where: str, what: str) -> None:
    """Refuse an element type that does not exist or that we do not have."""
    if code not in T.DataType.values() or code == T.UNDEFINED:
        raise ModelError(f"{what} has element type number {code}, which ONNX does not have", where)
    try:
        dtype_of(code)
    except KeyError:
        word = T.DataType.Name(code).lower()
        raise UnsupportedError(
            f"{what} has element type {word}, which is not supported",
            where,
            "export the model with floats, integers, truth values or texts of 8 bits and more",
        ) from None


def tensors_in(graph: onnx.GraphProto, where: str) -> Iterator[tuple[onnx.TensorProto, str]]:
    """Every tensor of a graph and its bodies, with its place."""
    waiting = [(graph, where)]
    while waiting:
        current, place = waiting.pop()
        for tensor in current.initializer:
            yield tensor, f"{place}.initializer['{tensor.name}']"
        for index, node in enumerate(current.node):
            for attribute, at in _attributes(node, node_place(place, node, index)):
                if attribute.HasField("t"):
                    yield attribute.t, at
                yield from ((tensor, at) for tensor in attribute.tensors)
                waiting.extend((g, at) for g in (*_one_graph(attribute), *attribute.graphs))


def _attributes(node: onnx.NodeProto, place: str) -> Iterator[tuple[onnx.AttributeProto, str]]:
    return ((attribute, in_body(place, attribute.name)) for attribute in node.attribute)


def _one_graph(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g] if attribute.HasField("g") else []


def check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    """Element type and extents are sane, and the data in the file has their size."""
    what = f"tensor '{tensor.name}'" if tensor.name else "a tensor"
    check_dtype(tensor.data_type, where, what)
    if any(extent < 0 for extent in tensor.dims):
        raise ModelError(f"{what} has a negative extent in its shape {_shape(tensor)}", where)
    if tensor.HasField("segment"):
        raise UnsupportedError(f"{what} is stored in segments", where)
    if tensor.data_location == T.EXTERNAL:
        return
    if tensor.HasField("raw_data") and tensor.data_type == T.STRING:
        raise ModelError(f"{what} has its texts as raw data, which ONNX does not allow", where)
    has, wanted, unit = _size(tensor)
    if has != wanted:
        raise ModelError(
            f"{what} is declared as {_shape(tensor)}, which is {wanted} {unit}, but the file "
            f"has {has} {unit} for it",
            where,
            "the file is damaged, or was written wrongly",
        )


def _size(tensor: onnx.TensorProto) -> tuple[int, int, str]:
    count = math.prod(tensor.dims)
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data), count * _BYTES[tensor.data_type], "bytes"
    field = _FIELDS.get(tensor.data_type, "int32_data")
    return len(getattr(tensor, field)), count * _PARTS.get(tensor.data_type, 1), "numbers"


def _shape(tensor: onnx.TensorProto) -> str:
    word = T.DataType.Name(tensor.data_type).lower()
    return f"{word}[{', '.join(str(extent) for extent in tensor.dims)}]"


def load_external(tensor: onnx.TensorProto, where: str, folder: Path) -> int:
    """Bring the data of a tensor from its file; checks first, so that nothing else is read.

    Returns how many bytes that are.
    """
    words = {entry.key: entry.value for entry in tensor.external_data}
    file = _data_file(words.get("location", ""), tensor.name, where, folder)
    offset, wanted = _number(words, "offset", where), _wanted_bytes(tensor, words, where)
    has = noted(file).stat().st_size
    if offset + wanted > has:
        raise ModelError(
            f"the data of tensor '{tensor.name}' should be bytes {offset} to {offset + wanted} "
            f"of '{words['location']}', but that file has {has} bytes",
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
    return wanted


def _data_file(location: str, name: str, where: str, folder: Path) -> Path:
    if not location or "\0" in location:
        raise ModelError(f"tensor '{name}' does not say in which file its data lies", where)
    windows = PureWindowsPath(location)
    absolute = PurePosixPath(location).is_absolute() or windows.is_absolute() or windows.drive
    upward = ".." in PurePosixPath(location).parts or ".." in windows.parts
    file = folder / location
    leaves = absolute or upward
    if leaves or not file.resolve().is_relative_to(folder.resolve()):
        raise ModelError(
            f"the data of tensor '{name}' is said to lie in '{location}', outside the folder of "
            "the model; that is not read",
            where,
            "put the data file beside the model",
        )
    if not file.is_file():
        raise ModelError(
            f"the data of tensor '{name}' should lie in '{location}' beside the model, but there "
            "is no such file",
            where,
            "copy the data file together with the model",
        )
    return file


def _wanted_bytes(tensor: onnx.TensorProto, words: dict[str, str], where: str) -> int:
    if tensor.data_type == T.STRING:
        raise ModelError(f"texts of tensor '{tensor.name}' cannot lie in another file", where)
    wanted: int = math.prod(tensor.dims) * _BYTES[tensor.data_type]
    said = _number(words, "length", where) if "length" in words else wanted
    if said != wanted:
        raise ModelError(
            f"tensor '{tensor.name}' is declared as {_shape(tensor)}, which is {wanted} bytes, "
            f"but its data is said to have {said} bytes",
            where,
        )
    return wanted


def _number(words: dict[str, str], key: str, where: str) -> int:
    text = words.get(key, "0")
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ModelError(f"{key} '{text[:40]}' of a data file is not a whole number", where)
    return int(text)
