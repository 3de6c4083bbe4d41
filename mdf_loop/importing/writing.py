"""Writing of a model to a YAML or JSON file, with large arrays in an `.npz` file beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.document.tensors import array_metadata, to_storable
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, checked_target, write_arrays, write_atomically
from mdf_loop.importing.graph_writer import Content
from mdf_loop.ir import Array
from mdf_loop.number_check import contains_only_numbers

MAX_INLINE_ELEMENTS = 64
"""Maximum number of elements of an array in the document. The `.npz` file has larger arrays."""


def check_model_file(path: str | Path) -> Path:
    """Check that a model file can be written to a path, and return the path."""
    model_path = checked_target(path, (".yaml", ".yml", ".json"), "a model")
    checked_place(model_path)
    return model_path


def write_model(content: Content, path: str | Path) -> list[Path]:
    """Write a model to a YAML or JSON file, and return the paths of all written files.

    The first of these paths is the document.

    Raises:
        InputError: The suffix is not .yaml, .yml or .json, or a file cannot be written.
    """
    model_path = check_model_file(path)
    array_file = model_path.with_suffix(".npz")
    large_arrays: dict[str, Array] = {}
    document_text = _to_text(
        to_plain_content(content, array_file.name, large_arrays), model_path.suffix.lower()
    )
    written_paths = [model_path]
    if large_arrays:
        checked_place(array_file)
        _check_replaceable(array_file, model_path)
        stored_arrays = {name: to_storable(array) for name, array in large_arrays.items()}
        write_atomically(array_file, lambda stream: write_arrays(stream, stored_arrays))
        written_paths.append(array_file)
    write_atomically(model_path, lambda stream: stream.write(document_text.encode()))
    return written_paths


def _check_replaceable(array_file: Path, target: Path) -> None:
    """Raise InputError if the npz file exists but belongs to another model file."""
    if array_file.exists() and not (
        target.exists() and array_file.name.encode() in target.read_bytes()
    ):
        raise InputError(
            f"cannot write '{array_file}', which the large arrays of '{target.name}' go to: it is there "
            "already, and belongs to no such model",
            hint="give the model another name, or remove the file",
        )


def _to_text(content: Any, suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(content, indent=2)
    import yaml

    base_dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(content, Dumper=_dumper_class(base_dumper), sort_keys=False, width=100))


def _dumper_class(dumper: Any) -> Any:
    """Return a YAML dumper class that writes lists of numbers in one line, and no anchors."""

    class Dumper(dumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(self: Any, data: list[Any]) -> Any:
        is_flow_style = not any(isinstance(list_item, dict) for list_item in data)
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_flow_style)

    Dumper.add_representer(list, represent)
    return Dumper


def to_plain_content(
    content: Any, array_file: str, large_arrays: dict[str, Array], name: str = ""
) -> Any:
    """Convert a model's content to plain data, and move large arrays to `large_arrays`."""
    if isinstance(content, np.ndarray):
        return {
            "value": _convert_array(content, array_file, large_arrays, name),
            **array_metadata(content),
        }
    if isinstance(content, Mapping):
        is_parameter = isinstance(content.get("value"), np.ndarray)
        remaining_content = {**content, "value": None} if is_parameter else content
        plain_content = {
            _to_json_key(section_name): to_plain_content(
                section_content, array_file, large_arrays, _nested_array_name(name, section_name)
            )
            for section_name, section_content in remaining_content.items()
            if section_name != "args"
        }
        if is_parameter:
            plain_content |= _convert_parameter(content, array_file, large_arrays, name)
        if "args" in content:
            plain_content["args"] = _convert_arguments(
                content["args"], array_file, large_arrays, name
            )
        return plain_content
    if isinstance(content, list | tuple):
        if contains_only_numbers(content):
            return list(content)
        return [
            to_plain_content(element, array_file, large_arrays, f"{name}[{element_index}]")
            for element_index, element in enumerate(content)
        ]
    return content.item() if isinstance(content, np.generic) else content


def _to_json_key(key: Any) -> Any:
    """Convert a mapping's key to a valid JSON key. A key from YAML may be a date."""
    return key if isinstance(key, str | int | float) else str(key)


def _convert_arguments(
    args: Any, array_file: str, large_arrays: dict[str, Array], name: str
) -> Any:
    """Convert a function's arguments to plain data: large arrays move to `large_arrays`.

    An argument called `value` is not treated as a parameter's value.
    """
    if not isinstance(args, Mapping):
        return to_plain_content(args, array_file, large_arrays, name)
    return {
        argument_name: to_plain_content(
            argument, array_file, large_arrays, _nested_array_name(name, argument_name)
        )
        for argument_name, argument in args.items()
    }


def _convert_parameter(
    content: Mapping[str, Any], array_file: str, large_arrays: dict[str, Array], name: str
) -> Content:
    """Convert a parameter's array to plain data, with its dtype in the metadata."""
    parameter_array = content["value"]
    plain_value = _convert_array(parameter_array, array_file, large_arrays, name)
    metadata = {**array_metadata(parameter_array), **(content.get("metadata") or {})}
    if isinstance(plain_value, Mapping):
        metadata["shape"] = list(parameter_array.shape)
    return {"value": plain_value, "metadata": metadata}


_UNNAMED_SECTIONS = {"graphs", "nodes", "functions", "parameters", "args", "value"}


def _nested_array_name(name: str, key: Any) -> str:
    """Return the name of a nested array: the ids on its path, without section names."""
    return name if key in _UNNAMED_SECTIONS else f"{name}.{key}".lstrip(".")


def _convert_array(array: Array, array_file: str, large_arrays: dict[str, Array], name: str) -> Any:
    if (array.size <= MAX_INLINE_ELEMENTS and not _needs_bits(array)) or _needs_text(array):
        return array.tolist()
    array_name, number_suffix = name or "array", 1
    while array_name in large_arrays:
        number_suffix += 1
        array_name = f"{name}_{number_suffix}"
    large_arrays[array_name] = array
    return {"npz": array_file, "array": array_name}


def _needs_bits(array: Array) -> bool:
    """Return True if an array can only be stored as bits, such as complex numbers."""
    if array.dtype.kind not in "fV":
        return array.dtype.kind == "c"
    nan_elements = array[array != array]
    return bool(
        nan_elements.tobytes() != np.full(nan_elements.shape, np.nan, array.dtype).tobytes()
    )


def _needs_text(array: Array) -> bool:
    """Return True if a string in the array ends with a zero character, which NumPy would drop."""
    return array.dtype.kind == "O" and any(str(element).endswith("\0") for element in array.flat)
