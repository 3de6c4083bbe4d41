"""Registry of operations, with one row that contains all properties of an operation.

    Row("Gather", may_fail=has_index_outside, moved_operands=first, batching_rule=gather)

The rows are defined in the modules of their families (`elementwise`, `movement`, `reductions`, ...). The
compiler reads properties of operations only from this table. A new operation needs a row and nothing else. An
ONNX operation takes its schema, types and numpy function from ONNX. The row of any other operation has all three.

    row_of("Gather").may_fail(op, known)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from onnx import defs

from mdf_loop.ir import OPSET, Array, Data, Op, Shape, Value
from mdf_loop.ir.types import dtype_name, kind_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder
    from mdf_loop.ops.batching.scope import BatchScope, Operands
    from mdf_loop.ops.derivatives.rule import Derivative
    from mdf_loop.ops.native.code import ArrayCode, Cell
    from mdf_loop.ops.speeds import LoopCostRule

KnownArrays: TypeAlias = Callable[[Value | None], Array | None]
"""Function that returns the array of a value if it is known at compile time, else None."""

AttributeFault: TypeAlias = Callable[[Mapping[str, Any]], str]
"""Function that returns an error message for invalid attributes, or an empty string."""

OperandFault: TypeAlias = Callable[[Sequence[Data], Mapping[str, Any]], str]
"""Function that returns an error message for invalid operands, or an empty string."""

OperationTest: TypeAlias = Callable[[Op], bool]
FailureRule: TypeAlias = Callable[[Op, KnownArrays], bool]
CudaReplacement: TypeAlias = "Callable[[Builder, Op, KnownArrays], Value | None]"
"""Function that builds a replacement from other operations, or returns None if the CUDA kernel is right."""
MovedOperands: TypeAlias = Callable[[Op], Sequence[int]]
"""Function that returns the positions of the operands that an operation moves."""

MicrosecondsRule: TypeAlias = Callable[[Op], float]
Type: TypeAlias = tuple[str, Shape]
TypeRule: TypeAlias = Callable[
    [Sequence[Type | None], Mapping[str, Any], Mapping[int, Array]], Sequence[Type]
]
"""Function from types of inputs, attributes and known inputs by position to the type of each output."""

NumpyFunction: TypeAlias = Callable[..., Data | tuple[Data, ...]]
"""Function that computes an operation in numpy: `numpy_function(*inputs, **attributes)`."""

Decomposition: TypeAlias = "Callable[[Builder, Op], Value | tuple[Value | None, ...]]"
"""Function that builds the outputs of an operation from other operations."""

OpsetRule: TypeAlias = Callable[[Sequence[Type | None], Mapping[str, Any]], int]
"""Function that returns the lowest opset with these types of inputs and these attributes."""

Encode: TypeAlias = Callable[[Op], tuple[Sequence[Array | None], Mapping[str, Any]]]
"""Function that encodes an operation as the constants for its inputs, and its attributes."""

BatchingRule: TypeAlias = "Callable[[BatchScope, Op, Operands], Sequence[Value]]"
"""Function that builds the outputs of an operation for many runs at once.

At least one operand has the run axis.
"""


NativeCode: TypeAlias = "Callable[..., str]"
"""Function `form(code: Code, op, *registers)` that writes machine code for lanes.

It returns the register of the result.
"""

NativeVectorCode: TypeAlias = "Callable[..., Sequence[str]]"
"""Function `form(code: Code, op, *operands)` that writes machine code for several vectors.

Each operand is a list of the registers of these vectors.
"""

NativeArrayCode: TypeAlias = "Callable[[ArrayCode, Op, Mapping[Value, Cell]], Cell]"
"""Function that writes machine code for an operation on whole arrays, given their cells."""


class Reproducibility(Enum):
    """Degree to which different runtimes compute the same bits of an operation's result."""

    FIXED = "every runtime gives the same: IEEE 754 fixes it, or numbers are only moved"
    ROUNDED_ONCE = (
        "the exact result, rounded at most once; the sign of a zero, or a nan, may be open"
    )
    RUNTIME_DEPENDENT = "libraries differ in the last bits: sums, transcendental functions"


