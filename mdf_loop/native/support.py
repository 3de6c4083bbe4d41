"""Choice between lanes and steps for the machine code of a loop, or the reason why the loop has no machine code.

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
from mdf_loop.native.elementwise import Element, elements_read
from mdf_loop.native.members import split_members
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import REGISTER_TYPES, NotNative, is_single

Extents = tuple[int | str, ...]
"""Extents of an array. An extent that is known only at run time has a name."""


MAX_AXES = 15
"""Maximum number of axes of an array. Rows add one axis, and trampoline.c has memory for 16 axes."""

STOP = Value("told to stop", "int64", ())
"""Input that holds the address of a flag. A number other than 0 in the flag stops the loop."""


class KernelSignature(Struct, frozen=True, eq=False):
    """Signature of the kernel of a loop: its inputs, outputs and constants.

    Attributes:
        loop: The loop.
        lanes: Shape of the arrays without leading axes of one element. Empty for loops of scalars and
            for loops in steps.
        known: Constants.
        numbers: Constants that are scalars.
        captured: Values that the body reads from outside, and arrays that are constants inside.
        vectorized: True if the loop computes arrays. Rows of scalars are not arrays.
        steps: True if the loop is executed in steps, since its arrays read each other.
        places: Positions of scalars that are elements of arrays outside of the loop.
    """

    loop: Loop
    lanes: Extents
    known: Mapping[Value, Array]
    numbers: Mapping[Value, Array]
    captured: tuple[Value, ...]
    vectorized: bool
    steps: bool = False
    places: Mapping[Value, Element] = field(default_factory=dict)

    def place(self, value: Value) -> Element:
        """Return the array outside of the loop that contains a value, with the position of the value in the array."""
        return self.places.get(value) or Element(value)

    @property
    def counts(self) -> bool:
        """True if the iterations are counted before the loop, since the number of rows depends on them."""
        return self.loop.condition is not None and bool(self.loop.recorded)

    @property
    def unscanned_inputs(self) -> tuple[Value, ...]:
        """Inputs other than scanned rows: captured values, and initial values of carried values."""
        loop = self.loop
        control = (value for value in (loop.condition, loop.first_iteration) if value is not None)
        initials = (carried.initial for carried in loop.carried)
        inputs = (*control, *self.captured, *initials)
        return tuple(dict.fromkeys(value for value in inputs if value not in self.numbers))

    @property
    def arrays(self) -> tuple[Value, ...]:
        """Arrays outside of the loop that contain the inputs other than scanned rows."""
        return tuple(dict.fromkeys(self.place(value).array for value in self.unscanned_inputs))

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All inputs except the trip count. The address of the stop flag is the last input."""
        rows = (scanned.rows for scanned in self.loop.scanned)
        return (*dict.fromkeys((*self.arrays, *rows)), STOP)

    @property
    def outputs(self) -> tuple[tuple[Value, bool], ...]:
        """Outputs, each with a flag that is True for recorded rows."""
        loop = self.loop
        arrays = dict.fromkeys(self.place(carried.final).array for carried in loop.carried)
        finals = tuple((array, False) for array in arrays)
        stacks = tuple((recorded.stack, True) for recorded in loop.recorded)
        control_outputs = (loop.iteration_count, loop.last_condition)
        return (
            *finals,
            *stacks,
            *((value, False) for value in control_outputs if value is not None),
        )


def constants_in(program: Program) -> Mapping[Value, Array]:
    """Return all constants of a program, in any scope."""
    return {op.value: op.array for op in walk(program.ops) if isinstance(op, Constant)}


def signature_of(loop: Loop, known: Mapping[Value, Array]) -> KernelSignature:
    """Return the signature of the kernel of a loop.

    Args:
        loop: The loop.
        known: Constants of the program of the loop.

    Raises:
        NotNative: The loop has no machine code. The message states the reason.
    """
    for operation in walk((loop,)):
        if isinstance(operation, Loop):
            _check_loop(operation)
    places: Mapping[Value, Element] = {}
    if loop.member_axis is not None:
        member_loop = split_members(loop, known)
        loop, known, places = member_loop.loop, member_loop.known, member_loop.places
    numbers = {value: array for value, array in known.items() if array.size == 1}
    inner_values = dict.fromkeys(_inner_values(loop))
    rows = {scanned.rows for scanned in loop.scanned}
    captured = tuple(
        v for v in _collect_reads(loop, elements_read) if v not in inner_values and v not in numbers
    )
    if any(v.shape is None for v in rows):
        raise NotNative("the shape of what it scans is known only when it runs")
    shapes = {
        strip_leading_ones(value) for value in (*inner_values, *captured, *_outer_values(loop))
    } - {()}
    operations = (op for op in walk(loop.ops) if isinstance(op, Op))
    is_elementwise = all(map(_is_elementwise, operations))
    has_rows = any(map(_has_rows, walk(loop.ops)))
    if len(shapes) < 2 and is_elementwise and not has_rows and _keeps_shapes(loop):
        lanes = next(iter(shapes), ())
        signature = KernelSignature(
            loop, lanes, known, numbers, captured, bool(shapes), places=places
        )
        if {extent for extent in signature.lanes if isinstance(extent, str)} <= {
            *extent_names(signature)
        }:
            return signature
    if loop.member_axis is not None:
        raise NotNative("members stop each for itself, and have arrays")
    captured = tuple(
        v for v in _collect_reads(loop, reads) if v not in inner_values and v not in numbers
    )
    stacks = {r.stack for each in walk(loop.ops) if isinstance(each, Loop) for r in each.recorded}
    computes_arrays = any(
        strip_leading_ones(value) for value in (*inner_values, *captured) if value not in stacks
    )
    return KernelSignature(loop, (), known, numbers, captured, computes_arrays, steps=True)


