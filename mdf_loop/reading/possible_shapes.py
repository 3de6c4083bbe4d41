"""Check for values that are scalars in the first step and arrays in later steps.

A carried value has one shape. If its shape in the model changes (a state starts as one number, a port has
zeros until an edge feeds it), the value is broadcast to its later shape. Elementwise operations give the same
results for it. Others, such as a sum or a matrix product, do not, and the model is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np

from mdf_loop.errors import Finding
from mdf_loop.ir import (
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Program,
    Shape,
    Value,
    operands,
    walk,
)
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops import row_of

_MAX_COMBINATIONS = 64
"""Maximum number of shape combinations that are tested for one operation."""

_SHAPE_QUERIES = "a function of its shape (numpy.size, onnx::Shape, a random draw)"
"""Text about the functions that read a shape, for errors."""

_Shapes = frozenset[Shape]


def find_broadcast_errors(
    program: Program, b: ModelBuilder, first_shapes: Mapping[Value, Shape] | None = None
) -> tuple[Finding, ...]:
    """Return errors for results that change if scalars are broadcast to the shapes of later steps.

    `first_shapes` are shapes of inputs at the first step, if they differ from the shapes in the program. `b` is the
    builder of the program.
    """
    if not b.broadcast_sources and not first_shapes:
        return ()
    possible_shapes = _PossibleShapes(program, b.broadcast_sources, first_shapes or {})
    return tuple(
        dict.fromkeys(
            (
                *possible_shapes.find_dependent_operations(),
                *possible_shapes.find_shape_queries(b.shape_queries),
            )
        )
    )


class _PossibleShapes:
    """Shapes that each value could have in different steps if no scalar were broadcast."""

    def __init__(
        self,
        program: Program,
        broadcast_sources: Mapping[Value, tuple[Value, ...]],
        first_shapes: Mapping[Value, Shape],
    ) -> None:
        self.program = program
        self.broadcast_sources = broadcast_sources
        self.shapes_by_value: dict[Value, _Shapes] = {
            value: frozenset({value.shape, shape}) for value, shape in first_shapes.items()
        }
        self.has_changed = True
        while self.has_changed:
            self.has_changed = False
            for operation in walk(program.ops):
                self._propagate(operation)

    def find_shapes(self, value: Value) -> _Shapes:
        """Return all shapes that a value may have."""
        return self.shapes_by_value.get(value, frozenset({value.shape}))

    def _add(self, value: Value, shapes: Iterable[Shape]) -> None:
        """Add shapes to the possible shapes of a value."""
        old_shapes = self.find_shapes(value)
        new_shapes = old_shapes | frozenset(shapes)
        if new_shapes != old_shapes and not _has_unknown_extent(value.shape):
            self.shapes_by_value[value] = new_shapes
            self.has_changed = True

    def _propagate(self, operation: Operation) -> None:
        """Propagate the possible shapes through one operation."""
        if isinstance(operation, Loop):
            for carried_value in operation.carried:
                self._add(
                    carried_value.body_input,
                    self.find_shapes(carried_value.initial)
                    | self.find_shapes(carried_value.body_output),
                )
                self._add(
                    carried_value.final,
                    self.find_shapes(carried_value.initial)
                    | self.find_shapes(carried_value.body_output),
                )
        elif isinstance(operation, If):
            branch_outputs = zip(operation.then.outputs, operation.otherwise.outputs, strict=True)
            for choice_output, output_pair in zip(operation.outputs, branch_outputs, strict=True):
                self._add(
                    choice_output,
                    self.find_shapes(output_pair[0]) | self.find_shapes(output_pair[1]),
                )
        elif isinstance(operation, Guard):
            self._add(operation.output, self.find_shapes(operation.value))
        elif isinstance(operation, Op):
            op_output, *further_outputs = operation.outputs
            if op_output in self.broadcast_sources:
                self._add(
                    op_output,
                    (
                        shape
                        for value in self.broadcast_sources[op_output]
                        for shape in self.find_shapes(value)
                    ),
                )
            elif _is_elementwise(operation) and not further_outputs:
                self._propagate_elementwise(operation, op_output)

    def _propagate_elementwise(self, op: Op, output: Value) -> None:
        """Propagate the possible shapes through an elementwise operation."""
        operand_shapes = [self.find_shapes(value) for value in operands(op)]
        if all(len(shapes) == 1 for shapes in operand_shapes):
            return
        broadcast_shapes = {
            _broadcast_shapes(shapes)
            for shapes in list(product(*operand_shapes))[:_MAX_COMBINATIONS]
        }
        if output.shape in broadcast_shapes and len(broadcast_shapes) == 1:
            return
        self._add(output, broadcast_shapes - {None})

    def find_dependent_operations(self) -> Iterable[Finding]:
        """Yield errors for operations that depend on a shape which differs between steps."""
        for operation in walk(self.program.ops):
            if isinstance(operation, Op):
                if operation.outputs[0] in self.broadcast_sources or _is_elementwise(operation):
                    continue
                operands_to_check: Iterable[Value] = operands(operation)
            elif isinstance(operation, Loop):
                recordings = operation.recorded if operation.iteration_count is not None else ()
                scanned_arrays = (scanned_input.rows for scanned_input in operation.scanned)
                operands_to_check = (*scanned_arrays, *(recording.row for recording in recordings))
            else:
                continue
            for operand in operands_to_check:
                if len(self.find_shapes(operand)) > 1:
                    operation_name = (
                        operation.op_type if isinstance(operation, Op) else operation.name
                    )
                    yield _finding(
                        operand, self.find_shapes(operand), operation_name, operation.where
                    )

    def find_shape_queries(self, paths: Mapping[Value, str]) -> Iterable[Finding]:
        """Yield errors for values whose shape differs between steps and is read by the model."""
        for queried_value, query_path in paths.items():
            if len(self.find_shapes(queried_value)) > 1:
                yield _finding(
                    queried_value, self.find_shapes(queried_value), _SHAPE_QUERIES, query_path
                )


def _has_unknown_extent(shape: Shape) -> bool:
    """Return True if an extent or the rank is unknown."""
    return shape is None or any(isinstance(extent, str) for extent in shape)


def _broadcast_shapes(shapes: Iterable[Shape]) -> Shape:
    """Return the common broadcast shape of several shapes, or None if they are unknown or incompatible."""
    known_shapes = [shape for shape in shapes if shape is not None]
    try:
        return tuple(np.broadcast_shapes(*known_shapes))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _finding(value: Value, shapes: _Shapes, name: str, where: str) -> Finding:
    """Return the error for a value whose shape differs between steps."""
    shape_list = " or ".join(
        str(list(shape or ())) for shape in sorted(shapes, key=lambda s: len(s or ()))
    )
    return Finding(
        "CarryShapeError",
        f"'{value.name}' has the shape {shape_list}, depending on the step, and {name} gives something "
        "else for each",
        where,
        "give initial values (and ports) the shape that they have later",
    )


def _is_elementwise(op: Op) -> bool:
    """Return True for an operation that treats arrays element by element, or only broadcasts them."""
    return row_of(op.op_type).is_elementwise or op.op_type == "Expand"
