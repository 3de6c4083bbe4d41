"""The loop IR: what a model computes, as frozen data that can be printed.

    program(%steps: int64[], %x0: float64[n], %drive: float64[n])
      %gain: float64[] = 0.5
      %mul: float64[n] = Mul(%drive, %gain)
      loop %i < %steps
        carry %x: float64[n] from %x0 to %add
        %add: float64[n] = Add(%x, %mul)
        record %add

Ops speak ONNX (opset 17). A `Loop` says what modellers mean, which is more than ONNX's op:
its meaning is `mdf_loop.run.interpret`. `Loop` and `If` own bodies (`bodies`). What a body reads
from outside is captured; captures are computed (`captures`), never declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

import numpy.typing as npt

from mdf_loop.stopped_by import StoppedBy as StoppedBy  # the word of programs, too

Array: TypeAlias = npt.NDArray[Any]
Data: TypeAlias = Any
"""What a value holds: an array, a list of arrays (a sequence), None (an absent optional value)."""

Shape: TypeAlias = tuple[int | str, ...] | None
"""Outermost axis first; a name stands for an extent known only at run time; None: unknown rank."""


def is_fixed(shape: Shape) -> TypeGuard[tuple[int, ...]]:
    """Whether all extents are known before the run."""
    return shape is not None and all(isinstance(extent, int) for extent in shape)


OPSET = 17
"""The ONNX operator set that ops speak. 17 keeps MDF's opset-15 attributes and has float64 kernels."""


def type_text(dtype: str, shape: Shape) -> str:
    """`float64[time, n]`; `float64[*]` for an unknown rank; `sequence(float64)` has no shape."""
    if "(" in dtype:
        return dtype
    return f"{dtype}[{'*' if shape is None else ', '.join(map(str, shape))}]"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A label unique in its program, dtype, shape, and where in the MDF it comes from.

    A dtype like `float64` is that of a tensor; for others see `onnx_types`.
    """

    name: str
    dtype: str
    shape: Shape
    where: str = ""

    @property
    def type(self) -> str:
        """The type as modellers read it: `float64[time, n]`."""
        return type_text(self.dtype, self.shape)

    def __str__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A value known when the program is read."""

    value: Value
    array: Array


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One ONNX operation; an input that is None is an optional input left out."""

    op_type: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    where: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """A loop-carried value: `enter` is `initial` first, then the last iteration's `leave`.

    `name` is what the document calls the body output.
    """

    initial: Value
    enter: Value
    leave: Value
    final: Value
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A scan output: the `row` of every iteration, stacked on a new axis 0.

    `name` is what the document calls the body output.
    """

    row: Value
    stack: Value
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A body run again and again.

        i, go = 0, condition
        while (trip_count is None or i < trip_count) and (condition is None or go):
            go, leaves, rows = body(i, go, enters)     # all carried values change at once
            i += 1
        finals, stacks = leaves, np.stack(rows)

    Without a `condition` the body's own condition is ignored, as the ONNX document says
    (ONNX Runtime does not, the emitter sees to it). `bound` is the caller's cap on iterations
    of a loop without a trip count; with `dynamic_shapes` carried values may change their shape.
    `count` and `last_condition` exist only when asked for:
    iterations run (int64) and the last condition (bool).

    Source: ONNX operators, Loop-13.
    """

    name: str
    trip_count: Value | None
    condition: Value | None
    iteration: Value
    condition_in: Value
    condition_out: Value | None
    carried: tuple[Carried, ...]
    recorded: tuple[Recorded, ...]
    ops: tuple[Operation, ...]
    bound: int | None = None
    dynamic_shapes: bool = False
    count: Value | None = None
    last_condition: Value | None = None
    where: str = ""

    @property
    def kind(self) -> str:
        """Which of the five operating modes this is."""
        match (self.trip_count is not None, self.condition is not None):
            case (True, True):
                return "for-while"
            case (True, False):
                return "for"
            case (False, True):
                return "while"
            case _:
                return "endless"


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One body of an `If`: it is given nothing, what it reads it captures."""

    ops: tuple[Operation, ...]
    leaves: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """One of two bodies, chosen by a truth value when it is reached; only that one is computed.

        outputs = then() if condition else otherwise()

    A leaf may be a value from outside its branch. Where the leaves of the two branches differ
    in shape, the output's shape says only what they share.

    Source: ONNX operators, If-13.
    """

    name: str
    condition: Value
    then: Branch
    otherwise: Branch
    outputs: tuple[Value, ...]
    where: str = ""


Operation: TypeAlias = Constant | Op | Loop | If

