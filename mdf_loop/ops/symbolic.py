"""Values that formulas of numpy compute with: each of their operations is appended to a program.

    streams.exp(x)                              numbers
    streams.exp(Symbolic(b, value)).value       Less, Where, Mul, Add, ...: the operations that make them

So a formula is written once, and its numbers have the same bits in numpy and in any runtime. Only
operations that IEEE 754 and every runtime fix to the last bit are here, and what moves numbers.

Source: numpy's enhancement proposals 13 and 18, by which other arrays than its own are computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.ir import Shape, Value
from mdf_loop.ops.words import cast, ints, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder


class Symbolic(np.lib.mixins.NDArrayOperatorsMixin):
    """A value as an array of numpy's that is not known yet."""

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    @property
    def shape(self) -> Shape:
        """The extents of its axes."""
        return self.value.shape

    def astype(self, dtype: Any, copy: bool = True) -> Symbolic:
        """The numbers in another dtype."""
        return Symbolic(self.b, cast(self.b, self.value, np.dtype(dtype).name))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **said: Any) -> Any:
        """What an operation of numpy gives, e.g. that of `x * y`."""
        if ufunc not in _OPERATIONS or method != "__call__" or said:
            return NotImplemented
        if ufunc is np.multiply and any(isinstance(x, float) and x == 1.0 for x in given):
            return self  # exactly
        op_type, attributes = _OPERATIONS[ufunc]
        return Symbolic(self.b, self.b.op(op_type, *_alike(self.b, given), **attributes))

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        given: Sequence[Any],
        said: Mapping[str, Any],
    ) -> Any:
        """What a function of numpy gives, e.g. `numpy.where(c, x, y)`."""
        if function not in _FUNCTIONS:
            return NotImplemented
        return Symbolic(self.b, _FUNCTIONS[function](self.b, *given, **said))


_OPERATIONS: Mapping[np.ufunc, tuple[str, Mapping[str, Any]]] = {
    np.add: ("Add", {}),
    np.subtract: ("Sub", {}),
    np.multiply: ("Mul", {}),
    np.divide: ("Div", {}),
    np.negative: ("Neg", {}),
    np.absolute: ("Abs", {}),
    np.sqrt: ("Sqrt", {}),
    np.ceil: ("Ceil", {}),
    np.less: ("Less", {}),
    np.less_equal: ("LessOrEqual", {}),
    np.greater: ("Greater", {}),
    np.greater_equal: ("GreaterOrEqual", {}),
    np.bitwise_and: ("And", {}),
    np.logical_not: ("Not", {}),
    np.right_shift: ("BitShift", {"direction": "RIGHT"}),
}


def _alike(b: Builder, given: Iterable[Any]) -> list[Value]:
    """Values and numbers as values of one dtype, that of the values."""
    (dtype,) = {x.value.dtype for x in given if isinstance(x, Symbolic)}
    return [x.value if isinstance(x, Symbolic) else b.constant(np.asarray(x, dtype)) for x in given]


def _where(b: Builder, condition: Symbolic, x: Any, y: Any) -> Value:
    return b.op("Where", condition.value, *_alike(b, (x, y)))


def _take(b: Builder, x: Symbolic, index: int, axis: int) -> Value:
    return b.op("Gather", x.value, scalar(b, index, "int64"), axis=axis)


def _expand_dims(b: Builder, x: Symbolic, axis: int) -> Value:
    return b.op("Unsqueeze", x.value, ints(b, axis))


_FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Value]] = {
    np.where: _where,
    np.take: _take,
    np.expand_dims: _expand_dims,
}
