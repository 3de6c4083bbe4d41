"""Loop IR: the computation of a model as immutable, printable data.

    program(%steps: int64[], %x0: float64[n], %drive: float64[n], %kicks: float64[time, n])
      %gain: float64[] = 0.5
      %mul: float64[n] = Mul(%drive, %gain)
      loop %i < %steps
        carry %x: float64[n] from %x0 to %add
        scan %kick: float64[n] of %kicks axis 0
        %sum: float64[n] = Add(%x, %mul)
        %add: float64[n] = Add(%sum, %kick)
        record %add

Operations are ONNX operators (opset 17). A `Loop` has more features than ONNX's Loop. The
interpreter `mdf_loop.run.interpret` defines its semantics. `Loop` and `If` own bodies (`bodies`).
An outer value that a body reads is captured. The function `captures` computes the captures of an
operation, which does not declare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard

import numpy.typing as npt
from msgspec import Struct, field

from mdf_loop.stopped_by import StopReason as StopReason  # IR users import it from here

Array: TypeAlias = npt.NDArray[Any]
Data: TypeAlias = Any
"""Run-time content of a value: array, list of arrays (sequence) or None (absent optional value)."""

Shape: TypeAlias = tuple[int | str, ...] | None
"""Extents, outermost axis first. A name is an extent known only at run time. None: unknown rank."""


def is_fixed(shape: Shape) -> TypeGuard[tuple[int, ...]]:
    """Return True if the rank and all extents of a shape are known at compile time."""
    return shape is not None and all(isinstance(extent, int) for extent in shape)


OPSET = 17
"""Base ONNX opset of all operations, which has MDF's opset-15 attributes and float64 kernels.

Newer operators have the form of the first operator set that defines them (`mdf_loop.ops.opset`).
"""


def type_text(dtype: str, shape: Shape) -> str:
    """Return a dtype and shape as text, such as `float64[time, n]`, or `float64[*]` for an unknown rank.

    Only tensors have a shape.
    """
    if "(" in dtype:
        return dtype
    return f"{dtype}[{'*' if shape is None else ', '.join(map(str, shape))}]"


class Value(Struct, frozen=True, eq=False):
    """Typed variable of a program: a unique name, a dtype, a shape and a path in the MDF document.

    A dtype like `float64` means a tensor. `mdf_loop.ir.types` lists the dtypes of other values.
    """

    name: str
    dtype: str
    shape: Shape
    where: str = ""

    @property
    def type(self) -> str:
        """Type as text, e.g. `float64[time, n]`."""
        return type_text(self.dtype, self.shape)

    def __str__(self) -> str:
        return f"%{self.name}: {self.type}"


class Constant(Struct, frozen=True, eq=False):
    """Definition of a value that is known when the model is compiled."""

    value: Value
    array: Array


class Op(Struct, frozen=True, eq=False):
    """ONNX operation.

    An input that is None is an omitted optional input.
    """

    op_type: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    where: str = ""


class Guard(Struct, frozen=True, eq=False):
    """Run-time assertion: a copy of a value, valid only if a condition holds.

        if not condition: raise RunError(message, where)
        output = value

    A guard does not cause the value to be computed more often. A guard is never removed while its
    output is read.
    """

    value: Value
    condition: Value
    output: Value
    message: str
    where: str = ""


class Carried(Struct, frozen=True, eq=False):
    """Loop-carried value, which each iteration reads as `body_input` and computes as `body_output`.

    `body_input` is `initial` in the first iteration, then the `body_output` of the previous iteration.

    `final` is the value after the loop. `name` is the name of the body output in the document.
    """

    initial: Value
    body_input: Value
    body_output: Value
    final: Value
    name: str = ""

    @property
    def keeps_shape(self) -> bool:
        """True if the initial value, `body_input` and `body_output` have the same known shape."""
        return self.body_input.shape is not None and (
            self.body_input.shape == self.initial.shape == self.body_output.shape
        )


class Recorded(Struct, frozen=True, eq=False):
    """Scan output: the values of `row` in all iterations, stacked along a new axis 0.

    `name` is the name of the body output in the document.
    """

    row: Value
    stack: Value
    name: str = ""


class Scanned(Struct, frozen=True, eq=False):
    """Scan input: an array `rows`, of which each iteration reads the next `row`.

        row = np.take(rows, -1 - i if is_backward else i, axis)

    `rows` is an array with at least as many rows as there are iterations. The row does not depend
    on `Loop.first_iteration`: the first iteration reads row 0.
    """

    rows: Value
    row: Value
    axis: int = 0
    is_backward: bool = False


class Loop(Struct, frozen=True, eq=False):
    """Loop whose body runs once per iteration, with carried, scanned and recorded values.

        i, go, body_inputs = 0, condition, initials
        while (trip_count is None or i < trip_count) and (condition is None or go):
            iteration = i if first_iteration is None else first_iteration + i
            go, body_inputs, rows = body(iteration, go, body_inputs, scanned[i])
            i += 1                                     # all carried values change at once
        finals, stacks = body_inputs, np.stack(rows)

    Without a `condition` the body's own condition is ignored, as the ONNX document says (ONNX
    Runtime evaluates it, so the emitter writes a constant one). `max_iterations` is the caller's
    limit on the iterations of a loop without a trip count. With `has_dynamic_shapes`, carried values
    may change their shape. `iteration_count` (number of iterations, int64) and `last_condition`
    (bool) exist only on request. In a continued loop, `first_iteration` is the number of iterations
    of earlier runs, which is the number of the first iteration. None means 0.

    In a batched loop, `member_axis` is the name of the member axis, and each member stops by its own
    condition. Conditions, carried values, the count and the rows have that axis in front. The trip
    count is the same for all members, or absent.

        going = condition
        while (trip_count is None or i < trip_count) and any(going):
            body_outputs, rows, go = body(iteration, going, body_inputs, scanned[i])
            body_inputs = np.where(going, body_outputs, body_inputs)  # stopped members keep their values
            iteration_count += going
            going, i = going & go, i + 1

    The results of the body for a stopped member are discarded and cannot fail, because such a
    member reads the values of the first running member. The rows of a member after its count are
    undefined.

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
    first_iteration: Value | None = None
    max_iterations: int | None = None
    has_dynamic_shapes: bool = False
    iteration_count: Value | None = None
    last_condition: Value | None = None
    member_axis: str | None = None
    where: str = ""

    @property
    def kind(self) -> str:
        """Operating mode: `for`, `while`, `for-while` or `endless`."""
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
    """Operations and outputs of one branch of an `If` operation.

    A branch has no inputs, and captures outer values.
    """

    ops: tuple[Operation, ...]
    outputs: tuple[Value, ...]


