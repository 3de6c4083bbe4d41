"""Scalar objective to differentiate: a sum of terms, each of which reduces a program output.

    sum         all elements
    mean        their mean
    last        the elements of the last row
    sse         the squared differences from `data`
    weighted    all elements times `data`

A mean may be a part of a mean over more rows. Then a factor, `data` without axes, states its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import Input, InputRole, Output, Program, Value
from mdf_loop.ir.types import is_tensor
from mdf_loop.losses import TERMS_WITH_DATA
from mdf_loop.ops.build_helpers import mean_of, scalar, sum_of
from mdf_loop.ops.derivatives.rule import is_float

OBJECTIVE_OUTPUT = "value"
"""Name of the output that holds the objective."""


class Term(Struct, frozen=True):
    """Term of a scalar objective, such as the mean of a program output.

    A term has a factor if `is_scaled` is True. `term_index` distinguishes terms of the same kind and output.
    If `has_scalar_data` is True, the data of the term are a single number for all elements.
    """

    output: str
    term_kind: str
    is_scaled: bool = False
    term_index: int = 0
    has_scalar_data: bool = False

    @property
    def data(self) -> str | None:
        """Name of the program input for the data or scale factor of an objective term, or None."""
        has_data = self.is_scaled or self.term_kind in TERMS_WITH_DATA
        return f"{self.term_kind} {self.term_index} of {self.output}" if has_data else None


def add_objective(program: Program, terms: Sequence[Term]) -> Program:
    """Return a program that also computes a scalar objective: the sum of its terms, or 0.

    Raises:
        UnsupportedError: An output is not differentiable: it has integers, or is not an array.
    """
    outputs_by_name = {output.name: output.value for output in program.outputs}
    raise_findings(_findings(outputs_by_name, terms))
    b = Builder.appending_to(program)
    inputs_by_name: dict[str, Input] = {}
    objective_sum: Value | None = None
    for term in terms:
        program_output = outputs_by_name[term.output]
        term_data = None
        if term.data is not None:
            term_data = b.new(
                program_output.dtype,
                () if term.is_scaled or term.has_scalar_data else program_output.shape,
                term.data,
            )
            inputs_by_name[term.data] = Input(term_data, role=InputRole.DATA, owner_name=term.data)
        with b.at(program_output.where, OBJECTIVE_OUTPUT):
            term_value = _term_value(b, term, program_output, term_data)
            objective_sum = (
                term_value if objective_sum is None else b.op("Add", objective_sum, term_value)
            )
    objective = b.constant(np.zeros(())) if objective_sum is None else objective_sum
    return replace(
        program,
        inputs=(*program.inputs, *inputs_by_name.values()),
        ops=tuple(b.ops),
        outputs=(*program.outputs, Output(OBJECTIVE_OUTPUT, objective)),
    )


def _findings(outputs: Mapping[str, Value], terms: Sequence[Term]) -> Iterator[Finding]:
    for y in dict.fromkeys(outputs[term.output] for term in terms):
        output_name = next(term.output for term in terms if outputs[term.output] is y)
        if not is_float(y) or not is_tensor(y.dtype):
            yield Finding(
                "UnsupportedError",
                f"'{output_name}' is {y.type}, which does not change a little with anything: "
                "only numbers with a point have derivatives",
                y.where,
                "differentiate an output of float64",
            )


def _term_value(b: Builder, term: Term, y: Value, data: Value | None) -> Value:
    if term.term_kind == "mean":
        mean = mean_of(b, y)
        return mean if data is None else b.op("Mul", mean, data)
    if data is None:
        return _sum_of_elements(b, _last_row(b, y) if term.term_kind == "last" else y)
    if term.term_kind == "weighted":
        return _sum_of_elements(b, b.op("Mul", y, data))
    residual = b.op("Sub", y, data)
    return _sum_of_elements(b, b.op("Mul", residual, residual))


def _last_row(b: Builder, y: Value) -> Value:
    return b.op("Gather", y, scalar(b, -1, "int64"), axis=0) if y.shape != () else y


def _sum_of_elements(b: Builder, y: Value) -> Value:
    return y if y.shape == () else sum_of(b, y)