def never(op: Op, *_: Any) -> bool:
    """Return False for any operation, as the rule of a property that no operation has."""
    return False


def no_attribute_fault(attributes: Mapping[str, Any]) -> str:
    """Return an empty string: the default check of attributes finds no fault.

    onnx's shape inference checks the attributes.
    """
    return ""


def no_operand_fault(arrays: Sequence[Data], attributes: Mapping[str, Any]) -> str:
    """Return an empty string: the default check of operand values finds no fault.

    onnx's reference evaluator computes all operands fast enough.
    """
    return ""


def base_opset(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return the package's lowest opset, the default minimum opset of an operation."""
    return OPSET


def always(op: Op, *_: Any) -> bool:
    """Return True for any operation, as the rule of a property that every operation has."""
    return True


def elementwise_microseconds(op: Op) -> float:
    """Return an operation's time in microseconds, as that of one addition per result element."""
    return ELEMENT_MICROSECONDS * count_elements(op.outputs)


def count_elements(values: Sequence[Value]) -> int:
    """Return the total number of elements of several values, with unknown extents counted as 1."""
    element_count = 0
    for value in values:
        value_element_count = 1
        for extent in value.shape or ():
            value_element_count *= extent if isinstance(extent, int) else 1
        element_count += value_element_count
    return element_count


ELEMENT_MICROSECONDS = 0.0002
"""Microseconds of an addition per element (measured; see `passes.simplify.costs`)."""


class Row(Struct, frozen=True, kw_only=True, eq=False):
    """Registry row with all properties of one operation, which default to the worst case.

    Attributes:
        name: name of the operation.
        is_elementwise: True for `y[k] = f(a[k], b[k], ...)` with broadcast operands.
        moved_operands: positions of the operands whose elements, and zeros, are the only elements of the results;
            None if the operation does more than move elements.
        keeps_order: True if the result has the elements of the first operand in their order, repeated as often
            as they are broadcast.
        reproducibility: degree to which the bits of the result are defined.
        converts_text: True if it converts numbers to text or text to numbers, which each runtime does in its
            own way.
        has_exact_integers: True if the bits are defined for operands and results that are integers or bools.
        attribute_fault: returns an error text for attributes that onnx's shape inference cannot handle.
        operand_fault: returns an error text for operands that onnx's reference would compute without end.
        may_fail: True if the operation may fail for some values of valid operands.
        cuda_replacement: builds a replacement where ONNX Runtime's CUDA kernel differs from the CPU kernel.
        never_negative: True if no result is below 0 or -0.0.
        is_random: True if each call draws other random numbers.
        reads_only_shapes: True if it reads only the shapes of its operands.
        min_microseconds: lower bound of its time without the call, in microseconds.
        loop_cost: its cost in a loop as machine code and by ONNX Runtime; None for the usual cost of its
            kind (see `native.cost`).
        has_kernel: True if ONNX Runtime is known to have a correct kernel; else the runtime is probed.
        wrong_kernel: True if ONNX Runtime's kernel loads, but fails or is wrong at run time.
        needs_narrow_dtype: True if a narrow dtype is the purpose, so that no wider dtype may replace it.
        treats_uint64_as_int64: True if its bits for uint64 are those for int64.
        types_ignore_values: True if the types of its results do not depend on values of operands.
        batching_rule: builds the operation for many runs at once.
        unbatched_reason: reason why `batching_rule` is missing, as the end of a sentence.
        decomposition: builds the operation from other operations, where there is no kernel.
        can_decompose: True for operations that `decomposition` accepts; others get a wider dtype.
        undecomposed_reason: reason why `decomposition` is missing, as the end of a sentence.
        onnx_decomposition: builds an operation that ONNX lacks for an ONNX model, after all passes. Machine code
            computes the operation itself.
        derivative: rule for tangents and cotangents; without one the decomposition is differentiated.
        native_code: writes elementwise machine code for the dtypes in `ops.native.code`. Without it, ONNX Runtime
            runs loops with this operation.
        native_vector_code: writes machine code for several vectors side by side, where that is cheaper.
        native_array_code: writes machine code for whole arrays.
        opset: lowest opset that has the operation, if ONNX's schemas do not tell.
        newer_encodings: (opset, encoding) pairs, the encodings that changed with an opset.
        schema, type_rule, numpy_function: all three for an operation that ONNX lacks. For an ONNX operation only a function
            that corrects the reference, or types that ONNX's inference does not tell. The schema's domain is
            `mdf_loop.` and a family, as in `mdf_loop.signals::Cube`, which models and errors use. The
            schema's types are checked before `type_rule` is called. An operation without a kernel has a
            `decomposition` or an `undecomposed_reason`.
    """

    name: str
    is_elementwise: bool = False
    moved_operands: MovedOperands | None = None
    keeps_order: bool = False
    reproducibility: Reproducibility = Reproducibility.RUNTIME_DEPENDENT
    converts_text: bool = False
    has_exact_integers: bool = False
    attribute_fault: AttributeFault = no_attribute_fault
    operand_fault: OperandFault = no_operand_fault
    may_fail: FailureRule = always
    cuda_replacement: CudaReplacement | None = None
    never_negative: OperationTest = never
    is_random: bool = False
    reads_only_shapes: bool = False
    min_microseconds: MicrosecondsRule = elementwise_microseconds
    loop_cost: LoopCostRule | None = None
    has_kernel: OperationTest = never
    wrong_kernel: OperationTest = never
    needs_narrow_dtype: bool = False
    treats_uint64_as_int64: bool = False
    types_ignore_values: bool = False
    batching_rule: BatchingRule | None = None
    unbatched_reason: str = "there is no rule for it yet"
    decomposition: Decomposition | None = None
    can_decompose: OperationTest = always
    undecomposed_reason: str = ""
    onnx_decomposition: Decomposition | None = None
    derivative: Derivative | None = None
    native_code: NativeCode | None = None
    native_vector_code: NativeVectorCode | None = None
    native_array_code: NativeArrayCode | None = None
    opset: OpsetRule = base_opset
    newer_encodings: Sequence[tuple[int, Encode]] = ()
    schema: defs.OpSchema | None = None
    type_rule: TypeRule | None = None
    numpy_function: NumpyFunction | None = None


_ROWS: dict[str, Row] = {}


def register(*rows: Row) -> None:
    """Add rows to the registry of operations, and refuse names that are already registered."""
    for row in rows:
        assert row.name not in _ROWS, f"{row.name} has a row already"
        _ROWS[row.name] = row


@contextmanager
def registered(*rows: Row) -> Iterator[None]:
    """Add rows to the registry of operations for the duration of a `with` block."""
    register(*rows)
    try:
        yield
    finally:
        for row in rows:
            del _ROWS[row.name]


def row_of(op_type: str) -> Row:
    """Return the registry row of an operation, or a row of default properties."""
    return _ROWS.get(op_type) or Row(name=op_type)


def qualified_name(op_type: str) -> str:
    """Return an operation's name in models and errors, such as `onnx::Tan` or `mdf_loop.x::Cube`."""
    row_schema = row_of(op_type).schema
    return f"{row_schema.domain if row_schema is not None and row_schema.domain else 'onnx'}::{op_type}"


def names() -> Collection[str]:
    """Return the names of all operations with a registry row."""
    return _ROWS.keys()


def domain_operation_names() -> Collection[str]:
    """Return the names of the operations that ONNX lacks and that a model can call."""
    return [row.name for row in rows() if row.schema is not None and not row.is_random]


def rows() -> Collection[Row]:
    """Return all rows of the registry."""
    return _ROWS.values()


def is_exact(op_type: str, operands: Iterable[Array | None], types: Iterable[Type]) -> bool:
    """Return True if every runtime computes the same bits for these operands and result types."""
    registry_row = row_of(op_type)
    dtypes = (dtype_name(array) for array in operands if array is not None)
    all_dtypes = (*dtypes, *(dtype for dtype, _ in types))
    if registry_row.reproducibility is Reproducibility.FIXED:
        return not (registry_row.converts_text and "string" in all_dtypes)
    return registry_row.has_exact_integers and all(kind_of(dtype) in "iub" for dtype in all_dtypes)
