"""Which form a loop has in machine code, or why it has none.

A loop has *lanes* where everything in it is computed number by number: each lane is then a loop of its
own. Its values are single numbers, or arrays of one shape, the lanes. Any other one is run in *steps*:
then its writer says whether each operation has code.
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
from mdf_loop.native.members import of_members
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import TYPES, NotNative, is_single

Extents = tuple[int | str, ...]


MOST_AXES = 15
"""Of an array; rows of such have one more, and trampoline.c has memory for no more."""

STOP = Value("told to stop", "int64", ())
"""Where a number is that is 0 as long as loops are to go on: its address."""


class KernelSignature(Struct, frozen=True, eq=False):
    """A loop as machine code computes it.

    Attributes:
        lanes: the shape of its arrays, without axes of one element in front; of a loop of single
            numbers, or in steps, nothing.
        known: constants.
        numbers: those of them that are single numbers.
        captured: what the body reads from outside, and arrays that are constants inside.
        many: whether it computes with arrays, whatever their extents; rows that it only gives on are none.
        steps: whether it is run in steps, since arrays read each other.
        places: of single numbers that are elements of arrays outside, where they are.
    """

    loop: Loop
    lanes: Extents
    known: Mapping[Value, Array]
    numbers: Mapping[Value, Array]
    captured: tuple[Value, ...]
    many: bool
    steps: bool = False
    places: Mapping[Value, Element] = field(default_factory=dict)

    def place(self, value: Value) -> Element:
        """Return the outer array of a value, possibly itself, and the position of the value in the array."""
        return self.places.get(value) or Element(value)

    @property
    def counts(self) -> bool:
        """True if the iterations are counted before the loop, since the number of rows depends on them."""
        return self.loop.condition is not None and bool(self.loop.recorded)

    @property
    def given(self) -> tuple[Value, ...]:
        """Inputs from outside without rows: captured values, and initial values of carried ones."""
        loop = self.loop
        control = (value for value in (loop.condition, loop.first) if value is not None)
        initials = (carried.initial for carried in loop.carried)
        inputs = (*control, *self.captured, *initials)
        return tuple(dict.fromkeys(value for value in inputs if value not in self.numbers))

    @property
    def arrays(self) -> tuple[Value, ...]:
        """Inputs in their outer form, as whole arrays."""
        return tuple(dict.fromkeys(self.place(value).array for value in self.given))

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All inputs besides the trip count. The termination flag is the last one."""
        rows = (scanned.rows for scanned in self.loop.scanned)
        return (*dict.fromkeys((*self.arrays, *rows)), STOP)

    @property
    def outputs(self) -> tuple[tuple[Value, bool], ...]:
        """Outputs, each with a flag for whether it consists of rows."""
        loop = self.loop
        arrays = dict.fromkeys(self.place(carried.final).array for carried in loop.carried)
        finals = tuple((array, False) for array in arrays)
        stacks = tuple((recorded.stack, True) for recorded in loop.recorded)
        control_outputs = (loop.count, loop.last_condition)
        return (
            *finals,
            *stacks,
            *((value, False) for value in control_outputs if value is not None),
        )


def constants_in(program: Program) -> Mapping[Value, Array]:
    """Return all constants of a program, in any scope."""
    return {op.value: op.array for op in walk(program.ops) if isinstance(op, Constant)}


def form_of(loop: Loop, known: Mapping[Value, Array]) -> KernelSignature:
    """Return the form of a loop. `known` are the constants of its program.

    Raises:
        NotNative: it has none; the text says why.
    """
    for operation in walk((loop,)):
        if isinstance(operation, Loop):
            _check_loop(operation)
    places: Mapping[Value, Element] = {}
    if loop.members is not None:
        members = of_members(loop, known)
        loop, known, places = members.loop, members.known, members.places
    numbers = {value: array for value, array in known.items() if array.size == 1}
    inner_values = dict.fromkeys(_made(loop))
    rows = {scanned.rows for scanned in loop.scanned}
    captured = tuple(
        v for v in _read(loop, elements_read) if v not in inner_values and v not in numbers
    )
    if any(v.shape is None for v in rows):
        raise NotNative("the shape of what it scans is known only when it runs")
    shapes = {bare(value) for value in (*inner_values, *captured, *_around(loop))} - {()}
    operations = (op for op in walk(loop.ops) if isinstance(op, Op))
    by_number = all(map(_is_by_number, operations))
    has_rows = any(map(_has_rows, walk(loop.ops)))
    if len(shapes) < 2 and by_number and not has_rows and _keeps_shapes(loop):
        lanes = next(iter(shapes), ())
        form = KernelSignature(loop, lanes, known, numbers, captured, bool(shapes), places=places)
        if {extent for extent in form.lanes if isinstance(extent, str)} <= {*extent_names(form)}:
            return form
    if loop.members is not None:
        raise NotNative("members stop each for itself, and have arrays")
    captured = tuple(v for v in _read(loop, reads) if v not in inner_values and v not in numbers)
    stacks = {r.stack for each in walk(loop.ops) if isinstance(each, Loop) for r in each.recorded}
    many = any(bare(value) for value in (*inner_values, *captured) if value not in stacks)
    return KernelSignature(loop, (), known, numbers, captured, many, steps=True)


