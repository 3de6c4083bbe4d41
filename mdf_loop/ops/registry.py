"""The one table of operations: a row says everything that is known of one of them.

    Row("Gather", fails=index_outside, moves=first, bits=Bits.FIXED, batched=gather)

Rows stand in the families beside this file (`elementwise`, `movement`, `reductions`, ...); what the
compiler asks about an operation, it asks here. An operation that has a row needs nothing else: one
that ONNX has takes its schema, types and meaning from ONNX; any other says all three itself.

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
    from mdf_loop.ops.batching.lane import Lane, Operands
    from mdf_loop.ops.derivatives.rule import Derivative
    from mdf_loop.ops.native.code import Arrays, Cell
    from mdf_loop.ops.speeds import Speed

Known: TypeAlias = Callable[[Value | None], Array | None]
"""The array of a value, if it is known now."""

AttributeFault: TypeAlias = Callable[[Mapping[str, Any]], str]
"""Return what is wrong with attributes, or an empty text."""

OperandFault: TypeAlias = Callable[[Sequence[Data], Mapping[str, Any]], str]
"""Return an error text for operands, or an empty text."""

Test: TypeAlias = Callable[[Op], bool]
Fails: TypeAlias = Callable[[Op, Known], bool]
ForCuda: TypeAlias = "Callable[[Builder, Op, Known], Value | None]"
"""The result, of other operations; None where the kernel will do."""
Moves: TypeAlias = Callable[[Op], Sequence[int]]
"""Positions of operands: the same value may stand at several, and be moved at some of them only."""

Work: TypeAlias = Callable[[Op], float]
Type: TypeAlias = tuple[str, Shape]
Types: TypeAlias = Callable[
    [Sequence[Type | None], Mapping[str, Any], Mapping[int, Array]], Sequence[Type]
]
"""Dtype and shape of each output, for those of inputs, attributes, and inputs known by position."""

Meaning: TypeAlias = Callable[..., Data | tuple[Data, ...]]
"""What an operation gives, by numpy: `meaning(*inputs, **attributes)`."""

Composition: TypeAlias = "Callable[[Builder, Op], Value | tuple[Value | None, ...]]"
"""Makes the outputs of an operation out of other operations."""

Opset: TypeAlias = Callable[[Sequence[Type | None], Mapping[str, Any]], int]
"""The lowest opset that has an operation of inputs of these types, with these attributes."""

Form: TypeAlias = Callable[[Op], tuple[Sequence[Array | None], Mapping[str, Any]]]
"""How an operation is said: the constants behind its inputs, and its attributes."""

Batched: TypeAlias = "Callable[[Lane, Op, Operands], Sequence[Value]]"
"""The outputs of an operation for many runs at once, of which one operand or more has the axis."""


Native: TypeAlias = "Callable[..., str]"
"""`form(code: Code, op, *registers)`: writes machine code for lanes; the register of the result."""

NativeTogether: TypeAlias = "Callable[..., Sequence[str]]"
"""`form(code: Code, op, *given)`: the same for several vectors; of each its registers are given."""

NativeWhole: TypeAlias = "Callable[[Arrays, Op, Mapping[Value, Cell]], Cell]"
"""Writes machine code for an operation on whole arrays, whose cells are given."""


class Bits(Enum):
    """How much of a result is fixed, to the last bit."""

    FIXED = "every runtime gives the same: IEEE 754 fixes it, or numbers are only moved"
    ONCE = "the exact result, rounded at most once; the sign of a zero, or a nan, may be open"
    OPEN = "libraries differ in the last bits: sums, transcendental functions"


def no(op: Op, *_: Any) -> bool:
    """Never."""
    return False


def no_fault(attributes: Mapping[str, Any]) -> str:
    """Return an empty text: the shape inference checks these attributes."""
    return ""


def no_operand_fault(arrays: Sequence[Data], attributes: Mapping[str, Any]) -> str:
    """Return an empty text: onnx's reference computes all operands in reasonable time."""
    return ""


