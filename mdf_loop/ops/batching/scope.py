"""Scope in which operations are built for a batch of model runs, and helpers of batching rules.

A rule builds the outputs of an operation with a leading run axis. Some or all of its operands have this
axis. For most operators the rule only adds 1 to their axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Op, Shape, Value
from mdf_loop.ir.substitute import substitute
from mdf_loop.ir.types import is_tensor
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.build_helpers import ints, rank
from mdf_loop.ops.registry import qualified_name

if TYPE_CHECKING:
    from mdf_loop.build import Builder

UNBATCHED_HINT = "run the values one after the other"


class Operand(Struct, frozen=True):
    """Operand of a batched operation, with its value in one model run and its value in all runs.

    If `is_batched`, `value` has the run axis before the axes of `single_run_value`.
    """

    single_run_value: Value
    value: Value
    is_batched: bool

    @property
    def rank(self) -> int:
        """Number of axes of the operand in one model run."""
        return rank(self.single_run_value)


Operands: TypeAlias = Sequence["Operand | None"]


class BatchScope(Struct):
    """Scope in which a batching rule builds operations, with its builders and the run axis.

    `run_count` returns the number of runs as an array of one element. A reshaped or broadcast operand is built once, in
    the scope that defines the operand, so a loop body reads it from outside.
    """

    b: Builder
    root_builder: Builder
    run_axis: str
    run_count: Callable[[], Value]
    defining_builders: dict[Value, Builder] = field(default_factory=dict)
    adapted_values: dict[tuple[Value, tuple[object, ...]], Value] = field(default_factory=dict)

    def for_body(self, b: Builder) -> BatchScope:
        """Return the batching scope of a loop or branch body."""
        return replace(self, b=b)

    def constant(self, op: Op, operands: Operands, position: int) -> Array | None:
        """Return the constant array of an optional operand, or None if the operand is omitted.

        Raises:
            UnsupportedError: the operand is computed at run time.
        """
        x = optional_operand(operands, position)
        constant_array = self.b.constant_of(x.value) if x is not None else None
        if x is not None and constant_array is None:
            raise batching_error(
                op, f"its '{_input_name(op, position)}' must be known when it is compiled"
            )
        return constant_array

    def with_run_axis(self, x: Operand) -> Value:
        """Return an operand with the run axis, expanded if all model runs share the operand."""
        return (
            x.value
            if x.is_batched
            else self._expand_to_runs(x, (1,) * x.rank, x.single_run_value.shape)
        )

    def broadcast_to(self, x: Operand, shape: tuple[int, ...]) -> Value:
        """Return an operand with the run axis, broadcast to `shape` in each model run."""
        return self._expand_to_runs(x, shape, shape)

    def align_rank(self, x: Operand, rank: int) -> Value:
        """Return an operand with `rank` axes per model run, so that it broadcasts run by run."""
        if not x.is_batched or x.rank >= rank:
            return x.value
        axes = range(1, 1 + rank - x.rank)
        return self._build_once(x, ("aligned", rank), lambda b: _unsqueeze(b, x.value, axes))

    def shared_element(self, x: Operand, rank: int) -> Value:
        """Return a one-element operand that all model runs share, reshaped to `rank` axes per run."""
        axes = range(1 + rank - x.rank)
        return self._build_once(x, ("single", rank), lambda b: _unsqueeze(b, x.value, axes))

    def is_outside(self, x: Operand) -> bool:
        """Return True if an operand is defined outside of the current loop or branch body."""
        return self._find_defining_builder(x.value) is not self.b

    def _expand_to_runs(self, x: Operand, target_extents: tuple[int, ...], shape: Shape) -> Value:
        aligned_operand = self.align_rank(x, len(target_extents))

        def expand(b: Builder) -> Value:
            expanded_value = b.op(
                "Expand",
                aligned_operand,
                b.op("Concat", self.run_count(), ints(b, *target_extents), axis=0),
            )
            # ONNX cannot infer these names.
            shaped_value = replace(expanded_value, shape=(self.run_axis, *(shape or ())))
            b.ops[-1] = substitute(b.ops[-1], {expanded_value: shaped_value})
            return shaped_value

        return self._build_once(x, ("expanded", *target_extents), expand)

    def _build_once(
        self, x: Operand, variant: tuple[object, ...], build: Callable[[Builder], Value]
    ) -> Value:
        cache_key = (x.value, variant)
        if cache_key not in self.adapted_values:
            defining_builder = self._find_defining_builder(x.value)
            with defining_builder.at(defining_builder.where, x.value.name):
                self.adapted_values[cache_key] = build(defining_builder)
        return self.adapted_values[cache_key]

    def _find_defining_builder(self, value: Value) -> Builder:
        """Return the builder of the scope that defines a value.

        New constants belong to the root scope.
        """
        is_constant = self.b.constant_of(value) is not None
        return self.defining_builders.get(value, self.root_builder if is_constant else self.b)

    def append_copy(self, op: Op, *inputs: Value | None, **changes: Any) -> tuple[Value, ...]:
        """Append a copy of `op` with other operands and changed attributes."""
        attributes = {**op.attributes, **changes}
        return self.b.multi(op.op_type, *inputs, output_count=len(op.outputs), **attributes)


def _unsqueeze(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    return b.op("Unsqueeze", x, ints(b, *axes))


# --- operands and attributes ------------------------------------------------------------------


def required_operand(operands: Operands, position: int = 0) -> Operand:
    """Return the operand at a position of a batched operation, which must be present."""
    x = operands[position]
    assert x is not None
    return x


def optional_operand(operands: Operands, position: int) -> Operand | None:
    """Return the operand of a batched operation at a position, or None if it is omitted."""
    return operands[position] if position < len(operands) else None


def present_operands(operands: Operands) -> list[Operand]:
    """Return all operands that are not omitted."""
    return [x for x in operands if x is not None]


def operand_values(operands: Operands) -> list[Value | None]:
    """Return the values of all operands in all model runs, with None for each omitted operand."""
    return [None if x is None else x.value for x in operands]


def attribute(op: Op, name: str) -> Any:
    """Return the value of an operation's attribute, or ONNX's default, or None without a default."""
    return onnx_schema.attribute(op.op_type, op.attributes, name)


def shift_axis(axis: int) -> int:
    """Return an axis number of one model run as an axis number behind the run axis.

    A negative axis number stays unchanged.
    """
    return axis + 1 if axis >= 0 else axis


# --- refusals ---------------------------------------------------------------------------------


def batching_error(op: Op, reason: str) -> UnsupportedError:
    """Return the error for an operation that cannot be computed for a batch of model runs."""
    message = f"{qualified_name(op.op_type)} cannot be computed for many values at once"
    return UnsupportedError(f"{message}: {reason}", op.where, UNBATCHED_HINT)


def refuse_other_batched(op: Op, operands: Operands, *positions: int) -> None:
    """Raise UnsupportedError if an operand at a position outside `positions` differs between model runs."""
    for position, x in enumerate(operands):
        if x is not None and x.is_batched and position not in positions:
            raise batching_error(op, f"each of them has its own '{_input_name(op, position)}'")


def _input_name(op: Op, position: int) -> str:
    schema_inputs = onnx_schema.schema_of(op).inputs
    return str(schema_inputs[min(position, len(schema_inputs) - 1)].name)


def require_known_rank(value: Value) -> None:
    """Raise an error unless a value of a batch of model runs is a tensor of known rank."""
    if not is_tensor(value.dtype):
        raise UnsupportedError(
            f"'{value.name}' is {value.type} and depends on what is swept: sequences cannot be "
            "computed for many values at once",
            hint=UNBATCHED_HINT,
        )
    rank(value)
