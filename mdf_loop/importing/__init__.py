"""Import of ONNX files (`.onnx`) and OpenVINO IR files (`.xml` with `.bin`) as MDF models.

`read_foreign` returns the content of an MDF model, and `from_onnx` returns a modeci_mdf Model.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mdf_loop.arguments import word
from mdf_loop.document.loading import model_of
from mdf_loop.errors import InputError, LoopError, ModelError
from mdf_loop.importing.graph_writer import Content
from mdf_loop.paths import path_of, record_read_file
from mdf_loop.public_call import public_call
from mdf_loop.user_warnings import warn_user

if TYPE_CHECKING:
    from mdf_loop.importing.onnx_model import ImportedModel

_Model = TypeVar("_Model")

LOOP_CONDITIONS = ("document", "runtime")
"""Readings of ambiguous loops of ONNX files. The first reading is the default."""


def _read_onnx(path: Path, loop_condition: str = LOOP_CONDITIONS[0]) -> ImportedModel:
    from mdf_loop.importing.onnx_file import open_onnx
    from mdf_loop.importing.onnx_model import import_onnx

    return import_onnx(open_onnx(path), path.stem, loop_condition)


def _read_onnx_content(path: Path) -> Content:
    return _read_onnx(path).mdf_content


def _read_openvino(path: Path) -> Content:
    from mdf_loop.importing.openvino import read_ir

    return read_ir(path)


ONNX_SUFFIX = ".onnx"

READERS: dict[str, Callable[[Path], Content]] = {
    ONNX_SUFFIX: _read_onnx_content,
    ".xml": _read_openvino,
}
"""Reader of model files by file suffix.

The path of the file is recorded before the reader runs, so that no output overwrites the file. A
reader records the other files that it reads (`mdf_loop.paths.record_read_file`).
"""


def read_foreign(path: str | Path) -> Content:
    """Read an ONNX or OpenVINO file, and return the content of the equivalent MDF model.

    Raises:
        ModelError: The file is damaged. The message states the fault.
        UnsupportedError: The model has a part that MDF or ONNX Runtime cannot represent.
    """
    model_path = path_of(path, "the model")
    return _read_with_errors(READERS[model_path.suffix.lower()], model_path)


def import_file(path: str | Path, loop_condition: str) -> ImportedModel:
    """Read an ONNX or OpenVINO file, and return the MDF content with the import warnings.

    Raises:
        InputError: `loop_condition` is unknown, or is stated for a file that is not ONNX.
        ModelError: The file is damaged.
        UnsupportedError: The model has a part that MDF or ONNX Runtime cannot represent.
    """
    model_path = path_of(path, "the model")
    if is_onnx(model_path, loop_condition):
        return _read_with_errors(partial(_read_onnx, loop_condition=loop_condition), model_path)
    from mdf_loop.importing.onnx_model import ImportedModel

    return ImportedModel(read_foreign(model_path))


def is_onnx(path: Path | None, loop_condition: str) -> bool:
    """Return True if the path has the suffix of an ONNX file.

    Raises:
        InputError: `loop_condition` is unknown, or is not the default for a source that is not an
            ONNX file.
    """
    word(loop_condition, "loop_condition", LOOP_CONDITIONS)
    if path is not None and path.suffix.lower() == ONNX_SUFFIX:
        return True
    if loop_condition != LOOP_CONDITIONS[0]:
        source_description = "a model that is no file" if path is None else f"'{path.name}'"
        raise InputError(
            f"loop_condition='{loop_condition}' is about {ONNX_SUFFIX} files, not about {source_description}",
            hint="in an MDF model, a loop with the argument `cond: true` ends when the condition of "
            "its body is false",
        )
    return False


def _read_with_errors(reader: Callable[[Path], _Model], path: Path) -> _Model:
    """Call the reader on a model file, and name the file in each error message."""
    try:
        return reader(record_read_file(path))
    except RecursionError:
        raise ModelError(f"'{path.name}' is nested too deeply to be read") from None
    except LoopError:
        raise
    except (OSError, ValueError) as error:
        cause = "it is no text" if isinstance(error, UnicodeError) else error
        raise ModelError(
            f"'{path.name}' cannot be read: {cause}"[:400],
            hint=f"is it a {path.suffix} file, and was it copied completely?",
        ) from None


@public_call
def from_onnx(source: Any, *, loop_condition: str = "document") -> Any:
    """Convert an ONNX model to a modeci_mdf `Model`.

    Loops, branches and scans become functions of nodes with their bodies as graphs. Dtypes, shapes,
    names and the order of inputs and outputs are kept.

    Args:
        source: A path, or an `onnx.ModelProto`.
        loop_condition: How to read a Loop without a condition input whose body computes a
            condition. `document`: the loop ignores the condition, as the ONNX document says; a
            `UserWarning` names the loop. `runtime`: the loop ends when the condition is false, as
            in ONNX Runtime.

    Raises:
        InputError: `loop_condition` is unknown.
        ModelError: The file is damaged. The message states the fault.
        UnsupportedError: The model has a part that MDF or ONNX Runtime cannot represent.
    """
    from mdf_loop.importing.onnx_file import check_onnx
    from mdf_loop.importing.onnx_model import import_onnx

    word(loop_condition, "loop_condition", LOOP_CONDITIONS)
    if isinstance(source, str | os.PathLike):
        imported_model = _read_with_errors(
            partial(_read_onnx, loop_condition=loop_condition), path_of(source, "the model")
        )
    elif not hasattr(source, "graph") or not hasattr(source, "opset_import"):
        raise ModelError(
            f"cannot import {type(source).__name__}", hint="give a path, or an onnx.ModelProto"
        )
    else:
        graph_name = source.graph.name or "model"
        imported_model = import_onnx(check_onnx(source), graph_name, loop_condition)
    for warning in imported_model.import_warnings:
        warn_user(warning)
    return model_of(imported_model.mdf_content)
