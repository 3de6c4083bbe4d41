"""Whether a run would accept a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.lower.builder import Options
from mdf_loop.pipeline import CHECK, evaluation, prepare
from mdf_loop.reading import Reading, bind
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.inputs import bind_types
from mdf_loop.reading.program import read_once
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.device import Placement


def accept(document: Document, inputs: Mapping[str, Any], options: Options) -> Reading:
    """What a run with these inputs would compute; it is prepared and loaded, and not run.

    Raises:
        LoopError: everything that is wrong with the model, at once.
    """
    reading = read_for_run(document, inputs, options)
    ready = prepare(reading.program, CHECK, asked=evaluation())
    PROGRAM_BACKENDS["onnxruntime"].load(ready, Placement("cpu", native="off"))
    return reading


def read_for_run(document: Document, inputs: Mapping[str, Any], options: Options) -> Reading:
    """What a run with these inputs reads; one that it must be given, and is not, stays open.

    Raises:
        LoopError: everything that is wrong with the model, at once.
    """
    try:
        given = bind(document, inputs, options)
    except InputError:  # a value is missing, of which the type is enough; else it is raised again
        given = bind_types(document, inputs, options)
    return read_once(document, Bound.of(given), options)
