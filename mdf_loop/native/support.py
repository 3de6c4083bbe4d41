"""Signature of the machine code of a loop, or the reason why the loop has no machine code.

A loop has *lanes* if all of its operations are elementwise: each lane is then an independent loop. The values
of the loop are scalars, or arrays of one shape, whose elements are the lanes. Any other loop is executed in
*steps*. The writer of a loop in steps decides whether each operation has machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.ir import (
    Array,
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Value,
    bodies,
    reads,
    results,
    walk,
)
from mdf_loop.native.elementwise import ElementPosition, elements_read
from mdf_loop.native.members import split_members
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import REGISTER_TYPES, NotNative, is_single

Extents = tuple[int | str, ...]
"""Extents of an array. An extent that is known only at run time has a name."""


MAX_AXES = 15
"""Maximum number of axes of an array. Rows add one axis, and trampoline.c has memory for 16 axes."""

STOP_FLAG = Value("told to stop", "int64", ())
"""Input that holds the address of a flag. A number other than 0 in the flag stops the loop."""


class KernelSignature(Struct, frozen=True, eq=False):
    """Signature of the machine code of a loop: its inputs, outputs and constants.

    Attributes:
        loop: The loop.
        lane_shape: Shape of the arrays without leading axes of one element. Empty for loops of scalars and
            for loops in steps.
        constants: Constants.
        scalar_constants: Constants that are scalars.
        captured_values: Values that the body reads from outside, and arrays that are constants inside.
        computes_arrays: True if the loop computes arrays. Rows of scalars are not arrays.
        computes_whole_arrays: True if the loop is executed in steps, since its arrays read each other.
        element_positions: Positions of scalars that are elements of arrays outside of the loop.
    """

    loop: Loop
    lane_shape: Extents
    constants: Mapping[Value, Array]
    scalar_constants: Mapping[Value, Array]
    captured_values: tuple[Value, ...]
    computes_arrays: bool
    computes_whole_arrays: bool = False
    element_positions: Mapping[Value, ElementPosition] = field(default_factory=dict)

    def element_position(self, value: Value) -> ElementPosition:
        """Return the position of a loop's scalar within the input or output array that holds it."""
        return self.element_positions.get(value) or ElementPosition(value)

    @property
    def needs_iteration_count(self) -> bool:
        """True if a separate function must count the iterations before the rows are allocated."""
        return self.loop.condition is not None and bool(self.loop.recorded)

    @property
    def unscanned_inputs(self) -> tuple[Value, ...]:
        """Inputs that the loop does not scan: captured values and initial carried values."""
        loop = self.loop
        loop_control_values = (
            value for value in (loop.condition, loop.first_iteration) if value is not None
        )
        initial_values = (carried_value.initial for carried_value in loop.carried)
        input_values = (*loop_control_values, *self.captured_values, *initial_values)
        return tuple(
            dict.fromkeys(value for value in input_values if value not in self.scalar_constants)
        )

    @property
    def unscanned_arrays(self) -> tuple[Value, ...]:
        """Input arrays of the loop, except for the arrays that the loop scans row by row."""
        return tuple(
            dict.fromkeys(self.element_position(value).array for value in self.unscanned_inputs)
        )

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Inputs of the machine code without the trip count, ending with the stop flag."""
        scanned_arrays = (scanned_input.rows for scanned_input in self.loop.scanned)
        return (*dict.fromkeys((*self.unscanned_arrays, *scanned_arrays)), STOP_FLAG)

    @property
    def outputs(self) -> tuple[tuple[Value, bool], ...]:
        """Outputs of the machine code, each with True if it consists of recorded rows."""
        loop = self.loop
        final_arrays = dict.fromkeys(
            self.element_position(carried_value.final).array for carried_value in loop.carried
        )
        unrecorded_outputs = tuple((array, False) for array in final_arrays)
        recorded_outputs = tuple((recorded_value.stack, True) for recorded_value in loop.recorded)
        control_outputs = (loop.iteration_count, loop.last_condition)
        return (
            *unrecorded_outputs,
            *recorded_outputs,
            *((value, False) for value in control_outputs if value is not None),
        )


def constants_in(program: Program) -> Mapping[Value, Array]:
    """Return all constants of a program, also in loop bodies and branches."""
    return {op.value: op.array for op in walk(program.ops) if isinstance(op, Constant)}


def signature_of(loop: Loop, constants: Mapping[Value, Array]) -> KernelSignature:
    """Return the signature of the machine code of a loop, or raise NotNative.

    Args:
        loop: The loop.
        constants: Constants of the program of the loop.

    Raises:
        NotNative: The loop has no machine code. The message states the reason.
    """
    for operation in walk((loop,)):
        if isinstance(operation, Loop):
            _check_loop(operation)
    element_positions: Mapping[Value, ElementPosition] = {}
    if loop.member_axis is not None:
        member_loop = split_members(loop, constants)
        loop, constants, element_positions = (
            member_loop.loop,
            member_loop.constants,
            member_loop.element_positions,
        )
    scalar_constants = {value: array for value, array in constants.items() if array.size == 1}
    inner_values = dict.fromkeys(_inner_values(loop))
    scanned_arrays = {scanned_input.rows for scanned_input in loop.scanned}
    captured_values = tuple(
        value
        for value in _collect_reads(loop, elements_read)
        if value not in inner_values and value not in scalar_constants
    )
    if any(array.shape is None for array in scanned_arrays):
        raise NotNative("the shape of what it scans is known only when it runs")
    lane_shapes = {
        strip_leading_ones(value)
        for value in (*inner_values, *captured_values, *_outer_values(loop))
    } - {()}
    ops_in_loop = (op for op in walk(loop.ops) if isinstance(op, Op))
    is_elementwise = all(map(_is_elementwise_or_reshape, ops_in_loop))
    has_rows = any(map(_has_rows, walk(loop.ops)))
    if len(lane_shapes) < 2 and is_elementwise and not has_rows and _keeps_shapes(loop):
        lane_shape = next(iter(lane_shapes), ())
        signature = KernelSignature(
            loop,
            lane_shape,
            constants,
            scalar_constants,
            captured_values,
            bool(lane_shapes),
            element_positions=element_positions,
        )
        if {extent for extent in signature.lane_shape if isinstance(extent, str)} <= {
            *extent_names(signature)
        }:
            return signature
    if loop.member_axis is not None:
        raise NotNative("members stop each for itself, and have arrays")
    captured_values = tuple(
        value
        for value in _collect_reads(loop, reads)
        if value not in inner_values and value not in scalar_constants
    )
    recorded_arrays = {
        recorded_value.stack
        for operation in walk(loop.ops)
        if isinstance(operation, Loop)
        for recorded_value in operation.recorded
    }
    computes_arrays = any(
        strip_leading_ones(value)
        for value in (*inner_values, *captured_values)
        if value not in recorded_arrays
    )
    return KernelSignature(
        loop,
        (),
        constants,
        scalar_constants,
        captured_values,
        computes_arrays,
        computes_whole_arrays=True,
    )


def _keeps_shapes(loop: Loop) -> bool:
    """Return True if no carried value of a loop or its inner loops changes shape."""
    dynamic_shape_loops = (
        inner_loop
        for inner_loop in walk((loop,))
        if isinstance(inner_loop, Loop) and inner_loop.has_dynamic_shapes
    )
    return all(
        carried_value.keeps_shape
        for inner_loop in dynamic_shape_loops
        for carried_value in inner_loop.carried
    )


def _has_rows(operation: Operation) -> bool:
    """Return True for a loop that records or scans arrays row by row."""
    return isinstance(operation, Loop) and bool(operation.recorded or operation.scanned)


def _is_elementwise_or_reshape(op: Op) -> bool:
    """Return True if an operation only reshapes, or if it is elementwise and has machine code."""
    operation_row = row_of(op.op_type)
    return operation_row.keeps_order or (
        operation_row.is_elementwise and operation_row.native_code is not None
    )


# --- unsupported loops ----------------------------------------------------------------------------


def _check_loop(loop: Loop) -> None:
    """Raise NotNative for a loop that has no machine code.

    These are endless loops, loops with an array as condition, and scans along an axis other than 0.
    """
    if loop.kind == "endless" and loop.max_iterations is None:
        raise NotNative("nothing ends it")
    end_conditions = (loop.trip_count, loop.condition, loop.condition_out)
    if loop.member_axis is None and any(
        value is not None and not is_single(value) for value in end_conditions
    ):
        raise NotNative("what ends it is an array")
    if any(
        scanned_input.axis != 0 for scanned_input in loop.scanned
    ):  # `scan_axis_first` could not change it
        raise NotNative("it scans an axis that is not the first")


# --- values of a loop -----------------------------------------------------------------------------


def _inner_values(loop: Loop) -> Iterator[Value]:
    """Yield all values that are defined inside a loop, except constants."""
    for operation in (loop, *walk(loop.ops)):
        if isinstance(operation, Constant):
            continue
        for body in bodies(operation):
            yield from body.inputs
        if operation is not loop:
            yield from results(operation)


def _outer_values(loop: Loop) -> Iterator[Value]:
    """Yield initial and final carried values, and a row of each scanned or recorded array."""
    for carried_value in loop.carried:
        yield from (carried_value.initial, carried_value.final)
    recorded_arrays = (recorded_value.stack for recorded_value in loop.recorded)
    for rows_array in (*(scanned_input.rows for scanned_input in loop.scanned), *recorded_arrays):
        yield replace(rows_array, shape=None if rows_array.shape is None else rows_array.shape[1:])


def _collect_reads(loop: Loop, operands: Callable[[Operation], Iterable[Value]]) -> Iterable[Value]:
    """Return all values that the body of a loop reads, without duplicates.

    Args:
        loop: The loop.
        operands: Function that returns the operands of an operation.
    """
    read_values: dict[Value, None] = {}
    for operation in walk(loop.ops):
        read_values.update(dict.fromkeys(operands(operation)))
        for body in bodies(operation):
            read_values.update(dict.fromkeys(body.outputs))
    for body in bodies(loop):
        read_values.update(dict.fromkeys(body.outputs))
    return read_values


def strip_leading_ones(value: Value) -> Extents:
    """Return the shape of an array without leading extents of 1.

    Raises:
        NotNative: Machine code does not support the dtype or the shape.
    """
    if value.dtype not in REGISTER_TYPES:
        raise NotNative(f"it has {value.dtype}")
    if value.shape is None:
        raise NotNative(f"the shape of '{value.name}' is known only when it runs")
    if len(value.shape) > MAX_AXES:
        raise NotNative(f"it has an array of more than {MAX_AXES} axes")
    kept_axes = (k for k, extent in enumerate(value.shape) if extent != 1)
    first_kept_axis = next(kept_axes, None)
    return () if first_kept_axis is None else value.shape[first_kept_axis:]


def extent_names(signature: KernelSignature) -> list[str]:
    """Return the names of all extents that are known only at run time, in order of use."""
    input_shapes = (value.shape or () for value in signature.inputs)
    return list(
        dict.fromkeys(
            extent for shape in input_shapes for extent in shape if isinstance(extent, str)
        )
    )


def reader_ids(loop: Loop) -> Mapping[Value, set[int]]:
    """Map each value to the ids of the operations that read the value.

    An operation with a body reads the outputs of the body.
    """
    readers_by_value: dict[Value, set[int]] = {}

    def note(values: Iterable[Value], reader: object) -> None:
        for value in values:
            readers_by_value.setdefault(value, set()).add(id(reader))

    for operation in (loop, *walk(loop.ops)):
        note(reads(operation), operation)
        for body in bodies(operation):
            note(body.outputs, operation)
    return readers_by_value
