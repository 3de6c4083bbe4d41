"""`verify`: the compiled model, modeci_mdf's engine and the numpy interpreter, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.compiled import compile
from mdf_loop.ir import Array
from mdf_loop.reading import Document, Source, bind, open_document
from mdf_loop.reading.document import is_loop, quiet
from mdf_loop.run.interpret import interpret

TOLERANCE = 1e-12
"""Relative difference up to which numbers are called equal: kernels round their last bits apart."""

ENGINE_ONNX_TOLERANCE = 1e-5
"""The same for models with onnx:: functions, which modeci_mdf's engine computes in float32."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output of the compiled model beside that of another engine.

    `first_step` is the first step that differs, for a model over time.
    """

    name: str
    engine: str
    equal: bool
    max_abs: float
    max_rel: float
    types: tuple[str, str]
    first_step: int | None = None

    def __str__(self) -> str:
        step = "" if self.first_step is None else f", first at step {self.first_step}"
        return (
            f"{'equal' if self.equal else 'DIFFERENT':9}  {self.name}  {self.types[0]} against "
            f"{self.engine} {self.types[1]}: max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g}"
            f"{step}"
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """All outputs compared; `equal` says whether all are."""

    comparisons: tuple[Comparison, ...]
    tolerance: float
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether every output is equal within the tolerance."""
        return all(comparison.equal for comparison in self.comparisons)

    def __str__(self) -> str:
        verdict = "equal" if self.equal else "different"
        lines = [*map(str, self.comparisons), f"{verdict} (tolerance: relative {self.tolerance:g})"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def verify(
    source: Source,
    inputs: Mapping[str, Any] | None = None,
    *,
    steps: int | None = None,
    dt: float | None = None,
    device: str = "auto",
    precision: str = "float64",
    shapes: str = "strict",
    max_iterations: int | None = None,
) -> Verification:
    """Compare the compiled model with modeci_mdf's engine and the interpreter.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        inputs: values by port id (`node.port` where ambiguous).
        steps: compare the model over time, that many evaluations (with the engine alone);
            without it, one evaluation.
        dt: the time in seconds between two evaluations.
        device: where the compiled model runs.
        precision: of the compiled model; the engine computes in float64.
        shapes: as for `compile`.
        max_iterations: as for `compile`.
    """
    document = open_document(source)
    compiled = compile(
        document, device=device, precision=precision, shapes=shapes, max_iterations=max_iterations
    )
    results = compiled.run(inputs, steps=steps, dt=dt)
    arrays = bind(document, inputs or {}, compiled.options)
    tolerance = _tolerance(document, precision)
    notes: list[str] = []
    others = []
    if steps is None:
        others.append(("interpreter", interpret(compiled.program, arrays)))
    try:
        others.append(("modeci_mdf", _engine_outputs(document, arrays, steps, dt)))
    except Exception as error:  # noqa: BLE001 - the engine raises anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        notes.append(f"modeci_mdf's engine cannot run this model ({reason[:200]})")
    comparisons = tuple(
        _compare(name, engine, results[name], outputs[name], tolerance, over_time=steps is not None)
        for engine, outputs in others
        for name in results
        if name in outputs
    )
    if tolerance == ENGINE_ONNX_TOLERANCE:
        notes.append("modeci_mdf's engine computes onnx:: functions in float32")
    return Verification(comparisons, tolerance, tuple(notes))


def _tolerance(document: Document, precision: str) -> float:
    functions = [x.function for n in document.graph.nodes for x in (*n.functions, *n.parameters)]
    in_float32 = any(f and f.startswith("onnx::") and not is_loop(f) for f in functions)
    return ENGINE_ONNX_TOLERANCE if in_float32 or precision == "float32" else TOLERANCE


def _engine_outputs(
    document: Document, arrays: Mapping[str, Array], steps: int | None, dt: float | None
) -> dict[str, Array]:
    """What modeci_mdf's engine gives by `node.port`, over time with an axis of time in front."""
    from modeci_mdf.execution_engine import EvaluableGraph

    rows: list[dict[str, Array]] = []
    with quiet():
        graph = EvaluableGraph(document.graph)
        for step in range(steps or 1):
            for name, array in arrays.items():
                _give(graph, name, array)
            graph.evaluate(time_increment=dt if step else None)
            rows.append(_held(graph))
    if steps is None:
        return rows[0]
    return {name: np.stack(np.broadcast_arrays(*(row[name] for row in rows))) for name in rows[0]}


def _held(graph: Any) -> dict[str, Array]:
    """The values on the output ports of the engine's graph."""
    return {
        f"{node}.{port}": np.asarray(output.curr_value)
        for node, evaluable in graph.enodes.items()
        for port, output in evaluable.evaluable_outputs.items()
        if not isinstance(output.curr_value, tuple)
    }


def _give(graph: Any, name: str, array: Array) -> None:
    """Put a value on the input ports of that name (a port id, or `node.port`)."""
    for node_id, node in graph.enodes.items():
        for port_id, port in node.evaluable_inputs.items():
            if name in (port_id, f"{node_id}.{port_id}") and not _is_fed(graph, node_id, port_id):
                port.curr_value = array


def _is_fed(graph: Any, node_id: str, port_id: str) -> bool:
    return any(
        (edge.receiver, edge.receiver_port) == (node_id, port_id) for edge in graph.graph.edges
    )


def _compare(
    name: str, engine: str, ours: Array, theirs: Array, tolerance: float, *, over_time: bool = False
) -> Comparison:
    types = (f"{ours.dtype}{list(ours.shape)}", f"{theirs.dtype}{list(theirs.shape)}")
    same_shape = _extents(ours) == _extents(theirs)
    if not same_shape or _text(ours) != _text(theirs):
        return Comparison(name, engine, False, np.inf, np.inf, types)
    if _text(ours):
        same = bool(np.all(ours.reshape(-1) == theirs.reshape(-1)))
        return Comparison(name, engine, same, 0.0, 0.0, types)
    left, right = (a.reshape(-1).astype(np.float64) for a in (ours, theirs))
    if left.size == 0 or np.array_equal(left, right, equal_nan=True):
        return Comparison(name, engine, True, 0.0, 0.0, types)
    apart, relative = _differences(left, right)
    max_abs, max_rel = float(apart.max()), float(relative.max())
    equal = max_rel <= tolerance
    first = int(np.argmax(relative > tolerance)) * len(ours) // left.size if over_time else None
    return Comparison(name, engine, equal, max_abs, max_rel, types, None if equal else first)


def _differences(left: Array, right: Array) -> tuple[Array, Array]:
    """Absolute and relative differences; a few last bits of the largest value count as rounding."""
    with np.errstate(all="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        apart = np.nan_to_num(np.where(same, 0, np.abs(left - right)), nan=np.inf, posinf=np.inf)
        size = np.maximum(np.abs(left), np.abs(right))
        rounding = 8 * np.finfo(float).eps * np.max(size, where=np.isfinite(size), initial=0)
        relative = np.where(apart <= rounding, 0, apart / size)
    return apart, np.nan_to_num(relative, nan=np.inf, posinf=np.inf)


def _extents(array: Array) -> list[int]:
    """The shape without axes of one element, which the engine adds to plain numbers."""
    return [extent for extent in array.shape if extent != 1]


def _text(array: Array) -> bool:
    return array.dtype.kind in "OUS"
