"""Sums of cotangents over the iterations of a loop.

    sum over i of  A[i] @ B[i]       =  one product of a wide and a deep matrix
    sum over i of  g[i][:, 1] * x[i] =  one product of a wide and a deep matrix
    sum over i of  (u[i] + v[i]).T   =  (sum of u[i] + sum of v[i]).T

A sum of products over the iterations is computed as a single matrix product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Operation, Value, is_fixed
from mdf_loop.ops.build_helpers import cast, ints, sum_of
from mdf_loop.passes.gradient.vectorize_iterations import Rows, vectorize_iterations


def sum_over_iterations(
    b: Builder,
    ops: Sequence[Operation],
    values: Iterable[Value],
    rows: Rows,
    count: Value,
    extent: str,
) -> dict[Value, Value]:
    """Append operations that sum values of a loop body over all iterations.

    Args:
        b: The builder to append to.
        ops: The operations of one iteration.
        values: The values to sum.
        rows: Values that differ from iteration to iteration, with their stacked values.
        count: The number of iterations.
        extent: The name of the extent for the number of iterations.
    """
    producers = {op.outputs[0]: op for op in ops if isinstance(op, Op)}
    sum_builder, values = _IterationSums(b, producers, count), tuple(values)
    values_to_vectorize = [
        required_value
        for summed_value in values
        for required_value in sum_builder.values_to_vectorize(summed_value)
    ]
    sum_builder.computed_values, sum_builder.stacked_values = vectorize_iterations(
        b, ops, values_to_vectorize, rows, extent
    )
    return {value: sum_builder.sum_of_value(value) for value in values}


class _IterationSums(Struct):
    """Builder of sums of loop-body values over all iterations."""

    b: Builder
    producers: Mapping[Value, Op]
    iteration_count: Value
    computed_values: Mapping[Value, Value] = field(default_factory=dict)
    stacked_values: set[Value] = field(default_factory=set)

    def values_to_vectorize(self, value: Value) -> Iterator[Value]:
        """Yield the values that each iteration must compute so that `value` can be summed."""
        product_factors = self._factors(value)
        if product_factors is not None:
            yield from product_factors
        elif (summable_operands := self._linear_operands(value)) is not None:
            for summable_operand in summable_operands:
                yield from self.values_to_vectorize(summable_operand)
        else:
            yield value

    def sum_of_value(self, value: Value) -> Value:
        """Return the sum of a value over all iterations."""
        b, product_factors, summable_operands = (
            self.b,
            self._factors(value),
            self._linear_operands(value),
        )
        if product_factors is not None:
            return self._sum_of_products(*product_factors)
        if summable_operands is None:
            return self._sum_of_rows(value)
        producer = self.producers[value]
        return b.op(
            producer.op_type, *map(self.sum_of_value, summable_operands), **producer.attributes
        )

    def _linear_operands(self, value: Value) -> Sequence[Value] | None:
        """Return the operands of a value if the sum of its rows equals the operation on their sums, else None.

        This holds for Transpose, and for Add without broadcasting.
        """
        producer = self.producers.get(value)
        if producer is None or producer.op_type not in ("Add", "Transpose"):
            return None
        operands = [operand for operand in producer.inputs if operand is not None]
        is_linear = producer.op_type == "Transpose" or all(
            operand.shape == value.shape for operand in operands
        )
        return operands if is_linear and is_fixed(value.shape) else None

    def _factors(self, value: Value) -> tuple[Value, Value] | None:
        """Return the two factors of a matrix product or outer product, or None for other values."""
        producer = self.producers.get(value)
        if (
            producer is None
            or producer.op_type not in ("MatMul", "Mul")
            or len(value.shape or ()) != 2
        ):
            return None
        left_operand, right_operand = producer.inputs
        assert left_operand is not None
        assert right_operand is not None
        if not (
            is_fixed(left_operand.shape) and is_fixed(right_operand.shape) and is_fixed(value.shape)
        ):
            return None
        if 0 in (*left_operand.shape, *right_operand.shape):  # Reshape could not infer an extent -1
            return None
        if producer.op_type == "MatMul":
            return (
                (left_operand, right_operand)
                if len(left_operand.shape) == len(right_operand.shape) == 2
                else None
            )
        n, m = value.shape
        for column, row in ((left_operand, right_operand), (right_operand, left_operand)):
            if column.shape == (n, 1) and row.shape in ((m,), (1, m)) and min(n, m) > 1:
                return column, row
        return None

    def _sum_of_products(self, left_factor: Value, right_factor: Value) -> Value:
        b = self.b
        (n, k), m = left_factor.shape or (0, 0), (right_factor.shape or (0,))[-1]
        wide_matrix, deep_matrix = (
            self.computed_values[left_factor],
            self.computed_values[right_factor],
        )
        if left_factor in self.stacked_values and right_factor in self.stacked_values:
            wide_matrix = b.op(
                "Reshape", b.op("Transpose", wide_matrix, perm=(1, 0, 2)), ints(b, int(n), -1)
            )
            return b.op("MatMul", wide_matrix, b.op("Reshape", deep_matrix, ints(b, -1, int(m))))
        is_right_invariant = (
            left_factor in self.stacked_values and right_factor not in self.stacked_values
        )
        deep_matrix = (
            self.computed_values[right_factor]
            if is_right_invariant
            else self._sum_of_rows(right_factor)
        )
        wide_matrix = (
            self._sum_of_rows(left_factor)
            if is_right_invariant
            else self.computed_values[left_factor]
        )
        return b.op("MatMul", wide_matrix, b.op("Reshape", deep_matrix, ints(b, int(k), int(m))))

    def _sum_of_rows(self, value: Value) -> Value:
        """Return the sum of a stacked or loop-invariant value over all iterations.

        A loop-invariant value is multiplied by the number of iterations.
        """
        b, computed_value = self.b, self.computed_values[value]
        if value in self.stacked_values:
            return sum_of(b, computed_value, (0,))
        return b.op("Mul", computed_value, cast(b, self.iteration_count, computed_value.dtype))
