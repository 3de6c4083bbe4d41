"""Functions that are composed of others: their compositions, written as machine code.

    Tan(x: float32)   ->   float32(tan(float64(x))), by the operations that `compositions.elementary.tan` appends

The runtime composes those of float64 (`passes.legal.compose`); those of float32, of which it has kernels,
are computed alike: in float64, rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Op, Value
from mdf_loop.ir.types import dtype_name
from mdf_loop.ops.inference import infer
from mdf_loop.ops.native.code import Code, NotNative
from mdf_loop.ops.native.conversions import converted
from mdf_loop.ops.onnx_schema import exact_numbers
from mdf_loop.ops.registry import row_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def composed(code: Code, op: Op, *registers: str) -> str:
    """An operation of floats by its composition.

    Raises:
        NotNative: there is no composition for its attributes.
    """
    compose, written = row_of(op.op_type).composed, _Written(code)
    assert compose is not None
    given = zip((v for v in op.inputs if v is not None), registers, strict=True)
    wide = tuple(
        written.value(converted(code, v.dtype, register, "float64"), "float64")
        for v, register in given
    )
    held = {name: float(np.float32(n)) for name, n in exact_numbers(op.op_type, op.attributes)}
    asked = replace(op, inputs=wide, attributes={**op.attributes, **held})
    try:
        made = compose(cast("Builder", written), asked)
    except UnsupportedError as error:
        raise NotNative(error.findings[0].what) from None
    assert isinstance(made, Value)
    return converted(code, "float64", written.registers[made], op.outputs[0].dtype)


class _Written(Struct, frozen=True):
    """What a composition takes for a builder: each operation is written at once.

    Attributes:
        registers: that of each value.
    """

    code: Code
    registers: dict[Value, str] = field(default_factory=dict)

    def value(self, register: str, dtype: str) -> Value:
        """A value that is in a register."""
        value = Value(register, dtype, ())
        self.registers[value] = register
        return value

    def constant(self, array: Any) -> Value:
        """One number."""
        number: Array = np.asarray(array)
        dtype = dtype_name(number)
        return self.value(self.code.number(number.item(), dtype), dtype)

    def op(self, op_type: str, *inputs: Value, **attributes: Any) -> Value:
        """What an operation gives."""
        form = row_of(op_type).native
        assert form is not None, f"{op_type} has no form"
        types = [(value.dtype, value.shape) for value in inputs]
        ((dtype, shape),) = infer(op_type, types, attributes, {}, 1)
        op = Op(op_type, inputs, (Value(op_type, dtype, shape),), attributes)
        registers = (self.registers[value] for value in inputs)
        return self.value(form(self.code, op, *registers), dtype)

    def constant_of(self, value: Value) -> None:
        """Nothing is computed before."""
