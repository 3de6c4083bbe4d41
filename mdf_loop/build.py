"""Builder of programs, which infers the dtype, shape and (if constant) value of each operation.

Operations on constants are folded at compile time if every runtime computes the same bits. Other
operations on constants stay in the program, and the run computes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.array_digest import array_digest
from mdf_loop.errors import LoopError
from mdf_loop.ir import (
    Array,
    Constant,
    Guard,
    If,
    Loop,
    Op,
    Operation,
    Program,
    Shape,
    Value,
    bodies,
    results,
    walk,
)
from mdf_loop.ir.types import dtype_name, is_tensor
from mdf_loop.ops import onnx_schema, row_of
from mdf_loop.ops.inference import infer
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.registry import is_exact

_PoolKey: TypeAlias = tuple[str, tuple[int, ...], bytes]

_Owner = TypeVar("_Owner", bound=Guard | Loop | If)

FOLD_LIMIT = 1 << 16
"""Largest number of elements of constants that are folded at compile time."""


_ConstantLabels: TypeAlias = tuple[str, ...]
"""Labels of a constant besides its array. Equal arrays with different labels are different constants."""


class ProgramState(Struct):
    """State that all builders of one program share, such as its constants and used names.

    Attributes:
        names: Names of all values and symbolic extents.
        next_suffixes: Least number that may be unused as a suffix of a name, by name.
        constants: Array of each constant.
        constant_by_key: Constant of each array, by a key of its content.
        adopted_constants: Constants of the old program whose keys are not computed yet, by dtype and shape.
        producers: Operation that defines each value.
    """

    used_names: set[str] = field(default_factory=set)
    next_suffixes: dict[str, int] = field(default_factory=dict)
    constants: dict[Value, Array] = field(default_factory=dict)
    constant_by_key: dict[tuple[_PoolKey, _ConstantLabels], Value] = field(default_factory=dict)
    adopted_constants: dict[tuple[str, tuple[int, ...]], list[Constant]] = field(
        default_factory=dict
    )
    producers: dict[Value, Op | Guard] = field(default_factory=dict)


class PlaceContext:
    """Context manager that sets the MDF path and the name of operations that a builder appends.

    The context is no generator, because each operation enters one, and a class is faster.
    """

    __slots__ = ("_builder", "_inside", "_outside")

    def __init__(self, builder: Builder, where: str, label: str) -> None:
        self._builder = builder
        self._inside = where, label

    def __enter__(self) -> None:
        builder = self._builder
        self._outside = builder.where, builder.label
        builder.where, builder.label = self._inside

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._builder.where, self._builder.label = self._outside
        if isinstance(error, LoopError):
            raise add_place(error, self._inside[0]) from None


class Builder:
    """Builder that appends operations to a program, or to the body of a loop or branch.

    A builder knows the arrays of constants (`constant_of`). `lower.builder.ModelBuilder` is the subclass
    for reading models, which records more about each constant.

    Attributes:
        parent: Builder of the enclosing scope, or None.
        ops: Operations of this scope.
        where: Place in the model of new operations.
        label: Name of new values.
    """

    def __init__(self, parent: Builder | None = None) -> None:
        self._shared: ProgramState = ProgramState() if parent is None else parent._shared
        self.parent = parent
        self.ops: list[Operation] = []
        self.where: str = parent.where if parent else "$"
        self.label: str = parent.label if parent else ""

    @classmethod
    def for_rewrite_of(cls, program: Program) -> Builder:
        """Return an empty builder whose new values avoid the names in a program.

        The builder is for a changed version of the program.
        """
        b = cls()
        program_values = [program_input.value for program_input in program.inputs]
        for operation in walk(program.ops):
            program_values += results(operation)
            program_values += [value for body in bodies(operation) for value in body.inputs]
        used_names = b._shared.used_names
        used_names.update(value.name for value in program_values)
        used_names.update(
            extent
            for value in program_values
            for extent in value.shape or ()
            if isinstance(extent, str)
        )
        return b

    @classmethod
    def appending_to(cls, program: Program) -> Builder:
        """Return a builder that starts with the operations of a program."""
        b = cls.for_rewrite_of(program)
        for operation in program.ops:
            if isinstance(operation, Constant):
                b.adopt(operation)
            else:
                b.ops.append(operation)
        return b

    # --- context -------------------------------------------------------------------------------

    @property
    def producers(self) -> Mapping[Value, Op | Guard]:
        """Operation that defines each value, except for results of loops and conditionals."""
        return self._shared.producers

    def body(self) -> Self:
        """Return a builder for the body of a loop or branch inside this program or body."""
        return type(self)(parent=self)

    def at(self, where: str, label: str = "") -> PlaceContext:
        """Return a context in which new operations have an MDF path and a name.

        Args:
            where: MDF path, which errors show.
            label: Name of the values of the operations.
        """
        return PlaceContext(self, where, label or self.label)

    # --- values --------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """Return an unused name for a value: `stem`, or `stem` followed by a number."""
        used_names, next_suffixes = self._shared.used_names, self._shared.next_suffixes
        suffix = next_suffixes.get(stem, 1)
        while (name := stem if suffix == 1 else f"{stem}_{suffix}") in used_names:
            suffix += 1
        next_suffixes[stem] = suffix
        used_names.add(name)
        return name

    def release(self, values: Iterable[Value]) -> None:
        """Release the names of discarded values, so that new values can use the names."""
        discarded_names = {value.name for value in values}
        if discarded_names:
            self._shared.used_names -= discarded_names
            self._shared.next_suffixes.clear()

    def discard(self, ops: Iterable[Operation]) -> None:
        """Release the names of all values that discarded operations define, also in their bodies."""
        for operation in walk(ops):
            self.release(results(operation))
            for body in bodies(operation):
                self.release(body.inputs)

    def new(self, dtype: str, shape: Shape, name: str = "") -> Value:
        """Return a new value with an unused name, such as an input of a loop body."""
        return Value(self.name(name or self.label or "value"), dtype, shape, self.where)

    def constant(self, array: Any, *, name: str = "") -> Value:
        """Return the constant with this array, appended to the program unless an equal one exists."""
        return self._pooled(array, name)

    def _pooled(self, array: Any, name: str = "", labels: _ConstantLabels = ()) -> Value:
        """Return the program's constant for an array and its labels, after adding it if missing."""
        array = np.asarray(array)
        root_builder = self
        while root_builder.parent is not None:
            root_builder = root_builder.parent
        pool_key = (_pool_key(array), labels)
        self._pool_adopted(array)
        if pool_key not in self._shared.constant_by_key:
            stem = name or (self.label if array.size > 1 else "") or "const"
            value = Value(self.name(stem), dtype_name(array), array.shape, self.where)
            self._shared.constant_by_key[pool_key] = value
            self._shared.constants[value] = array
            root_builder.ops.append(Constant(value, array))
        return self._shared.constant_by_key[pool_key]

    def derived_constant(self, array: Array, sources: Iterable[Value | None]) -> Value:
        """Append an array computed from constants, and return the new constant."""
        return self.constant(array)

    def adopt(self, constant: Constant) -> None:
        """Append a constant of the program that this builder rewrites.

        Later constants with an equal array reuse its value.
        """
        self._shared.constants[constant.value] = constant.array
        if self.parent is None:
            self._shared.adopted_constants.setdefault(_dtype_and_shape(constant.array), []).append(
                constant
            )
        self.ops.append(constant)

    def _pool_adopted(self, array: Array) -> None:
        """Let later constants reuse the old program's constants of this array's dtype and shape.

        The keys of adopted constants are computed only when needed, because the constants may be large.
        """
        for constant in self._shared.adopted_constants.pop(_dtype_and_shape(array), ()):
            self._shared.constant_by_key.setdefault((_pool_key(constant.array), ()), constant.value)

    def constant_of(self, value: Value | None) -> Array | None:
        """Return the array of a constant, or None for other values."""
        return None if value is None else self._shared.constants.get(value)

    def evaluated(self, value: Value | None) -> Array | None:
        """Return the array of a value computed from constants only, or None for other values.

        NumPy computes the array.

        The run may compute other last bits. Use this method for values that must be known at compile
        time, such as an axis, and `constant_of` for all other values.
        """
        return None if value is None else self._evaluate_cached(value, {})

    def _evaluate_cached(self, value: Value, results: dict[Value, Array | None]) -> Array | None:
        """Return the array of a value that depends only on constants, or None for other values.

        `results` caches the computed arrays.
        """
        known_array = self.constant_of(value)
        if known_array is not None or value in results:
            return results.get(value) if known_array is None else known_array
        results[value] = None
        op = self.producers.get(value)
        if not isinstance(op, Op):
            return None
        operand_arrays = [
            None if operand is None else self._evaluate_cached(operand, results)
            for operand in op.inputs
        ]
        results.update(zip(op.outputs, _compute_operation(op, operand_arrays) or (), strict=False))
        return results[value]

    def computed(self, op: Op) -> tuple[Value, ...] | None:
        """Return the results of an operation on constants as constants, or None if impossible.

        NumPy computes the results.
        """
        arrays = _compute_operation(op, [self.constant_of(value) for value in op.inputs])
        return (
            None
            if arrays is None
            else tuple(self.derived_constant(array, op.inputs) for array in arrays)
        )

    # --- operations ----------------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Append an operation with one output, and return the output."""
        return self.multi(op_type, *inputs, output_count=1, **attributes)[0]

    def multi(
        self, op_type: str, *inputs: Value | None, output_count: int, **attributes: Any
    ) -> tuple[Value, ...]:
        """Append an operation with several outputs, and return the outputs.

        Raises:
            OperandError: The operator does not support these dtypes, shapes or attributes.
        """
        onnx_schema.refuse_wrong_kinds(op_type, inputs)
        known_operands = [self.constant_of(value) for value in inputs]
        input_types = [
            None if operand is None else (operand.dtype, operand.shape) for operand in inputs
        ]
        output_types = infer(
            op_type, input_types, attributes, self.small_constants(inputs), output_count
        )
        if is_exact(op_type, known_operands, output_types):
            arrays = _compute_results(op_type, inputs, known_operands, attributes, output_types)
            if arrays is not None:
                return tuple(self.derived_constant(array, inputs) for array in arrays)
        return self._append_op(op_type, inputs, attributes, output_types)

    def _append_op(
        self,
        op_type: str,
        inputs: tuple[Value | None, ...],
        attributes: Mapping[str, Any],
        output_types: Sequence[tuple[str, Shape]],
    ) -> tuple[Value, ...]:
        """Append an operation, also if its operands are constants, and return its outputs."""
        name_stem = f"{self.label}:{op_type}" if self.label else op_type
        outputs = tuple(
            Value(self.name(name_stem), dtype, self._name_unknown_extents(shape), self.where)
            for dtype, shape in output_types
        )
        op = Op(op_type, inputs, outputs, MappingProxyType(attributes), self.where)
        self.ops.append(op)
        self._shared.producers.update(dict.fromkeys(outputs, op))
        return outputs

    def small_constants(self, inputs: Iterable[Value | None]) -> dict[int, Array]:
        """Return the arrays of small numeric constant operands, by index, for type inference."""
        known_operands = ((k, self.constant_of(value)) for k, value in enumerate(inputs))
        return {
            k: array
            for k, array in known_operands
            if array is not None and array.size <= FOLD_LIMIT and array.dtype.kind not in "OU"
        }

    def guard(self, value: Value, ok: Value, sentence: str) -> Value:
        """Return the value, guarded by a run-time check of the condition `ok`.

        A run that reads the guarded value raises an error if the scalar bool `ok` is false.

        Args:
            value: The value to guard.
            ok: The condition that must be true.
            sentence: The message of the error.
        """
        known_condition = self.constant_of(ok)
        if known_condition is not None and known_condition.all():
            return value
        guarded_value = Value(self.name("guard"), value.dtype, value.shape, self.where)
        guard = Guard(value, ok, guarded_value, sentence, self.where)
        self.ops.append(guard)
        self._shared.producers[guarded_value] = guard
        return guarded_value

    def append(self, operation: _Owner) -> _Owner:
        """Append an existing operation to the program or body."""
        self.ops.append(operation)
        return operation

    def _name_unknown_extents(self, shape: Shape) -> Shape:
        """Return a shape in which each unknown extent is replaced by an unused dimension name."""
        if shape is None:
            return None
        return tuple(self.name("d") if str(extent).startswith("?") else extent for extent in shape)