def _keeps_shapes(loop: Loop) -> bool:
    """Return True if carried values, also of inner loops, keep their shapes in all iterations."""
    dynamic_loops = (
        loop_inside
        for loop_inside in walk((loop,))
        if isinstance(loop_inside, Loop) and loop_inside.has_dynamic_shapes
    )
    return all(
        carried.keeps_shape for loop_inside in dynamic_loops for carried in loop_inside.carried
    )


def _has_rows(operation: Operation) -> bool:
    """Return True for a loop that records or scans rows."""
    return isinstance(operation, Loop) and bool(operation.recorded or operation.scanned)


def _is_elementwise(op: Op) -> bool:
    """Return True for an elementwise operation."""
    row = row_of(op.op_type)
    return row.keeps_order or (row.is_elementwise and row.native_code is not None)


# --- unsupported loops ----------------------------------------------------------------------------


def _check_loop(loop: Loop) -> None:
    """Raise NotNative for an endless loop, an array as condition, or a scan along an axis other than 0."""
    if loop.kind == "endless" and loop.max_iterations is None:
        raise NotNative("nothing ends it")
    end_values = (loop.trip_count, loop.condition, loop.condition_out)
    if loop.member_axis is None and any(v is not None and not is_single(v) for v in end_values):
        raise NotNative("what ends it is an array")
    if any(scanned.axis != 0 for scanned in loop.scanned):  # `scan_axis_first` could not change it
        raise NotNative("it scans an axis that is not the first")


# --- values of a loop -----------------------------------------------------------------------------


def _inner_values(loop: Loop) -> Iterator[Value]:
    """Yield the values that the body and inner bodies compute or have as inputs, without constants."""
    for operation in (loop, *walk(loop.ops)):
        if isinstance(operation, Constant):
            continue
        for body in bodies(operation):
            yield from body.inputs
        if operation is not loop:
            yield from results(operation)


def _outer_values(loop: Loop) -> Iterator[Value]:
    """Yield the values that enter and leave the loop. Arrays of rows are represented by one row."""
    for carried in loop.carried:
        yield from (carried.initial, carried.final)
    stacks = (recorded.stack for recorded in loop.recorded)
    for rows in (*(scanned.rows for scanned in loop.scanned), *stacks):
        yield replace(rows, shape=None if rows.shape is None else rows.shape[1:])


def _collect_reads(loop: Loop, operands: Callable[[Operation], Iterable[Value]]) -> Iterable[Value]:
    """Return the values that the body reads, without duplicates.

    Args:
        loop: The loop.
        operands: Function that returns the operands of an operation.
    """
    values_read: dict[Value, None] = {}
    for operation in walk(loop.ops):
        values_read.update(dict.fromkeys(operands(operation)))
        for body in bodies(operation):
            values_read.update(dict.fromkeys(body.outputs))
    for body in bodies(loop):
        values_read.update(dict.fromkeys(body.outputs))
    return values_read


def strip_leading_ones(value: Value) -> Extents:
    """Return the shape of a value without leading axes of one element. The shape of a scalar is empty.

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
    first = next(kept_axes, None)
    return () if first is None else value.shape[first:]


def extent_names(signature: KernelSignature) -> list[str]:
    """Return the names of the extents that are known only at run time, in order."""
    shapes = (value.shape or () for value in signature.inputs)
    return list(dict.fromkeys(e for shape in shapes for e in shape if isinstance(e, str)))


def reader_ids(loop: Loop) -> Mapping[Value, set[int]]:
    """Return the ids of the operations that read each value.

    An operation with a body reads the outputs of the body.
    """
    readers_of: dict[Value, set[int]] = {}

    def note(values: Iterable[Value], reader: object) -> None:
        for value in values:
            readers_of.setdefault(value, set()).add(id(reader))

    for operation in (loop, *walk(loop.ops)):
        note(reads(operation), operation)
        for body in bodies(operation):
            note(body.outputs, operation)
    return readers_of
