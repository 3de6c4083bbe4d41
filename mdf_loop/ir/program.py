"""The loop IR: what a model computes, as frozen data that can be printed.

    program(%steps: int64[], %x0: float64[n], %drive: float64[n], %kicks: float64[time, n])
      %gain: float64[] = 0.5
      %mul: float64[n] = Mul(%drive, %gain)
      loop %i < %steps
        carry %x: float64[n] from %x0 to %add
        scan %kick: float64[n] of %kicks axis 0
        %sum: float64[n] = Add(%x, %mul)
        %add: float64[n] = Add(%sum, %kick)
        record %add

Ops speak ONNX (opset 17). A `Loop` says what modellers mean, which is more than ONNX's op:
its meaning is `mdf_loop.run.interpret`. `Loop` and `If` own bodies (`bodies`). What a body reads
from outside is captured; captures are computed (`captures`), never declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard

import numpy.typing as npt
from msgspec import Struct, field

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
"""The ONNX operator set that ops speak: it keeps MDF's opset-15 attributes and has float64 kernels.

What it does not have is said as in the first that has it (`mdf_loop.ops.opset`).
"""


def type_text(dtype: str, shape: Shape) -> str:
    """`float64[time, n]`; `float64[*]` for an unknown rank; `sequence(float64)` has no shape."""
    if "(" in dtype:
        return dtype
    return f"{dtype}[{'*' if shape is None else ', '.join(map(str, shape))}]"


class Value(Struct, frozen=True, eq=False):
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


class Constant(Struct, frozen=True, eq=False):
    """A value known when the program is read."""

    value: Value
    array: Array


class Op(Struct, frozen=True, eq=False):
    """One ONNX operation; an input that is None is an optional input left out."""

    op_type: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    where: str = ""


class Guard(Struct, frozen=True, eq=False):
    """A value, as long as a truth holds; where it does not and the value is read, the run fails.

        if not ok: raise RunError(sentence, where)
        made = value

    It is never computed where it would not have been, and not left out while its value is read.
    """

    value: Value
    ok: Value
    made: Value
    sentence: str
    where: str = ""


class Carried(Struct, frozen=True, eq=False):
    """A loop-carried value: `enter` is `initial` first, then the last iteration's `leave`.

    `name` is what the document calls the body output.
    """

    initial: Value
    enter: Value
    leave: Value
    final: Value
    name: str = ""

    @property
    def keeps_shape(self) -> bool:
        """Whether it has one shape in all iterations, by what the program says of the first one."""
        return self.enter.shape is not None and (
            self.enter.shape == self.initial.shape == self.leave.shape
        )


class Recorded(Struct, frozen=True, eq=False):
    """A scan output: the `row` of every iteration, stacked on a new axis 0.

    `name` is what the document calls the body output.
    """

    row: Value
    stack: Value
    name: str = ""


class Scanned(Struct, frozen=True, eq=False):
    """A scan input: in every iteration the body is given the next `row` of `rows`.

        row = np.take(rows, -1 - i if backward else i, axis)

    `rows` is an array with as many rows as there are iterations, or more. Which row it is does
    not depend on `Loop.first`: the first iteration is given the first one.
    """

    rows: Value
    row: Value
    axis: int = 0
    backward: bool = False


class Loop(Struct, frozen=True, eq=False):
    """A body run again and again.

        i, go = 0, condition
        while (trip_count is None or i < trip_count) and (condition is None or go):
            iteration = i if first is None else first + i
            go, leaves, rows = body(iteration, go, enters, scanned[i])
            i += 1                                     # all carried values change at once
        finals, stacks = leaves, np.stack(rows)

    Without a `condition` the body's own condition is ignored, as the ONNX document says
    (ONNX Runtime does not, the emitter sees to it). `bound` is the caller's cap on iterations
    of a loop without a trip count; with `dynamic_shapes` carried values may change their shape.
    `count` and `last_condition` exist only when asked for:
    iterations run (int64) and the last condition (bool). `first` is the number of the first
    iteration where that is not 0: how many were run before, in a loop that goes on.

    In a loop of `members`, which is the name of an axis, each stops for itself: conditions, carried
    values, the count and rows have that axis in front. There is a trip count for all, or none.

        going = condition
        while (trip_count is None or i < trip_count) and any(going):
            leaves, rows, go = body(iteration, going, enters, scanned[i])
            enters = np.where(going, leaves, enters)       # of those that have stopped they stay
            count += going
            going, i = going & go, i + 1

    What the body makes of a member that has stopped is not kept, and cannot fail: it is given what
    the first one is given that goes on. Its rows behind its count are those of nobody.

    Source: ONNX operators, Loop-13 and Scan-16.
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
    scanned: tuple[Scanned, ...] = ()
    first: Value | None = None
    bound: int | None = None
    dynamic_shapes: bool = False
    count: Value | None = None
    last_condition: Value | None = None
    members: str | None = None
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


