"""Files of other systems -> MDF: ONNX (`.onnx`) and OpenVINO's IR (`.xml` with its `.bin`).

`read_foreign` gives the content of a model in MDF's own form, `from_onnx` the modeci_mdf Model.
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
from mdf_loop.paths import noted, path_of
from mdf_loop.user_warnings import warn_user

if TYPE_CHECKING:
    from mdf_loop.importing.onnx_model import ImportedModel

_Model = TypeVar("_Model")

LOOP_CONDITIONS = ("document", "runtime")
"""How ambiguous loops of ONNX files are read; the first one if nothing is said."""


def _onnx(path: Path, loop_condition: str = LOOP_CONDITIONS[0]) -> ImportedModel:
    from mdf_loop.importing.onnx_file import open_onnx
    from mdf_loop.importing.onnx_model import import_onnx

    return import_onnx(open_onnx(path), path.stem, loop_condition)


def _onnx_content(path: Path) -> Content:
    return _onnx(path).content


def _openvino(path: Path) -> Content:
    from mdf_loop.importing.openvino import read_ir

    return read_ir(path)


ONNX_SUFFIX = ".onnx"

READERS: dict[str, Callable[[Path], Content]] = {ONNX_SUFFIX: _onnx_content, ".xml": _openvino}
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


def import_file(path: str | Path, loop_condition: str) -> ImportedModel:
    """Return the content of a file of another system, and the sentences of which to warn.

    Raises:
        InputError: `loop_condition` is no reading, or the file is not ONNX and has no use for one.
        ModelError, UnsupportedError: as `read_foreign`.
    """
    source = path_of(path, "the model")
    if is_onnx(source, loop_condition):
        return _read(partial(_onnx, loop_condition=loop_condition), source)
    from mdf_loop.importing.onnx_model import ImportedModel

    return ImportedModel(read_foreign(source))


def is_onnx(path: Path | None, loop_condition: str) -> bool:
    """Return True for a path of an ONNX file.

    Raises:
        InputError: `loop_condition` is no reading, or another one than usual for something that is
            no ONNX file.
    """
    word(loop_condition, "loop_condition", LOOP_CONDITIONS)
    if path is not None and path.suffix.lower() == ONNX_SUFFIX:
        return True
    if loop_condition != LOOP_CONDITIONS[0]:
        source = "a model that is no file" if path is None else f"'{path.name}'"
        raise InputError(
            f"loop_condition='{loop_condition}' is about {ONNX_SUFFIX} files, not about {source}",
            hint="in an MDF model, a loop with the argument `cond: true` ends when the condition of "
            "its body is false",
        )
    return False


def _read(reader: Callable[[Path], _Model], path: Path) -> _Model:
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


def from_onnx(source: Any, *, loop_condition: str = "document") -> Any:
    """Return the modeci_mdf `Model` of an ONNX model: a path, or an `onnx.ModelProto`.

    Loops, branches and scans become functions of nodes with their bodies as graphs; dtypes,
    shapes, names and the order of inputs and outputs are kept.

    Args:
        source: a path, or an `onnx.ModelProto`.
        loop_condition: how a Loop without a condition input is read whose body computes a condition.
            `document`: the loop ignores the condition, as the ONNX document says; a `UserWarning`
            names the loop. `runtime`: the loop ends when the condition is false, as in ONNX Runtime.

    Raises:
        InputError: `loop_condition` is no such word.
        ModelError: the file is broken; the sentence says how.
        UnsupportedError: it holds what MDF or ONNX Runtime cannot say; it is named.
    """
    from mdf_loop.importing.onnx_file import checked_onnx
    from mdf_loop.importing.onnx_model import import_onnx

    word(loop_condition, "loop_condition", LOOP_CONDITIONS)
    if isinstance(source, str | os.PathLike):
        imported = _read(
            partial(_onnx, loop_condition=loop_condition), path_of(source, "the model")
        )
    elif not hasattr(source, "graph") or not hasattr(source, "opset_import"):
        raise ModelError(
            f"cannot import {type(source).__name__}", hint="give a path, or an onnx.ModelProto"
        )
    else:
        name = source.graph.name or "model"
        imported = import_onnx(checked_onnx(source), name, loop_condition)
    for sentence in imported.warnings:
        warn_user(sentence)
    return model_of(imported.content)
