"""Check that a model can be compiled and loaded, without running it."""

from __future__ import annotations

from collections.abc import Mapping

from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import InputError
from mdf_loop.lower.builder import Options
from mdf_loop.outline.cycles import cycle_groups
from mdf_loop.pipeline import CHECK, passes_of_evaluation, prepare
from mdf_loop.reading import Reading, bind
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.inputs import bind_types
from mdf_loop.reading.names import refuse_without_outputs
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.parameters import integrates, is_stateful
from mdf_loop.reading.program import read_once
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.device import Placement
from mdf_loop.specification import RunSpecification


def accept(document: Document, inputs: Mapping[str, DocumentValue], options: Options) -> Reading:
    """Check that a model can be compiled and run with these inputs, and return its program.

    A stateful model is also read as a run over time.

    Raises:
        LoopError: The model is invalid. The error lists all problems.
    """
    model_reading = compile_evaluation(document, inputs, options)
    refuse_without_outputs(document, model_reading.program.outputs)
    prepared_program = prepare(model_reading.program, CHECK, first=passes_of_evaluation())
    PROGRAM_BACKENDS["onnxruntime"].load(prepared_program, Placement("cpu", native="off"))
    if _has_memory(document):
        two_step_spec = RunSpecification(steps=2, dt=1.0 if integrates(document) else None)
        read_over_time(document, _bind_for_check(document, inputs, options), options, two_step_spec)
    return model_reading


def _has_memory(document: Document) -> bool:
    """Return True if a model has states, or a cycle of nodes."""
    graph = document.graph
    has_states = any(
        is_stateful(parameter) for node in graph.nodes for parameter in node.parameters
    )
    return has_states or bool(cycle_groups(graph))


def compile_evaluation(
    document: Document, inputs: Mapping[str, DocumentValue], options: Options
) -> Reading:
    """Compile a model to the program that evaluates the model once with the given inputs.

    Missing required inputs have their stated types.

    Raises:
        LoopError: The model is invalid. The error lists all problems.
    """
    return read_once(document, _bind_for_check(document, inputs, options), options)


def _bind_for_check(
    document: Document, inputs: Mapping[str, DocumentValue], options: Options
) -> BoundValues:
    """Bind the inputs of a run, with only a type for each missing required input."""
    try:
        return BoundValues.of(bind(document, inputs, options))
    except InputError:  # a missing value needs a type only; other errors are raised again
        return BoundValues.of(bind_types(document, inputs, options))
