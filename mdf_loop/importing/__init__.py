"""Files of other systems -> MDF: ONNX (`.onnx`) and OpenVINO's IR (`.xml` with its `.bin`).

`read_foreign` gives the content of a model in MDF's own form, `from_onnx` the modeci_mdf Model.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdf_loop.document.loading import model_of
from mdf_loop.errors import LoopError, ModelError
from mdf_loop.importing.graph_writer import Content
from mdf_loop.paths import noted, path_of


def _onnx(path: Path) -> Content:
    from mdf_loop.importing.onnx_file import open_onnx
    from mdf_loop.importing.onnx_model import content_of_onnx

    return content_of_onnx(open_onnx(path), path.stem)


def _openvino(path: Path) -> Content:
    from mdf_loop.importing.openvino import read_ir

    return read_ir(path)


READERS: dict[str, Callable[[Path], Content]] = {".onnx": _onnx, ".xml": _openvino}
"""Suffix of a file -> what reads it. The file itself is noted already, so that nothing is written over
it; a reader notes only what it reads besides (`mdf_loop.paths.noted`)."""


def read_foreign(path: str | Path) -> Content:
    """The content of a model in a file of another system: mappings, lists, numbers, arrays.

    Raises:
        ModelError: the file is broken; the sentence says how.
        UnsupportedError: it holds what MDF or ONNX Runtime cannot say; it is named.
    """
    source = path_of(path, "the model")
    return _read(READERS[source.suffix.lower()], source)


def _read(reader: Callable[[Path], Content], path: Path) -> Content:
    """What a reader makes of a file; what it stumbles over is an error of the file."""
    try:
        return reader(noted(path))
    except RecursionError:
        raise ModelError(f"'{path.name}' is nested too deeply to be read") from None
    except LoopError:
        raise
    except (OSError, ValueError) as error:
        why = "it is no text" if isinstance(error, UnicodeError) else error
        raise ModelError(
            f"'{path.name}' cannot be read: {why}"[:400],
            hint=f"is it a {path.suffix} file, and was it copied completely?",
        ) from None


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
        return model_of(_read(_onnx, path_of(source, "the model")))
    if not hasattr(source, "graph") or not hasattr(source, "opset_import"):
        raise ModelError(
            f"cannot import {type(source).__name__}", hint="give a path, or an onnx.ModelProto"
        )
    return model_of(content_of_onnx(checked_onnx(source), source.graph.name or "model"))