_Operation = TypeVar("_Operation", bound=Operation)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A scope inside an operation: the values that it is given, its operations, what it gives."""

    inputs: tuple[Value, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A program input: the value, the ports it feeds (`node.port`), what it is when not given."""

    value: Value
    ports: tuple[str, ...] = ()
    default: Data = None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole model: inputs by name, operations in order, outputs by name (`node.port`)."""

    name: str
    inputs: tuple[Input, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[tuple[str, Value], ...]

    def __str__(self) -> str:
        from mdf_loop.printing import print_program

        return print_program(self)


# --- looking at a program ---------------------------------------------------------------------


def operands(operation: Operation) -> Iterator[Value]:
    """The values an operation reads in its own scope: not those that only its bodies read."""
    if isinstance(operation, Op):
        yield from (value for value in operation.inputs if value is not None)
    elif isinstance(operation, Loop):
        yield from (v for v in (operation.trip_count, operation.condition) if v is not None)
        yield from (carried.initial for carried in operation.carried)
    elif isinstance(operation, If):
        yield operation.condition


def results(operation: Operation) -> Iterator[Value]:
    """The values an operation makes in the scope that it stands in."""
    if isinstance(operation, Constant):
        yield operation.value
    elif isinstance(operation, (Op, If)):
        yield from operation.outputs
    else:
        yield from (carried.final for carried in operation.carried)
        yield from (recorded.stack for recorded in operation.recorded)
        yield from (v for v in (operation.count, operation.last_condition) if v is not None)


def body_inputs(loop: Loop) -> tuple[Value, ...]:
    """Iteration number, incoming condition, carried values: in ONNX's order."""
    return (loop.iteration, loop.condition_in, *(carried.enter for carried in loop.carried))


def body_outputs(loop: Loop) -> tuple[Value, ...]:
    """Outgoing condition (if any), carried values, recorded rows: in ONNX's order."""
    condition = () if loop.condition_out is None else (loop.condition_out,)
    return (
        *condition,
        *(carried.leave for carried in loop.carried),
        *(recorded.row for recorded in loop.recorded),
    )


def bodies(operation: Operation) -> tuple[Body, ...]:
    """The scopes inside an operation: a loop has one, an `If` two, any other operation none."""
    if isinstance(operation, Loop):
        return (Body(body_inputs(operation), operation.ops, body_outputs(operation)),)
    if isinstance(operation, If):
        branches = (operation.then, operation.otherwise)
        return tuple(Body((), branch.ops, branch.leaves) for branch in branches)
    return ()


def with_bodies(operation: _Operation, ops: Sequence[tuple[Operation, ...]]) -> _Operation:
    """The operation with other operations in its bodies; the same object if they are the same."""
    if all(new == body.ops for new, body in zip(ops, bodies(operation), strict=True)):
        return operation
    if isinstance(operation, Loop):
        return cast(_Operation, replace(operation, ops=ops[0]))
    assert isinstance(operation, If)
    branches = (operation.then, operation.otherwise)
    then, otherwise = (replace(branch, ops=new) for branch, new in zip(branches, ops, strict=True))
    return cast(_Operation, replace(operation, then=then, otherwise=otherwise))


def captures(operation: Operation) -> tuple[Value, ...]:
    """What the bodies read from outside, in order of first use, inner bodies included."""
    outside: dict[Value, None] = {}
    for body in bodies(operation):
        inside: set[Value] = set(body.inputs)
        for inner in body.ops:
            outside.update((value, None) for value in reads(inner) if value not in inside)
            inside.update(results(inner))
        outside.update((value, None) for value in body.outputs if value not in inside)
    return tuple(outside)


def reads(operation: Operation) -> tuple[Value, ...]:
    """All that an operation needs: its operands, and what its bodies capture."""
    return (*operands(operation), *captures(operation))


def walk(ops: Iterable[Operation]) -> Iterator[Operation]:
    """Every operation, those of bodies after the operation that owns them."""
    for operation in ops:
        yield operation
        for body in bodies(operation):
            yield from walk(body.ops)


def loops(program: Program) -> tuple[Loop, ...]:
    """The loops of the outermost level, in order."""
    return tuple(operation for operation in program.ops if isinstance(operation, Loop))


def true_constants(ops: Iterable[Operation]) -> set[Value]:
    """The constants, also in bodies, that are the truth value True."""
    return {op.value for op in walk(ops) if isinstance(op, Constant) and is_true(op.array)}


def is_true(array: Array) -> bool:
    """Whether an array is the one truth value True."""
    return array.dtype.kind == "b" and array.size == 1 and bool(array.all())


def always_true(loop: Loop, true_values: set[Value]) -> bool:
    """Whether the loop's condition is true before the first and after every iteration."""
    if loop.condition_out is None:
        return False
    goes_on = original(loop.ops, loop.condition_out)
    stays = goes_on in true_values or goes_on is loop.condition_in
    return loop.condition in true_values and stays


def original(ops: Iterable[Operation], value: Value) -> Value:
    """What a value is a copy of (an Identity of an Identity ...), itself if it is none."""
    copies = {
        op.outputs[0]: op.inputs[0] for op in ops if isinstance(op, Op) and op.op_type == "Identity"
    }
    while (source := copies.get(value)) is not None:
        value = source
    return value
