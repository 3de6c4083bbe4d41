"""Symbolic arrays: NumPy formulas applied to them append operations to a program.

    streams.exp(x)                              numbers
    streams.exp(Symbolic(b, value)).value       Less, Where, Mul, Add, ...: the operations of the formula

So a formula is written once and has the same bits in numpy and in every runtime. Supported are moves of
elements and operations whose last bit IEEE 754 and every runtime define.

Source: numpy's enhancement proposals 13 and 18, the protocols for array-like classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Shape, Value
from mdf_loop.ops.build_helpers import cast, ints, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder


class Symbolic(np.lib.mixins.NDArrayOperatorsMixin):
    """Program value that supports numpy's operators and functions, which append operations."""

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    @property
    def shape(self) -> Shape:
        """Shape of the program value."""
        return self.value.shape

    @property
    def dtype(self) -> str:
        """Dtype of the program value."""
        return self.value.dtype

    def astype(self, dtype: Any, copy: bool = True) -> Symbolic:
        """Cast the symbolic array to another dtype."""
        return Symbolic(self.b, cast(self.b, self.value, np.dtype(dtype).name))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """Append the operation of a numpy ufunc, such as that of `x * y`."""
        if ufunc not in _OPERATION_BY_UFUNC or method != "__call__" or options:
            return NotImplemented
        if ufunc is np.multiply and any(isinstance(x, float) and x == 1.0 for x in operands):
            return self  # The product is exact.
        op_type, attributes = _OPERATION_BY_UFUNC[ufunc]
        return type(self)(
            self.b, self.b.op(op_type, *_same_dtype_values(self.b, operands), **attributes)
        )

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        operands: Sequence[Any],
        options: Mapping[str, Any],
    ) -> Any:
        """Append the operations of a numpy function, such as `numpy.where(c, x, y)`."""
        if function not in _BUILDER_BY_FUNCTION:
            return NotImplemented
        return type(self)(self.b, _BUILDER_BY_FUNCTION[function](self.b, *operands, **options))


_OPERATION_BY_UFUNC: Mapping[np.ufunc, tuple[str, Mapping[str, Any]]] = {
    np.add: ("Add", {}),
    np.subtract: ("Sub", {}),
    np.multiply: ("Mul", {}),
    np.divide: ("Div", {}),
    np.negative: ("Neg", {}),
    np.absolute: ("Abs", {}),
    np.sqrt: ("Sqrt", {}),
    np.ceil: ("Ceil", {}),
    np.minimum: ("Min", {}),
    np.less: ("Less", {}),
    np.less_equal: ("LessOrEqual", {}),
    np.greater: ("Greater", {}),
    np.greater_equal: ("GreaterOrEqual", {}),
    np.bitwise_and: ("And", {}),
    np.logical_not: ("Not", {}),
    np.right_shift: ("BitShift", {"direction": "RIGHT"}),
}


def _same_dtype_values(b: Builder, operands: Iterable[Any]) -> list[Value]:
    """Return operands as program values, with numbers in the dtype of the symbolic operands."""
    (dtype,) = {x.value.dtype for x in operands if isinstance(x, Symbolic)}
    return [
        x.value if isinstance(x, Symbolic) else b.constant(np.asarray(x, dtype)) for x in operands
    ]


def _where(b: Builder, condition: Symbolic, x: Any, y: Any) -> Value:
    return b.op("Where", condition.value, *_same_dtype_values(b, (x, y)))


def _take(b: Builder, x: Symbolic, indices: int | list[int], axis: int) -> Value:
    index = ints(b, *indices) if isinstance(indices, list) else scalar(b, indices, "int64")
    return b.op("Gather", x.value, index, axis=axis)


def _expand_dims(b: Builder, x: Symbolic, axis: int) -> Value:
    return b.op("Unsqueeze", x.value, ints(b, axis))


def _sum(b: Builder, x: Symbolic, axis: int | None = None) -> Value:
    axes = () if axis is None else (ints(b, axis),)
    return b.op("ReduceSum", x.value, *axes, keepdims=0)


def _concatenate(b: Builder, parts: Sequence[Symbolic], axis: int) -> Value:
    values = [part.value for part in parts]
    return values[0] if len(values) == 1 else b.op("Concat", *values, axis=axis)


_BUILDER_BY_FUNCTION: Mapping[Callable[..., Any], Callable[..., Value]] = {
    np.where: _where,
    np.take: _take,
    np.expand_dims: _expand_dims,
    np.sum: _sum,
    np.concatenate: _concatenate,
}
