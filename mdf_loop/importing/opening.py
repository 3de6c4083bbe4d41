"""Reading of model files and of Python models into a `Document`.

The module never writes files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from mdf_loop.document import parsing
from mdf_loop.document.document import Document, document_of
from mdf_loop.document.loading import as_model_errors, graph_of, model_of
from mdf_loop.document.lone_surrogates import surrogate_findings
from mdf_loop.document.modeci import from_modeci
from mdf_loop.document.parts import Graph as GraphPart
from mdf_loop.document.structure import graph_findings, model_findings
from mdf_loop.document.tensors import archive_opener
from mdf_loop.errors import ModelError, raise_findings
from mdf_loop.importing import LOOP_CONDITIONS, READERS, import_file, is_onnx
from mdf_loop.paths import path_of, record_read_file, track_read_files
from mdf_loop.user_warnings import warn_user

Source: TypeAlias = Any
"""Path, modeci_mdf `Model` or `Graph`, or the dict of a model or graph."""

MODEL_SUFFIXES = (*parsing.MDF_SUFFIXES, *READERS)
"""Suffixes of model files."""


def open_document(source: Source, loop_condition: str = LOOP_CONDITIONS[0]) -> Document:
    """Return the document of a path, Model, Graph or dict, and issue its import warnings.

    Args:
        source: The model. A Document is returned unchanged.
        loop_condition: How to read ambiguous loops of an ONNX file.

    Raises:
        InputError: `loop_condition` is unknown, or the source is not an ONNX file.
        ModelError: The file is missing, is not MDF, or holds no graph.
    """
    if isinstance(source, Document):
        for read_file in source.files:
            record_read_file(read_file)
        return source
    document = open_document_silently(source, loop_condition)
    for import_warning in document.import_warnings:
        warn_user(import_warning)
    return document


def open_document_silently(source: Source, loop_condition: str = LOOP_CONDITIONS[0]) -> Document:
    """Return the document of a path, Model, Graph or dict without issuing its import warnings."""
    if isinstance(source, str | os.PathLike):
        model_path = path_of(source, "the model")
        with track_read_files() as read_files:
            model, import_warnings = _load_model(model_path, loop_condition)
        return replace(
            document_of(from_modeci(model), model_path.name),
            files=frozenset(read_files),
            import_warnings=import_warnings,
        )
    is_onnx(None, loop_condition)
    from modeci_mdf.mdf import Graph, Model

    if isinstance(source, Model):
        with as_model_errors(f"'{source.id}'"):
            raise_findings((*surrogate_findings(source), *model_findings(source)))
        document = document_of(from_modeci(source), source.id)
        main_graph = next(graph for graph in source.graphs if graph.id == document.graph.id)
        return replace(document, source_graph=main_graph)
    if isinstance(source, Graph):
        with as_model_errors(f"'{source.id}'"):
            graph_errors = graph_findings(source.id, source, "$.graphs[0]")
            raise_findings((*surrogate_findings(source), *graph_errors))
        return replace(_document_of_graph(from_modeci(source)), source_graph=source)
    if isinstance(source, Mapping):
        model_content = next(iter(source.values()), None) if len(source) == 1 else source
        if isinstance(model_content, Mapping) and "nodes" not in model_content:
            model = from_modeci(model_of(source))
            return document_of(model, str(source.get("id", next(iter(source), ""))))
        raise_findings(surrogate_findings(source))
        return _document_of_graph(graph_of(from_modeci(source), "$.graphs[0]"))
    raise ModelError(
        f"cannot read a model from {type(source).__name__}",
        hint="give a path, a modeci_mdf Model or Graph, or a dict",
    )


def _document_of_graph(graph: GraphPart) -> Document:
    return Document(graph, "$.graphs[0]", {graph.id: graph}, graph.id)


def _load_model(path: Path, loop_condition: str) -> tuple[Any, tuple[str, ...]]:
    """Load a model file as a modeci_mdf Model, and return the Model with its import warnings."""
    if not path.exists():
        raise ModelError(f"there is no file '{path}'", hint="check the path")
    if path.is_dir():
        raise ModelError(
            f"'{path}' is a folder, not a model", hint=f"name a {' or '.join(MODEL_SUFFIXES)} file"
        )
    if path.suffix.lower() not in MODEL_SUFFIXES:
        raise ModelError(
            f"'{path.name}' does not end in {', '.join(MODEL_SUFFIXES)}",
            hint=f"models of MDF end in {', '.join(parsing.MDF_SUFFIXES)}; others are imported",
        )
    if path.suffix.lower() in READERS:
        imported_model = import_file(path, loop_condition)
        return model_of(imported_model.mdf_content, name=path.name), imported_model.import_warnings
    is_onnx(path, loop_condition)
    with as_model_errors(f"'{path.name}'"):
        mdf_content = parsing.parse(record_read_file(path))
    return model_of(mdf_content, archive_opener(path.parent), path.name), ()
