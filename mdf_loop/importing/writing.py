"""The content of a model -> a YAML or JSON file; large arrays go to an `.npz` file beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.document.tensors import described, stored
from mdf_loop.errors import InputError
from mdf_loop.files import checked_place, checked_target, write_arrays, write_whole
from mdf_loop.importing.graph_writer import Content
from mdf_loop.ir import Array
from mdf_loop.numbers_only import only_numbers

LARGEST_WRITTEN = 64
"""Arrays of more elements than this go to the side file, and those that YAML cannot say."""


def check_model_file(path: str | Path) -> Path:
    """The path of a file that a model can be written to later, or an InputError."""
    target = checked_target(path, (".yaml", ".yml", ".json"), "a model")
    checked_place(target)
    return target


def write_model(content: Content, path: str | Path) -> list[Path]:
    """Write a model's content; the files that were written, the document first.

    Raises:
        InputError: the suffix is not .yaml, .yml or .json, or a file cannot be written.
    """
    target = check_model_file(path)
    side = target.with_suffix(".npz")
    large: dict[str, Array] = {}
    text = _text(plain(content, side.name, large), target.suffix.lower())
    written = [target]
    if large:
        checked_place(side)
        _refuse_replacing(side, target)
        kept = {name: stored(array) for name, array in large.items()}
        write_whole(side, lambda stream: write_arrays(stream, kept))
        written.append(side)
    write_whole(target, lambda stream: stream.write(text.encode()))
    return written


def _refuse_replacing(side: Path, target: Path) -> None:
    """Refuse to replace an npz file that does not belong to the model that is replaced."""
    if side.exists() and not (target.exists() and side.name.encode() in target.read_bytes()):
        raise InputError(
            f"cannot write '{side}', which the large arrays of '{target.name}' go to: it is there "
            "already, and belongs to no such model",
            hint="give the model another name, or remove the file",
        )


def _text(content: Any, suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(content, indent=2)
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(content, Dumper=_plain_lists(dumper), sort_keys=False, width=100))


def _plain_lists(dumper: Any) -> Any:
    """A dumper that writes lists of numbers in one line, and no anchors."""

    class Dumper(dumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(self: Any, data: list[Any]) -> Any:
        flow = not any(isinstance(part, dict) for part in data)
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flow)

    Dumper.add_representer(list, represent)
    return Dumper


def plain(content: Any, side: str, large: dict[str, Array], name: str = "") -> Any:
    """The content without arrays: small ones are lists, `large` collects the others by name."""
    if isinstance(content, np.ndarray):
        return {"value": _value(content, side, large, name), **described(content)}
    if isinstance(content, Mapping):
        parameter = isinstance(content.get("value"), np.ndarray)
        rest = {**content, "value": None} if parameter else content
        made = {
            _key(key): plain(part, side, large, _below(name, key))
            for key, part in rest.items()
            if key != "args"
        }
        if parameter:
            made |= _parameter(content, side, large, name)
        if "args" in content:
            made["args"] = _arguments(content["args"], side, large, name)
        return made
    if isinstance(content, list | tuple):
        if only_numbers(content):
            return list(content)
        return [plain(part, side, large, f"{name}[{k}]") for k, part in enumerate(content)]
    return content.item() if isinstance(content, np.generic) else content


def _key(key: Any) -> Any:
    """A key as JSON has it: YAML may have read a date."""
    return key if isinstance(key, str | int | float) else str(key)


def _arguments(args: Any, side: str, large: dict[str, Array], name: str) -> Any:
    """Args by name, also one that is called `value`."""
    if not isinstance(args, Mapping):
        return plain(args, side, large, name)
    return {key: plain(part, side, large, _below(name, key)) for key, part in args.items()}


def _parameter(
    content: Mapping[str, Any], side: str, large: dict[str, Array], name: str
) -> Content:
    """The value of a parameter, and its dtype in the metadata."""
    array = content["value"]
    value = _value(array, side, large, name)
    about = {**described(array), **(content.get("metadata") or {})}
    if isinstance(value, Mapping):
        about["shape"] = list(array.shape)
    return {"value": value, "metadata": about}


_SECTIONS = {"graphs", "nodes", "functions", "parameters", "args", "value"}


def _below(name: str, key: Any) -> str:
    """A name for arrays: the ids on the way, without the sections of a document."""
    return name if key in _SECTIONS else f"{name}.{key}".lstrip(".")


def _value(array: Array, side: str, large: dict[str, Array], name: str) -> Any:
    if (array.size <= LARGEST_WRITTEN and not _only_bits(array)) or _only_text(array):
        return array.tolist()
    key, k = name or "array", 1
    while key in large:
        k += 1
        key = f"{name}_{k}"
    large[key] = array
    return {"npz": side, "array": key}


def _only_bits(array: Array) -> bool:
    """Whether numbers as text do not say all: YAML has no complex numbers, and but one nan."""
    if array.dtype.kind not in "fV":
        return array.dtype.kind == "c"
    nans = array[array != array]
    return bool(nans.tobytes() != np.full(nans.shape, np.nan, array.dtype).tobytes())


def _only_text(array: Array) -> bool:
    """Whether an array of numpy does not say all: it forgets zeros at the end of a text."""
    return array.dtype.kind == "O" and any(str(text).endswith("\0") for text in array.flat)