class Branch(Struct, frozen=True, eq=False):
    """One body of an `If`: it is given nothing, what it reads it captures."""

    ops: tuple[Operation, ...]
    leaves: tuple[Value, ...]


class If(Struct, frozen=True, eq=False):
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


Operation: TypeAlias = Constant | Op | Guard | Loop | If


class Body(Struct, frozen=True, eq=False):
    """A scope inside an operation: the values that it is given, its operations, what it gives."""

    inputs: tuple[Value, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[Value, ...]


class Takes(Enum):
    """What an input of a program is."""

    PORT = "an open port of the model"
    SETTING = "a parameter that is set from outside"
    STATE = "what is held from one step to the next, before the first step"
    CONTROL = "how far, and how, a program runs"
    KEYS = "the keys of random numbers, one for each site"
    DATA = "what outputs are compared with, or weighted by"
    CHANGE = "how much a number changes with an output, or an input by itself"


class Input(Struct, frozen=True, eq=False):
    """A program input: the value, the ports it feeds (`node.port`), what it is when not given.

    `of` is whose it is: the name of a parameter or of a state.
    """

    value: Value
    ports: tuple[str, ...] = ()
    default: Data = None
    role: Takes = Takes.PORT
    of: str = ""


class Gives(Enum):
    """What an output of a program is."""

    RESULT = "what is asked for"
    HAS_RUN = "whether the node of a result has run"
    WATCHED = "what is only looked at for nan"
    EXECUTED = "which nodes ran"
    STATE = "what is held from one step to the next, after the last step"
    ITERATIONS = "how many iterations a loop ran"
    CONDITION = "the last condition of a loop"
    LENGTH = "how many rows of a result each member has"
    CHANGE = "how much a number changes with an input, or an output with inputs"


class Output(Struct, frozen=True):
    """A program output: its name, the value, what it is.

    `of` is whose it is: the name of a result, a state, a loop. Where a program computes many
    members at once, `members` is the axis of them; None: the value is the same for all.
    """

    name: str
    value: Value
    role: Gives = Gives.RESULT
    of: str = ""
    members: int | None = None


class Program(Struct, frozen=True, eq=False):
    """A whole model: inputs, operations in order, outputs; names are for people (`node.port`).

    `sites` are the calls that draw random numbers, in the order of their keys.
    """

    name: str
    inputs: tuple[Input, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[Output, ...]
    sites: tuple[str, ...] = ()

    def takes(self, role: Takes) -> dict[str, str]:
        """The names of inputs by whose they are."""
        return {entry.of: entry.value.name for entry in self.inputs if entry.role is role}

    def gives(self, role: Gives) -> dict[str, str]:
        """The names of outputs by whose they are."""
        return {output.of: output.name for output in self.outputs if output.role is role}

    def __str__(self) -> str:
        from mdf_loop.ir.text import print_program

        return print_program(self)
