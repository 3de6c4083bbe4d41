"""Files of other systems -> MDF: ONNX (`.onnx`) and OpenVINO's IR (`.xml` with its `.bin`).

`read_foreign` gives the content of a model in MDF's own form, `from_onnx` the modeci_mdf Model.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdf_loop.document.loading import model_of
from mdf_loop.errors import ModelError
from mdf_loop.importing.graph_writer import Content
from mdf_loop.paths import path_of


def _onnx(path: Path) -> Content:
    from mdf_loop.importing.onnx_file import open_onnx
    from mdf_loop.importing.onnx_model import content_of_onnx

    return content_of_onnx(open_onnx(path), path.stem)


def _openvino(path: Path) -> Content:
    from mdf_loop.importing.openvino import read_ir

    return read_ir(path)


READERS: dict[str, Callable[[Path], Content]] = {".onnx": _onnx, ".xml": _openvino}
"""Suffix of a file -> what reads it."""


def read_foreign(path: str | Path) -> Content:
    """The content of a model in a file of another system: mappings, lists, numbers, arrays.

    Raises:
        ModelError: the file is broken; the sentence says how.
        UnsupportedError: it holds what MDF or ONNX Runtime cannot say; it is named.
    """
    source = path_of(path, "the model")
    return READERS[source.suffix.lower()](source)


def from_onnx(source: Any) -> Any:
    """A modeci_mdf `Model` of an ONNX model: a path, or an `onnx.ModelProto`.

    Loops, branches and scans become functions of nodes with their bodies as graphs; dtypes,
    shapes, names and the order of inputs and outputs are kept.

    Raises:
        ModelError: the file is broken; the sentence says how.
        UnsupportedError: it holds what MDF or ONNX Runtime cannot say; it is named.
    """
    from mdf_loop.importing.onnx_file import checked_onnx
    from mdf_loop.importing.onnx_model import content_of_onnx

    if isinstance(source, str | os.PathLike):
        return model_of(_onnx(path_of(source, "the model")))
    if not hasattr(source, "graph") or not hasattr(source, "opset_import"):
        raise ModelError(
            f"cannot import {type(source).__name__}", hint="give a path, or an onnx.ModelProto"
        )
    return model_of(content_of_onnx(checked_onnx(source), source.graph.name or "model"))
