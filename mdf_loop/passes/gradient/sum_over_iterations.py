"""What all iterations give a value together: a sum over their axis.

sum over i of  A[i] @ B[i]       =  one product of a wide and a deep matrix
sum over i of  g[i][:, 1] * x[i] =  the same
sum over i of  (u[i] + v[i]).T   =  (sum of u[i] + sum of v[i]).T
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Operation, Value, is_fixed
from mdf_loop.ops.words import cast, ints, sum_of
from mdf_loop.passes.gradient.vectorize_iterations import Rows, vectorize_iterations


def sum_over_iterations(
    b: Builder,
    ops: Sequence[Operation],
    values: Iterable[Value],
    rows: Rows,
    count: Value,
    extent: str,
) -> dict[Value, Value]:
    """Append the sums over all iterations of what operations of one make.

    Args:
        b: where they are appended.
        ops: those of one iteration.
        values: what is summed.
        rows: what differs from iteration to iteration, of all of them.
        count: how many there are.
        extent: the name of that number.
    """
    makers = {op.outputs[0]: op for op in ops if isinstance(op, Op)}
    sums, values = _Sums(b, makers, count), tuple(values)
    wanted = [leaf for value in values for leaf in sums.leaves(value)]
    sums.found, sums.along = vectorize_iterations(b, ops, wanted, rows, extent)
    return {value: sums.of(value) for value in values}


class _Sums(Struct):
    b: Builder
    makers: Mapping[Value, Op]
    count: Value
    found: Mapping[Value, Value] = field(default_factory=dict)
    along: set[Value] = field(default_factory=set)

    def leaves(self, value: Value) -> Iterator[Value]:
        """What must be known of all iterations."""
        factors = self._factors(value)
        if factors is not None:
            yield from factors
        elif (parts := self._parts(value)) is not None:
            for part in parts:
                yield from self.leaves(part)
        else:
            yield value

    def of(self, value: Value) -> Value:
        """The sum of a value."""
        b, factors, parts = self.b, self._factors(value), self._parts(value)
        if factors is not None:
            return self._product(*factors)
        if parts is None:
            return self._total(value)
        op = self.makers[value]
        return b.op(op.op_type, *map(self.of, parts), **op.attributes)

    def _parts(self, value: Value) -> Sequence[Value] | None:
        """The values whose sums make this one."""
        op = self.makers.get(value)
        if op is None or op.op_type not in ("Add", "Transpose"):
            return None
        parts = [x for x in op.inputs if x is not None]
        alike = op.op_type == "Transpose" or all(x.shape == value.shape for x in parts)
        return parts if alike and is_fixed(value.shape) else None

    def _factors(self, value: Value) -> tuple[Value, Value] | None:
        """The matrices, or column and row, whose products are summed."""
        op = self.makers.get(value)
        if op is None or op.op_type not in ("MatMul", "Mul") or len(value.shape or ()) != 2:
            return None
        left, right = op.inputs
        assert left is not None
        assert right is not None
        if not (is_fixed(left.shape) and is_fixed(right.shape) and is_fixed(value.shape)):
            return None
        if 0 in (*left.shape, *right.shape):  # an extent -1 would be undetermined
            return None
        if op.op_type == "MatMul":
            return (left, right) if len(left.shape) == len(right.shape) == 2 else None
        n, m = value.shape
        for column, row in ((left, right), (right, left)):
            if column.shape == (n, 1) and row.shape in ((m,), (1, m)) and min(n, m) > 1:
                return column, row
        return None

    def _product(self, left: Value, right: Value) -> Value:
        b = self.b
        (n, k), m = left.shape or (0, 0), (right.shape or (0,))[-1]
        wide, deep = self.found[left], self.found[right]
        if left in self.along and right in self.along:
            wide = b.op("Reshape", b.op("Transpose", wide, perm=(1, 0, 2)), ints(b, int(n), -1))
            return b.op("MatMul", wide, b.op("Reshape", deep, ints(b, -1, int(m))))
        once = left in self.along and right not in self.along
        deep = self.found[right] if once else self._total(right)
        wide = self._total(left) if once else self.found[left]
        return b.op("MatMul", wide, b.op("Reshape", deep, ints(b, int(k), int(m))))

    def _total(self, value: Value) -> Value:
        """The sum over rows, or as often the same."""
        b, made = self.b, self.found[value]
        if value in self.along:
            return sum_of(b, made, (0,))
        return b.op("Mul", made, cast(b, self.count, made.dtype))