def ours(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Our opset."""
    return OPSET


def yes(op: Op, *_: Any) -> bool:
    """Always."""
    return True


def per_element(op: Op) -> float:
    """Hardly more than nothing for each element, as an addition takes."""
    return ELEMENT * elements(op.outputs)


def elements(values: Sequence[Value]) -> int:
    """How many elements values have together; extents that are not known count as 1."""
    total = 0
    for value in values:
        size = 1
        for extent in value.shape or ():
            size *= extent if isinstance(extent, int) else 1
        total += size
    return total


ELEMENT = 0.0002
"""Microseconds for an element of an addition (measured; see `passes.simplify.costs`)."""


class Row(Struct, frozen=True, kw_only=True, eq=False):
    """What is known of one operation; what a row does not say is taken to be the worst.

    Attributes:
        name: the operation's own.
        elementwise: `y[k] = f(a[k], b[k], ...)` after all operands are broadcast.
        moves: the positions of the operands whose elements, and zeros, are all that the results hold;
            None if it does more than move numbers.
        in_order: whether the result has the elements of the first operand in their order, each as
            often as it is broadcast.
        bits: how much of the result is fixed.
        converts_text: True if it makes text of numbers, or numbers of text, which every runtime does in
            its own way.
        exact_integers: True if the result is fixed, too, where operands and results are integers or truth values.
        attribute_fault: what is wrong with attributes that onnx's shape inference must not see.
        operand_fault: error text for operands that onnx's reference would compute without end.
        may_fail: whether it may fail for values of operands that fit it.
        for_cuda: what it becomes where ONNX Runtime's kernel for CUDA does what the one for the CPU does not.
        never_negative: whether it gives nothing below 0, and no -0.0.
        random: whether it draws random numbers, so that each call gives others.
        by_shape: whether it reads nothing but the shapes of its operands.
        work: microseconds that it takes besides the call, at least.
        speed: what it costs in a loop as machine code and by ONNX Runtime; None if that is as for most of
            its kind (see `native.cost`).
        has_kernel: whether ONNX Runtime surely has a kernel that is right; if not, it is asked.
        wrong_kernel: whether ONNX Runtime's kernel loads, but fails or is wrong when it runs.
        small_matters: whether a small dtype is the point, so that a wider one is none.
        as_signed: whether it gives for uint64 the bits that it gives for int64.
        typed_by_types: whether no value of an operand changes the types of results.
        batched: how it is computed for many runs at once.
        not_batched: why it is not, as the end of a sentence.
        composed: how it is made of other operations, where there is no kernel.
        composes: of which operations it is; others are computed in a wider dtype.
        not_composed: why it is not, as the end of a sentence.
        onnx_form: how an ONNX model spells an operation that it lacks, where machine code computes the
            operation itself: a composition that is written with the model, after all passes.
        derivative: how changes of its operands and its results hang together; of one that has none, but
            is composed, that of its composition.
        native: how machine code computes it element by element, of dtypes in `ops.native.code`; None:
            a loop with it is run by ONNX Runtime's own kernels.
        native_together: the same for several vectors side by side, where that is cheaper.
        native_whole: how machine code computes it, of whole arrays.
        opset: the lowest opset that has it, where ONNX's schemas alone do not tell.
        newer_forms: (opset, form): how it is said from an opset on, where it was said differently before.
        schema, types, meaning: of an operation that ONNX lacks all three, of ONNX's own none but
            a meaning that mends the reference's, or types that its inference does not tell. The schema's domain is `mdf_loop.` and a family,
            as in `mdf_loop.signals::Cube`: models and errors call it so. The schema's types are
            checked before `types` is asked. Without a kernel it is `composed`, or says why it is
            `not_composed`.
    """

    name: str
    elementwise: bool = False
    moves: Moves | None = None
    in_order: bool = False
    bits: Bits = Bits.OPEN
    converts_text: bool = False
    exact_integers: bool = False
    attribute_fault: AttributeFault = no_fault
    operand_fault: OperandFault = no_operand_fault
    may_fail: Fails = yes
    for_cuda: ForCuda | None = None
    never_negative: Test = no
    random: bool = False
    by_shape: bool = False
    work: Work = per_element
    speed: Speed | None = None
    has_kernel: Test = no
    wrong_kernel: Test = no
    small_matters: bool = False
    as_signed: bool = False
    typed_by_types: bool = False
    batched: Batched | None = None
    not_batched: str = "there is no rule for it yet"
    composed: Composition | None = None
    composes: Test = yes
    not_composed: str = ""
    onnx_form: Composition | None = None
    derivative: Derivative | None = None
    native: Native | None = None
    native_together: NativeTogether | None = None
    native_whole: NativeWhole | None = None
    opset: Opset = ours
    newer_forms: Sequence[tuple[int, Form]] = ()
    schema: defs.OpSchema | None = None
    types: Types | None = None
    meaning: Meaning | None = None


_ROWS: dict[str, Row] = {}


def register(*rows: Row) -> None:
    """Add rows to the table; a name stands there once."""
    for row in rows:
        assert row.name not in _ROWS, f"{row.name} has a row already"
        _ROWS[row.name] = row


@contextmanager
def registered(*rows: Row) -> Iterator[None]:
    """Rows that are in the table for a while."""
    register(*rows)
    try:
        yield
    finally:
        for row in rows:
            del _ROWS[row.name]


def row_of(op_type: str) -> Row:
    """The row of an operation; of one that has none a row that says nothing."""
    return _ROWS.get(op_type) or Row(name=op_type)


def title(op_type: str) -> str:
    """What an operation is called in models and errors: `onnx::Tan`, or by its own domain."""
    own = row_of(op_type).schema
    return f"{own.domain if own is not None and own.domain else 'onnx'}::{op_type}"


def names() -> Collection[str]:
    """All operations that have a row."""
    return _ROWS.keys()


def own_names() -> Collection[str]:
    """Operations that ONNX lacks, of those that a model can call."""
    return [row.name for row in rows() if row.schema is not None and not row.random]


def rows() -> Collection[Row]:
    """All rows."""
    return _ROWS.values()


def is_exact(op_type: str, operands: Iterable[Array | None], types: Iterable[Type]) -> bool:
    """Return True if every runtime gives the same bits for these operands and types of results."""
    row = row_of(op_type)
    dtypes = (dtype_name(array) for array in operands if array is not None)
    words = (*dtypes, *(dtype for dtype, _ in types))
    if row.bits is Bits.FIXED:
        return not (row.converts_text and "string" in words)
    return row.exact_integers and all(kind_of(word) in "iub" for word in words)
