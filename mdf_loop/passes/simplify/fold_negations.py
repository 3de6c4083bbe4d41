"""Folding of negations into neighbouring additions, subtractions, products and quotients.

    -1 * x            ->   -x
    a + -x, -x + a    ->   a - x          a - -x   ->   a + x
    -x / 8, -x * 8    ->   x / -8, x * -8
    a + -x * y        ->   a - x * y      (where -x * y is read nowhere else)

Preserves: results bit for bit, since rounding does not depend on signs. NaN stays NaN, with either sign
bit. The pass removes two operations of the common expression `-1 * (v - e) / tau + i`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, bodies, operands, walk
from mdf_loop.passes.rewrite import rewrite

_FLOAT_DTYPES = ("float64", "float32")


def fold_negations(program: Program) -> Program:
    """Fold negations into neighbouring arithmetic operations, to reduce their number."""
    while True:
        rewritten_program = rewrite(program, _NegationFolder(program).rule)
        if rewritten_program is program:
            return program
        program = rewritten_program


class _NegationFolder:
    """Rewrite rule that folds negations into neighbouring arithmetic."""

    def __init__(self, program: Program) -> None:
        self.negations: dict[Value, Value] = {}
        self.products_with_constant: dict[Value, tuple[Op, int]] = {}
        self.reader_counts = _count_readers(program)

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """Return an equivalent operation with fewer negations, or None if none exists."""
        output_value = op.outputs[0]
        if output_value.dtype not in _FLOAT_DTYPES:
            return None
        if op.op_type == "Neg":
            return self._fold_negation(b, output_value, _operand(op, 0))
        if op.op_type in ("Mul", "Div"):
            return self._fold_product(b, op)
        if op.op_type in ("Add", "Sub"):
            return self._fold_sum(b, op)
        return None

    def _fold_negation(self, b: Builder, output: Value, operand: Value) -> tuple[Value] | None:
        negated_operand = self._negated_value(b, operand)
        if negated_operand is None:
            self.negations[output] = operand
            return None
        return (negated_operand,)

    def _fold_product(self, b: Builder, op: Op) -> tuple[Value] | None:
        """Fold the negation of a factor (or dividend) into a constant of a product or quotient.

        A factor -1 becomes Neg, and a negated operand negates the constant.
        """
        product_value = op.outputs[0]
        for operand_position in (0, 1):
            candidate_factor, other_operand = (
                _operand(op, operand_position),
                _operand(op, 1 - operand_position),
            )
            constant_factor = b.constant_of(candidate_factor)
            if constant_factor is None:
                continue
            if (
                op.op_type == "Mul"
                and np.all(constant_factor == -1)
                and other_operand.shape == product_value.shape
            ):
                self.negations[product_value] = other_operand
                return (b.op("Neg", other_operand),)
            negated_operand = self._negated_value(b, other_operand)
            if negated_operand is not None:
                new_operands = [b.constant(-constant_factor), negated_operand]
                return (
                    b.op(
                        op.op_type,
                        new_operands[operand_position],
                        new_operands[1 - operand_position],
                    ),
                )
        for operand_position in (0, 1):
            if self._has_negated_value(_operand(op, operand_position)):
                self.products_with_constant[product_value] = (op, operand_position)
        return None

    def _fold_sum(self, b: Builder, op: Op) -> tuple[Value] | None:
        left_operand, right_operand = _operand(op, 0), _operand(op, 1)
        negated_operand = self._negated_value(b, right_operand)
        if negated_operand is not None:
            return (b.op("Sub" if op.op_type == "Add" else "Add", left_operand, negated_operand),)
        negated_operand = self._negated_value(b, left_operand) if op.op_type == "Add" else None
        return None if negated_operand is None else (b.op("Sub", right_operand, negated_operand),)

    def _has_negated_value(self, value: Value) -> bool:
        return value in self.negations or (
            value in self.products_with_constant and self.reader_counts[value] == 1
        )

    def _negated_value(self, b: Builder, value: Value) -> Value | None:
        """Return the negation of a value if this needs no additional operation, else None."""
        if value in self.negations:
            return self.negations[value]
        if not self._has_negated_value(value):
            return None
        op, operand_position = self.products_with_constant[value]
        operands = [_operand(op, 0), _operand(op, 1)]
        negated_operand = self._negated_value(b, operands[operand_position])
        assert negated_operand is not None
        operands[operand_position] = negated_operand
        return b.op(op.op_type, *operands)


def _operand(op: Op, position: int) -> Value:
    operand = op.inputs[position]
    assert operand is not None
    return operand


def _count_readers(program: Program) -> Counter[Value]:
    """Count how often the program reads each value."""
    reader_counts = Counter(output.value for output in program.outputs)
    for operation in walk(program.ops):
        reader_counts.update(operands(operation))
        for body in bodies(operation):
            reader_counts.update(body.outputs)
    return reader_counts