def _keeps_shapes(loop: Loop) -> bool:
    """Return True if carried values, also of inner loops, keep their shapes in all iterations."""
    inside = (each for each in walk((loop,)) if isinstance(each, Loop) and each.dynamic_shapes)
    return all(carried.keeps_shape for each in inside for carried in each.carried)


def _has_rows(operation: Operation) -> bool:
    return isinstance(operation, Loop) and bool(operation.recorded or operation.scanned)


def _is_by_number(op: Op) -> bool:
    """Return True for an elementwise operation."""
    row = row_of(op.op_type)
    return row.in_order or (row.elementwise and row.native is not None)


# --- what no form has -----------------------------------------------------------------------------


def _check_loop(loop: Loop) -> None:
    if loop.kind == "endless" and loop.bound is None:
        raise NotNative("nothing ends it")
    ends = (loop.trip_count, loop.condition, loop.condition_out)
    if loop.members is None and any(v is not None and not is_single(v) for v in ends):
        raise NotNative("what ends it is an array")
    if any(scanned.axis != 0 for scanned in loop.scanned):  # that `scan_axis_first` cannot turn
        raise NotNative("it scans an axis that is not the first")


# --- its values -----------------------------------------------------------------------------------


def _made(loop: Loop) -> Iterator[Value]:
    """Yield the inputs and results of the body and of inner bodies, without constant arrays."""
    for operation in (loop, *walk(loop.ops)):
        if isinstance(operation, Constant):
            continue
        for body in bodies(operation):
            yield from body.inputs
        if operation is not loop:
            yield from results(operation)


def _around(loop: Loop) -> Iterator[Value]:
    """Yield the values that enter and leave the loop, with one row for all rows."""
    for carried in loop.carried:
        yield from (carried.initial, carried.final)
    stacks = (recorded.stack for recorded in loop.recorded)
    for rows in (*(scanned.rows for scanned in loop.scanned), *stacks):
        yield replace(rows, shape=None if rows.shape is None else rows.shape[1:])


def _read(loop: Loop, operands: Callable[[Operation], Iterable[Value]]) -> Iterable[Value]:
    """Return the values that the body reads, without duplicates."""
    values_read: dict[Value, None] = {}
    for operation in walk(loop.ops):
        values_read.update(dict.fromkeys(operands(operation)))
        for body in bodies(operation):
            values_read.update(dict.fromkeys(body.outputs))
    for body in bodies(loop):
        values_read.update(dict.fromkeys(body.outputs))
    return values_read


def bare(value: Value) -> Extents:
    """Return the shape without leading axes of one element. A single number has an empty shape."""
    if value.dtype not in TYPES:
        raise NotNative(f"it has {value.dtype}")
    if value.shape is None:
        raise NotNative(f"the shape of '{value.name}' is known only when it runs")
    if len(value.shape) > MOST_AXES:
        raise NotNative(f"it has an array of more than {MOST_AXES} axes")
    front = (k for k, extent in enumerate(value.shape) if extent != 1)
    first = next(front, None)
    return () if first is None else value.shape[first:]


def extent_names(form: KernelSignature) -> list[str]:
    """Return the extents that are known only at run time, in order."""
    shapes = (value.shape or () for value in form.inputs)
    return list(dict.fromkeys(e for shape in shapes for e in shape if isinstance(e, str)))


def readers(loop: Loop) -> Mapping[Value, set[int]]:
    """Return the operations that read each value, by their identity. Bodies read their results."""
    readers_of: dict[Value, set[int]] = {}

    def note(values: Iterable[Value], reader: object) -> None:
        for value in values:
            readers_of.setdefault(value, set()).add(id(reader))

    for operation in (loop, *walk(loop.ops)):
        note(reads(operation), operation)
        for body in bodies(operation):
            note(body.outputs, operation)
    return readers_of