def _compute_operation(op: Op, operands: Sequence[Array | None]) -> list[Array] | None:
    """Return the result arrays of an operation on constant operands, or None."""
    result_types = [(value.dtype, value.shape) for value in op.outputs]
    return _compute_results(op.op_type, op.inputs, operands, op.attributes, result_types)


def _compute_results(
    op_type: str,
    inputs: Sequence[Value | None],
    operands: Sequence[Array | None],
    attributes: Mapping[str, Any],
    types: Sequence[tuple[str, Shape]],
) -> list[Array] | None:
    """Return the results of an operator on constants, computed by NumPy, or None if impossible.

    The operation is not computed if it fails, is random, or has unknown operands. It must not read or
    return large arrays or objects other than tensors.
    """
    if any(
        operand is not None and array is None
        for operand, array in zip(inputs, operands, strict=True)
    ):
        return None
    element_counts = [
        math.prod(extent for extent in shape or () if isinstance(extent, int))
        if is_tensor(dtype)
        else FOLD_LIMIT + 1
        for dtype, shape in types
    ]
    element_counts.append(sum(array.size for array in operands if array is not None))
    if row_of(op_type).is_random or max(element_counts) > FOLD_LIMIT:
        return None
    try:
        arrays = evaluate(op_type, operands, attributes, len(types))
    except Exception:  # noqa: BLE001 - NumPy and ONNX's reference raise any class; the run reports it
        return None
    return arrays if sum(array.size for array in arrays) <= FOLD_LIMIT else None


def _dtype_and_shape(array: Array) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and the shape of an array."""
    return dtype_name(array), array.shape


def _pool_key(array: Array) -> _PoolKey:
    """Return a dictionary key of an array, equal for arrays with the same dtype, shape and bits."""
    dtype, shape = _dtype_and_shape(array)
    return dtype, shape, repr(array.tolist()).encode() if dtype == "string" else array_digest(array)


def add_place(error: LoopError, where: str) -> LoopError:
    """Set the MDF path of those findings of an error that have none, and return the error."""
    error.findings = tuple(
        finding if finding.where else replace(finding, where=where) for finding in error.findings
    )
    return error
