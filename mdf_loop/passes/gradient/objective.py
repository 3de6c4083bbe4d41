"""The scalar objective to differentiate: a sum of terms, one for each output.

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
    """A term of the objective: a sum over an output, of the kind `word`.

    A `scaled` term has a factor. `number` distinguishes terms of the same kind and output.
    The data of an `alike` term are a single number for all elements.
    """

    output: str
    word: str
    scaled: bool = False
    number: int = 0
    alike: bool = False

    @property
    def data(self) -> str | None:
        """Name of the program input for the data or the factor of the term, or None."""
        has_data = self.scaled or self.word in TERMS_WITH_DATA
        return f"{self.word} {self.number} of {self.output}" if has_data else None


def add_objective(program: Program, terms: Sequence[Term]) -> Program:
    """Return the program that also computes the sum of these terms (0 if there are none).

    Raises:
        UnsupportedError: An output is not differentiable: it has integers, or is not an array.
    """
    outputs = {output.name: output.value for output in program.outputs}
    raise_findings(_findings(outputs, terms))
    b = Builder.continued(program)
    inputs: dict[str, Input] = {}
    total: Value | None = None
    for term in terms:
        y = outputs[term.output]
        data = None
        if term.data is not None:
            data = b.new(y.dtype, () if term.scaled or term.alike else y.shape, term.data)
            inputs[term.data] = Input(data, role=InputRole.DATA, of=term.data)
        with b.at(y.where, OBJECTIVE_OUTPUT):
            term_value = _term_value(b, term, y, data)
            total = term_value if total is None else b.op("Add", total, term_value)
    value = b.constant(np.zeros(())) if total is None else total
    return replace(
        program,
        inputs=(*program.inputs, *inputs.values()),
        ops=tuple(b.ops),
        outputs=(*program.outputs, Output(OBJECTIVE_OUTPUT, value)),
    )


def _findings(outputs: Mapping[str, Value], terms: Sequence[Term]) -> Iterator[Finding]:
    for y in dict.fromkeys(outputs[term.output] for term in terms):
        name = next(term.output for term in terms if outputs[term.output] is y)
        if not is_float(y) or not is_tensor(y.dtype):
            yield Finding(
                "UnsupportedError",
                f"'{name}' is {y.type}, which does not change a little with anything: "
                "only numbers with a point have derivatives",
                y.where,
                "differentiate an output of float64",
            )


def _term_value(b: Builder, term: Term, y: Value, data: Value | None) -> Value:
    word = term.word
    if word == "mean":
        mean = mean_of(b, y)
        return mean if data is None else b.op("Mul", mean, data)
    if data is None:
        return _sum_of_elements(b, _last_row(b, y) if word == "last" else y)
    if word == "weighted":
        return _sum_of_elements(b, b.op("Mul", y, data))
    residual = b.op("Sub", y, data)
    return _sum_of_elements(b, b.op("Mul", residual, residual))


def _last_row(b: Builder, y: Value) -> Value:
    return b.op("Gather", y, scalar(b, -1, "int64"), axis=0) if y.shape != () else y


def _sum_of_elements(b: Builder, y: Value) -> Value:
    return y if y.shape == () else sum_of(b, y)
