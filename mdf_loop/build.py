"""Builder: append operations, knowing dtype, shape and (where possible) the value of each.

Operations on constants are computed at once, so what a model fixes is fixed in its program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from mdf_loop import onnx_ops
from mdf_loop.bits import bits
from mdf_loop.elementwise import same_bits
from mdf_loop.errors import Finding, Findings, LoopError
from mdf_loop.ir import (
    Array,
    Constant,
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
from mdf_loop.onnx_types import dtype_name, is_tensor
from mdf_loop.randomness import RANDOM_OPS

_PoolKey: TypeAlias = tuple[str, tuple[int, ...], bytes, bool, bool, bool]

_Owner = TypeVar("_Owner", bound=Loop | If)

FOLD_LIMIT = 1 << 16
"""Constants of more elements than this are not multiplied out at compile time."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller decides about a compilation."""

    precision: str = "float64"
    shapes: str = "strict"
    max_iterations: int | None = None
    unroll: int | None = None


@dataclass(slots=True)
class _Shared:
    """What all builders of one program share."""

    options: Options
    names: set[str] = field(default_factory=set)
    constants: dict[Value, Array] = field(default_factory=dict)
    pool: dict[_PoolKey, Value] = field(default_factory=dict)
    adopted: dict[tuple[str, tuple[int, ...]], list[Constant]] = field(default_factory=dict)
    weak: set[Value] = field(default_factory=set)
    late: set[Value] = field(default_factory=set)
    measured: set[Value] = field(default_factory=set)
    asked: dict[Value, str] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    stand_for: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    makers: dict[Value, Op] = field(default_factory=dict)
    stated: dict[Value, Shape] = field(default_factory=dict)
    notes: dict[Finding, None] = field(default_factory=dict)


