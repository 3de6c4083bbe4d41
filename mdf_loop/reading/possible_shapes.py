"""Check of values that stand for several shapes: one number at first, an array later.

A carried value has one shape. If its shape in the model changes (a state starts as one number, a port has
zeros until an edge feeds it), the value is broadcast to its later shape. Elementwise operations give the same
results for it. Others, such as a sum or a matrix product, do not, and the model is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np

from mdf_loop.errors import Finding
from mdf_loop.ir import Guard, If, Loop, Op, Operation, Program, Shape, Value, operands, walk
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops import row_of

_MOST = 64
"""Maximum number of shape combinations that are tested for one operation."""

_Shapes = frozenset[Shape]


def widened_findings(
    program: Program, b: ModelBuilder, own: Mapping[Value, Shape] | None = None
) -> tuple[Finding, ...]:
    """Return findings about results that depend on the broadcast of a value to its later shape.

    `own` are shapes of inputs at the first step, if they differ from the shapes in the program. `b` is the
    builder of the program.
    """
    if not b.spread_sources and not own:
        return ()
    shapes = _PossibleShapes(program, b.spread_sources, own or {})
    return tuple(dict.fromkeys((*shapes.findings(), *shapes.measured(b.shape_queries))))


class _PossibleShapes:
    """Shapes that each value of a program may have if no value is broadcast to a later shape."""

    def __init__(
        self,
        program: Program,
        stand_for: Mapping[Value, tuple[Value, ...]],
        own: Mapping[Value, Shape],
    ) -> None:
        self.program = program
        self.stand_for = stand_for
        self.known: dict[Value, _Shapes] = {
            value: frozenset({value.shape, shape}) for value, shape in own.items()
        }
        self.changed = True
        while self.changed:
            self.changed = False
            for operation in walk(program.ops):
                self._follow(operation)

    def of(self, value: Value) -> _Shapes:
        """Return the possible shapes of a value."""
        return self.known.get(value, frozenset({value.shape}))

    def _add(self, value: Value, shapes: Iterable[Shape]) -> None:
        """Add possible shapes of a value."""
        old = self.of(value)
        new = old | frozenset(shapes)
        if new != old and not _is_open(value.shape):
            self.known[value] = new
            self.changed = True

    def _follow(self, operation: Operation) -> None:
        """Propagate the possible shapes through one operation."""
        if isinstance(operation, Loop):
            for carried in operation.carried:
                self._add(carried.enter, self.of(carried.initial) | self.of(carried.leave))
                self._add(carried.final, self.of(carried.initial) | self.of(carried.leave))
        elif isinstance(operation, If):
            leaves = zip(operation.then.leaves, operation.otherwise.leaves, strict=True)
            for output, both in zip(operation.outputs, leaves, strict=True):
                self._add(output, self.of(both[0]) | self.of(both[1]))
        elif isinstance(operation, Guard):
            self._add(operation.output, self.of(operation.value))
        elif isinstance(operation, Op):
            output, *more = operation.outputs
            if output in self.stand_for:
                self._add(output, (s for value in self.stand_for[output] for s in self.of(value)))
            elif _is_by_element(operation) and not more:
                self._by_element(operation, output)

    def _by_element(self, op: Op, output: Value) -> None:
        """Propagate the possible shapes through an elementwise operation."""
        several = [self.of(value) for value in operands(op)]
        if all(len(shapes) == 1 for shapes in several):
            return
        combined = {_broadcast(shapes) for shapes in list(product(*several))[:_MOST]}
        if output.shape in combined and len(combined) == 1:
            return
        self._add(output, combined - {None})

    def findings(self) -> Iterable[Finding]:
        """Yield findings about operations whose results depend on the shape of a value with several possible shapes."""
        for operation in walk(self.program.ops):
            if isinstance(operation, Op):
                if operation.outputs[0] in self.stand_for or _is_by_element(operation):
                    continue
                read: Iterable[Value] = operands(operation)
            elif isinstance(operation, Loop):
                counted = operation.recorded if operation.count is not None else ()
                scanned = (scanned.rows for scanned in operation.scanned)
                read = (*scanned, *(recorded.row for recorded in counted))
            else:
                continue
            for value in read:
                if len(self.of(value)) > 1:
                    name = operation.op_type if isinstance(operation, Op) else operation.name
                    yield _finding(value, self.of(value), name, operation.where)

    def measured(self, dtypes: Mapping[Value, str]) -> Iterable[Finding]:
        """Yield findings about shapes that the model queries, if the value has several possible shapes."""
        for value, where in dtypes.items():
            if len(self.of(value)) > 1:
                yield _finding(value, self.of(value), "onnx::Shape", where)


def _is_open(shape: Shape) -> bool:
    """Return True if an extent or the rank is unknown."""
    return shape is None or any(isinstance(extent, str) for extent in shape)


def _broadcast(shapes: Iterable[Shape]) -> Shape:
    """Return the common broadcast shape of several shapes, or None if they are unknown or incompatible."""
    known = [shape for shape in shapes if shape is not None]
    try:
        return tuple(np.broadcast_shapes(*known))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _finding(value: Value, shapes: _Shapes, name: str, where: str) -> Finding:
    """Return the finding about a value whose shape depends on the step."""
    ways = " or ".join(
        str(list(shape or ())) for shape in sorted(shapes, key=lambda s: len(s or ()))
    )
    return Finding(
        "CarryShapeError",
        f"'{value.name}' has the shape {ways}, depending on the step, and {name} gives something "
        "else for each",
        where,
        "give initial values (and ports) the shape that they have later",
    )


def _is_by_element(op: Op) -> bool:
    """Return True for an operation that gives the same results for an array as for each of its elements."""
    return row_of(op.op_type).elementwise or op.op_type == "Expand"