class If(Struct, frozen=True, eq=False):
    """Conditional operation that executes one of two branches, selected by a bool at run time.

        outputs = then() if condition else otherwise()

    An output of a branch may be a value from outside the branch. If the outputs of the two branches
    differ in shape, the output of the operation has the common part of both shapes.

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
    """Scope inside a loop or conditional: inputs, operations and outputs."""

    inputs: tuple[Value, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[Value, ...]


class InputRole(Enum):
    """Purpose of a program input."""

    PORT = "an open port of the model"
    SETTING = "a parameter that is set from outside"
    STATE = "a state before the first step"
    CONTROL = "a run control, e.g. the number of steps"
    KEYS = "the keys of random numbers, one for each site"
    DATA = "targets or weights of a loss"
    DERIVATIVE = "a cotangent of an output, or a tangent of an input"


class Input(Struct, frozen=True, eq=False):
    """Input of a program, with the ports (`node.port`) that read the input and a default value.

    `owner_name` is the name of the parameter or state that the input belongs to.
    """

    value: Value
    ports: tuple[str, ...] = ()
    default: Data = None
    role: InputRole = InputRole.PORT
    owner_name: str = ""


class OutputRole(Enum):
    """Purpose of a program output."""

    RESULT = "a requested result"
    HAS_RUN = "True if the node of a result has run"
    WATCHED = "a value that is only checked for nan"
    EXECUTED = "the nodes that ran"
    STATE = "a state after the last step"
    ITERATIONS = "the number of iterations of a loop"
    CONDITION = "the last condition of a loop"
    LENGTH = "the number of rows of a result for each member"
    DERIVATIVE = "a cotangent of an input, or a tangent of an output"


class Output(Struct, frozen=True):
    """Program output: name, value and purpose.

    `owner_name` is the name of the result, state or loop that the output belongs to. In a batched program,
    `member_axis` is the position of the member axis. None means that the value is the same for all
    members.
    """

    name: str
    value: Value
    role: OutputRole = OutputRole.RESULT
    owner_name: str = ""
    member_axis: int | None = None


class Program(Struct, frozen=True, eq=False):
    """Compiled model: inputs, operations in order, and outputs.

    The names of values are readable (`node.port`). `sites` are the calls that draw random numbers, in
    the order of their keys.
    """

    name: str
    inputs: tuple[Input, ...]
    ops: tuple[Operation, ...]
    outputs: tuple[Output, ...]
    sites: tuple[str, ...] = ()

    def input_names(self, role: InputRole) -> dict[str, str]:
        """Map each parameter or state to the name of its program input with the given role."""
        return {
            program_input.owner_name: program_input.value.name
            for program_input in self.inputs
            if program_input.role is role
        }

    def output_names(self, role: OutputRole) -> dict[str, str]:
        """Map each result, state or loop to the name of its program output with the given role."""
        return {output.owner_name: output.name for output in self.outputs if output.role is role}

    def __str__(self) -> str:
        from mdf_loop.ir.text import print_program

        return print_program(self)
