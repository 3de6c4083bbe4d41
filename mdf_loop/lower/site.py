"""Random draws of an MDF model, each from a stream that is named by the call site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.guards import check_value
from mdf_loop.lower.poisson import count_events
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.symbolic import Symbolic

SampleShape: TypeAlias = tuple[int, ...]


def draw_numbers(b: ModelBuilder, kind: str, shape: SampleShape) -> Value:
    """Append a draw of random numbers at the current call site, and return the numbers.

    The kinds are words, uniform, normal and exponential numbers.
    """
    call_site = b.call_site
    site_attributes = {
        "site": call_site.stream_name,
        "graph": call_site.graph_path,
        "turn": call_site.pass_index,
        "turns": call_site.pass_count,
    }
    return b.op("Draw", kind=kind, shape=shape, **site_attributes)


class ExpressionArray(Symbolic):
    """Symbolic array with the operators of expressions, which promote dtypes as NumPy's.

    A product of random numbers and a constant zero is zero.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """Append the operations of an operator of expressions."""
        if ufunc in _EXPRESSION_OPERATORS and all(isinstance(x, Symbolic) for x in operands):
            values = (operand.value for operand in operands)
            return ExpressionArray(self.b, _EXPRESSION_OPERATORS[ufunc](self.b, *values))
        return super().__array_ufunc__(ufunc, method, *operands, **options)


_EXPRESSION_OPERATORS: Mapping[np.ufunc, Callable[..., Value]] = {
    np.add: ops.add,
    np.subtract: ops.subtract,
    np.multiply: ops.multiply,
    np.less: ops.less,
    np.greater_equal: ops.greater_equal,
}


class DrawSite:
    """Source of random numbers for a call in an expression, or for one named draw of the call.

    With `in_expression`, the numbers are rounded to the model's precision, and are operands of expressions.
    """

    def __init__(self, b: ModelBuilder, name: str = "", *, in_expression: bool = False) -> None:
        self._b = b
        self._name = name
        self._in_expression = in_expression

    def numbers(self, kind: str, shape: SampleShape) -> Symbolic:
        """Return random numbers of a distribution in `streams.DISTRIBUTIONS`."""
        with self._b.part(self._name):
            numbers = draw_numbers(self._b, kind, shape)
        if self._in_expression:
            return ExpressionArray(self._b, cast(self._b, numbers, self._b.float_dtype))
        return Symbolic(self._b, numbers)

    def part(self, name: str) -> DrawSite:
        """Return an independent source of random numbers for the draw `name` of this call."""
        part_name = f"{self._name}.{name}" if self._name else name
        return DrawSite(self._b, part_name, in_expression=self._in_expression)

    def least(self, parameter: Symbolic) -> float:
        """Return the smallest element of a distribution parameter, or minus infinity if unknown."""
        constant_parameter = self._b.constant_of(parameter.value)
        return -np.inf if constant_parameter is None else float(np.min(constant_parameter))

    def ensured(self, parameter: Symbolic, fits: Symbolic, sentence: str) -> Symbolic:
        """Check that the condition `fits` is true for all elements of a distribution parameter.

        Return the parameter. The check happens at compile time if possible, else at run time.

        Raises:
            OperandError: The parameter is known to violate the check.
        """
        operand_error = OperandError(sentence)
        checked_value = check_value(self._b, parameter.value, fits.value, operand_error)
        return type(parameter)(self._b, checked_value)

    def count_events(self, u: Symbolic, rate: Symbolic) -> Symbolic:
        """Return the Poisson numbers of uniform numbers `u`."""
        return Symbolic(self._b, count_events(self._b, u.value, rate.value))