class Builder:
    """Appends operations to one scope: the program's, or that of one body.

    A builder remembers which values are constants (`constant_of`) and which are *weak*: plain
    numbers of the document, which take the dtype of what they are combined with, as Python's
    numbers do in numpy. `read` is whether Python would read the part of an expression that is
    lowered now (None: always): elsewhere it must not fail.
    """

    def __init__(self, options: Options | None = None, parent: Builder | None = None) -> None:
        if parent is None:
            self._shared = _Shared(options or Options())
        else:
            self._shared = parent._shared
        self.parent = parent
        self.ops: list[Operation] = []
        self.where: str = parent.where if parent else "$"
        self.label: str = parent.label if parent else ""
        self.read: Value | None = parent.read if parent else None

    @classmethod
    def resume(cls, program: Program, options: Options | None = None) -> Builder:
        """An empty builder for a changed program: no name of the old one is given again."""
        b = cls(options)
        values = [entry.value for entry in program.inputs]
        for operation in walk(program.ops):
            values += results(operation)
            values += [value for body in bodies(operation) for value in body.inputs]
        names = b._shared.names
        names.update(value.name for value in values)
        names.update(d for value in values for d in value.shape or () if isinstance(d, str))
        return b

    # --- context -------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        """The caller's decisions."""
        return self._shared.options

    @property
    def findings(self) -> Findings:
        """Where errors of this program are collected."""
        return self._shared.findings

    @property
    def stand_for(self) -> dict[Value, tuple[Value, ...]]:
        """Values that were spread to another shape: made -> of what (see `reading.widened`)."""
        return self._shared.stand_for

    @property
    def makers(self) -> Mapping[Value, Op]:
        """The operation that makes a value; not of those that loops and choices give."""
        return self._shared.makers

    @property
    def stated(self) -> dict[Value, Shape]:
        """The shapes of inputs as the model states them, whatever the run is given."""
        return self._shared.stated

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What a modeller should know of how the model was read; nothing is wrong with it."""
        return tuple(self._shared.notes)

    def note(self, what: str, where: str) -> None:
        """Say something that a modeller should know; said twice, it is one note."""
        self._shared.notes[Finding("Note", what, where)] = None

    @property
    def types(self) -> dict[str, Any]:
        """What each place of the model became: MDF path -> value, or tuple of values."""
        return self._shared.types

    @property
    def float_dtype(self) -> str:
        """The dtype of numbers with a point."""
        return self.options.precision

    def body(self) -> Builder:
        """A builder for a body inside this scope: a loop's, or a branch of a choice."""
        return Builder(parent=self)

    @contextmanager
    def at(self, where: str, label: str = "") -> Iterator[None]:
        """What is built inside comes from this place of the model.

        `where` is the MDF path that errors show, `label` what the values are called.
        """
        old = self.where, self.label
        self.where, self.label = where, label or self.label
        try:
            yield
        except LoopError as error:
            raise located(error, where) from None
        finally:
            self.where, self.label = old

    # --- values --------------------------------------------------------------------------------

    def name(self, wanted: str) -> str:
        """A label nobody has yet, as near to `wanted` as can be."""
        name, k = wanted, 1
        while name in self._shared.names:
            k += 1
            name = f"{wanted}_{k}"
        self._shared.names.add(name)
        return name

    def release(self, values: Iterable[Value]) -> None:
        """Give up values that stand in no program: their names can be given again."""
        self._shared.names.difference_update(value.name for value in values)

    def discard(self, ops: Iterable[Operation]) -> None:
        """Give up operations that stand in no program, with all that is made in their bodies."""
        for operation in walk(ops):
            self.release(results(operation))
            for body in bodies(operation):
                self.release(body.inputs)

    def new(self, dtype: str, shape: Shape, name: str = "") -> Value:
        """A value that is made elsewhere (an input, a loop's result)."""
        return Value(self.name(name or self.label or "value"), dtype, shape, self.where)

    def constant(
        self,
        array: Any,
        *,
        weak: bool = False,
        late: bool = False,
        measured: bool = False,
        name: str = "",
    ) -> Value:
        """A constant of the whole program; equal constants are one value."""
        array = np.asarray(array)
        root = self
        while root.parent is not None:
            root = root.parent
        key = (*_pool_key(array, weak=weak), late, measured)
        self._pool_adopted(array)
        if key not in self._shared.pool:
            label = name or (self.label if array.size > 1 else "") or "const"
            value = Value(self.name(label), key[0], array.shape, self.where)
            self._shared.pool[key] = value
            self._shared.constants[value] = array
            if weak:
                self._shared.weak.add(value)
            if late:
                self._shared.late.add(value)
            if measured:
                self._shared.measured.add(value)
            root.ops.append(Constant(value, array))
        return self._shared.pool[key]

    def late(self, array: Array) -> Value:
        """A constant that would not be known but for a loop that is written out.

        What is calculated of it now must have the bits that it would have at run time.
        """
        return self.constant(array, late=True)

    def measured(self, value: Value, extents: Array) -> Value:
        """What a model asks of the shape of a value, which is known as programs have fixed ones."""
        self._shared.asked[value] = self.where
        return self.constant(extents, measured=True)

    def is_measured(self, value: Value) -> bool:
        """Whether a constant is known only because the shapes of inputs are."""
        return value in self._shared.measured

    @property
    def asked(self) -> Mapping[Value, str]:
        """The values whose shapes a model asks for, and where."""
        return self._shared.asked

    def is_late(self, value: Value) -> bool:
        """Whether the value is known only because a loop is written out."""
        return value in self._shared.late

    def chosen(self, by: Value, value: Value) -> Value:
        """A value that was chosen by one known now: known as late as that."""
        known = self.constant_of(value)
        if known is None or not self.is_late(by):
            return value
        return self.constant(
            known, weak=self.is_weak(value), late=True, measured=self.is_measured(value)
        )

    def adopt(self, constant: Constant) -> None:
        """Append a constant of the old program; equal new constants are that one."""
        self._shared.constants[constant.value] = constant.array
        if self.parent is None:
            self._shared.adopted.setdefault(_kind(constant.array), []).append(constant)
        self.ops.append(constant)

    def _pool_adopted(self, array: Array) -> None:
        """Look at the bits of adopted constants, which may be large, that can equal an array."""
        for constant in self._shared.adopted.pop(_kind(array), ()):
            key = (*_pool_key(constant.array, weak=False), False, False)
            self._shared.pool.setdefault(key, constant.value)

    def constant_of(self, value: Value | None) -> Array | None:
        """The array, if the value is known now."""
        return None if value is None else self._shared.constants.get(value)

    def is_weak(self, value: Value) -> bool:
        """Whether the value is a plain number of the document."""
        return value in self._shared.weak

    def mark_weak(self, value: Value) -> Value:
        """Say that a value behaves like a plain Python number."""
        known = self.constant_of(value)
        if known is not None and self.is_late(value):
            return self.constant(known, weak=True, late=True, measured=self.is_measured(value))
        self._shared.weak.add(value)
        return value

    # --- operations ----------------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Append an operation with one output and give that output."""
        return self.multi(op_type, *inputs, n_outputs=1, **attributes)[0]

    def multi(
        self, op_type: str, *inputs: Value | None, n_outputs: int, **attributes: Any
    ) -> tuple[Value, ...]:
        """Append an operation with several outputs.

        Raises:
            OperandError: the operator cannot take these values.
        """
        onnx_ops.refuse_wrong_kinds(op_type, inputs)
        known = [self.constant_of(value) for value in inputs]
        entries = [None if v is None else (v.dtype, v.shape) for v in inputs]
        types = onnx_ops.infer(op_type, entries, attributes, self.small(inputs), n_outputs)
        tensors = all(is_tensor(dtype) for dtype, _ in types)
        folded = self._fold(op_type, inputs, known, attributes, types) if tensors else None
        if folded is not None:
            return folded
        base = f"{self.label}:{op_type}" if self.label else op_type
        outputs = tuple(
            Value(self.name(base), dtype, self._fresh(shape), self.where) for dtype, shape in types
        )
        op = Op(op_type, inputs, outputs, MappingProxyType(attributes), self.where)
        self.ops.append(op)
        self._shared.makers.update(dict.fromkeys(outputs, op))
        return outputs

    def small(self, inputs: Iterable[Value | None]) -> dict[int, Array]:
        """The known operands by position, of which types may depend."""
        known = ((k, self.constant_of(value)) for k, value in enumerate(inputs))
        return {
            k: a
            for k, a in known
            if a is not None and a.size <= FOLD_LIMIT and a.dtype.kind not in "OU"
        }

    def append(self, operation: _Owner) -> _Owner:
        """Append a loop or a choice that was put together elsewhere."""
        self.ops.append(operation)
        return operation

    def _fresh(self, shape: Shape) -> Shape:
        """Give unknown extents names of their own."""
        if shape is None:
            return None
        return tuple(self.name("d") if str(dim).startswith("?") else dim for dim in shape)

    def _fold(
        self,
        op_type: str,
        inputs: tuple[Value | None, ...],
        known: list[Array | None],
        attributes: dict[str, Any],
        types: Sequence[tuple[str, Shape]],
    ) -> tuple[Value, ...] | None:
        missing = any(v is not None and a is None for v, a in zip(inputs, known, strict=True))
        large = sum(a.size for a in known if a is not None) > FOLD_LIMIT
        shapes = [
            [extent for extent in shape or () if isinstance(extent, int)] for _, shape in types
        ]
        large |= any(math.prod(shape) > FOLD_LIMIT for shape in shapes)
        if missing or large or op_type in RANDOM_OPS:
            return None
        late = any(value in self._shared.late for value in inputs)
        measured = any(value in self._shared.measured for value in inputs)
        if (late or measured) and not same_bits(op_type, [a for a in known if a is not None]):
            return None
        try:
            arrays = onnx_ops.evaluate(op_type, known, attributes, len(types))
        except Exception:  # noqa: BLE001 - what fails now is left to the run
            return None
        if sum(a.size for a in arrays) > FOLD_LIMIT:
            return None
        return tuple(self.constant(array, late=late, measured=measured) for array in arrays)


def _kind(array: Array) -> tuple[str, tuple[int, ...]]:
    return dtype_name(array), array.shape


def _pool_key(array: Array, *, weak: bool) -> tuple[str, tuple[int, ...], bytes, bool]:
    dtype, shape = _kind(array)
    data = repr(array.tolist()).encode() if dtype == "string" else bits(array)
    return dtype, shape, data, weak


def located(error: LoopError, where: str) -> LoopError:
    """The same error, with a place for the findings that have none yet."""
    error.findings = tuple(
        finding if finding.where else replace(finding, where=where) for finding in error.findings
    )
    return error
