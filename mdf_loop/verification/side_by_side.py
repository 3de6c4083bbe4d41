"""The compiled model beside modeci_mdf's engine and the numpy interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.compiled import compile
from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import Data
from mdf_loop.reading import Document, Source, open_document, read
from mdf_loop.reading.control import control
from mdf_loop.reading.inputs import Given
from mdf_loop.reading.names import items, named_items
from mdf_loop.reading.settings import with_values
from mdf_loop.run.engine import EngineRun, drive, only_given
from mdf_loop.run.engine_graph import EngineGraph, unformatted, with_copies
from mdf_loop.run.interpret import interpret
from mdf_loop.run.missing import with_missing
from mdf_loop.verification.comparison import Comparison, Verification, compare_members
from mdf_loop.verification.order import compare_order, random_places
from mdf_loop.verification.preparing import prepare

TOLERANCE = 1e-12
"""Relative difference up to which numbers are called equal: kernels round their last bits apart."""

ENGINE_ONNX_TOLERANCE = 1e-5
"""The same for models with onnx:: functions, which modeci_mdf's engine computes in float32."""


def verify(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    steps: int | None = None,
    dt: float | None = None,
    device: str = "auto",
    precision: str = "float64",
    shapes: str = "strict",
    max_iterations: int | None = None,
    unroll: int | None = None,
) -> Verification:
    """Compare the compiled model with modeci_mdf's engine, and one evaluation with the interpreter.

    Compared are all output ports and all parameters that are numbers on both sides. (A parameter
    with the id of an output port of its node is compared as that port.) The engine is used as it
    is, but for three things. It makes no debug texts, which take most of its time. Where its own
    order is random it takes the order of the document. Values that it would add up in place, in the
    array of their sender, are copied first. Notes name the places.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        inputs: values by port id (`node.port` where ambiguous), as for `run`.
        set: parameters by `node.parameter`, as for `run`.
        steps: compare the model over time, that many evaluations (with the engine alone);
            without it, one evaluation.
        dt: the time in seconds between two evaluations.
        device: where the compiled model runs.
        precision: of the compiled model; the engine computes in float64.
        shapes: as for `compile`.
        max_iterations: as for `compile`.
        unroll: as for `compile`.

    Raises:
        LoopError: the compiled model cannot run, or there is nothing to compare it with.
    """
    document = open_document(source)
    compiled = compile(
        document,
        device=device,
        precision=precision,
        shapes=shapes,
        max_iterations=max_iterations,
        unroll=unroll,
    )
    asked = prepare(compiled, inputs or {}, set or {}, steps, dt)
    given, document = asked.given, with_values(document, asked.settings)
    notes: list[str] = []
    theirs = _in_engine(document, only_given(document, inputs or {}, given), steps, dt, notes)
    record = [i.name for i in items(document) if i.kind != "functions" and i.name in theirs.arrays]
    ours = compiled.run(inputs, record=record, set=set, steps=steps, dt=dt)
    others = {"modeci_mdf": _as_shown(document, theirs.arrays)}
    if steps is None:
        program = read(document, inputs, record=record, options=compiled.options)
        others = {"interpreter": with_missing(interpret(program, given.arrays)), **others}
    tolerance = _tolerance(document, precision)
    comparisons = _compared(document, ours, others, tolerance, over_time=steps is not None)
    if not comparisons:
        raise RunError("there is nothing to compare with", document.where, "; ".join(notes))
    if steps is not None:
        order = ours.execution_list
        if order is None:  # decided while running: asked for in a run of its own
            again = compiled.run(inputs, set=set, steps=steps, dt=dt, execution_list=True)
            order = again.execution_list
        comparisons += (compare_order(order or (), theirs.execution_list),)
    if tolerance == ENGINE_ONNX_TOLERANCE:
        notes.append("modeci_mdf's engine computes onnx:: functions in float32")
    return Verification(comparisons, tolerance, tuple(notes))


def _in_engine(
    document: Document,
    given: Given,
    steps: int | None,
    dt: float | None,
    notes: list[str],
) -> EngineRun:
    """What the engine gives as far as it comes; what is to be known about it goes to `notes`."""
    with unformatted():
        try:
            engine = EngineGraph(document)
        except LoopError as error:
            notes.append(_what(error))
            return EngineRun({}, (), {}, error)
        copied = with_copies(engine)
        made = drive(engine, given, steps=steps, dt=dt)
    if made.failure is not None:
        ran = len(made.execution_list)
        until = f"; the {ran} steps before step {ran} were compared" if ran else ""
        notes.append(f"{_what(made.failure)}{until}")
    if copied:
        notes.append(
            "modeci_mdf's engine adds up in place, in the sender's array; here it was given "
            f"copies: {', '.join(copied)}"
        )
    if places := random_places(document):
        notes.append(
            "the order of modeci_mdf's engine is random, here it took that of the document: "
            f"{', '.join(places)}"
        )
    return made


def _as_shown(document: Document, arrays: Mapping[str, Data]) -> dict[str, Data]:
    """The engine's values under the names that outputs have in results too."""
    shown = named_items(document).items()
    return {**arrays, **{name: arrays[item.name] for name, item in shown if item.name in arrays}}


def _what(error: LoopError) -> str:
    """What an error says, as a sentence about the engine."""
    finding = error.findings[0]
    engine = "modeci_mdf's engine"
    prefix = "" if engine in finding.what else f"{engine} cannot run this model: "
    return f"{prefix}{finding.what} (at {finding.where})"


def _compared(
    document: Document,
    ours: Mapping[str, Data],
    others: Mapping[str, Mapping[str, Data]],
    tolerance: float,
    *,
    over_time: bool,
) -> tuple[Comparison, ...]:
    parameters = {item.name for item in items(document) if item.kind == "parameters"}
    return tuple(
        comparison
        for engine, outputs in others.items()
        for name in ours
        if name in outputs
        for comparison in compare_members(
            name,
            engine,
            ours[name][: len(outputs[name])] if over_time else ours[name],
            outputs[name],
            tolerance,
            over_time=over_time,
            is_parameter=name in parameters,
        )
    )


def _tolerance(document: Document, precision: str) -> float:
    functions = [x.function for n in document.graph.nodes for x in (*n.functions, *n.parameters)]
    in_float32 = any(f and f.startswith("onnx::") and control(f) is None for f in functions)
    return ENGINE_ONNX_TOLERANCE if in_float32 or precision == "float32" else TOLERANCE
