"""The number that is differentiated: sums over outputs, added up.

    sum         all elements
    mean        their mean
    last        those of the last row
    sse         the squares of what lies between them and `data`
    weighted    all elements times `data`

A mean may be a part of one over more rows: a factor, `data` without axes, says which.
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
from mdf_loop.losses import WITH_DATA
from mdf_loop.ops.derivatives.rule import is_float
from mdf_loop.ops.words import mean_of, scalar, sum_of

OBJECTIVE_OUTPUT = "value"
"""What the output is called that gives the number."""


class Term(Struct, frozen=True):
    """A sum over an output, by its word; a `scaled` one has a factor. `number` tells it from others.

    The data of one that is `alike` are one number for all elements.
    """

    output: str
    word: str
    scaled: bool = False
    number: int = 0
    alike: bool = False

    @property
    def data(self) -> str | None:
        """The input that is given its data, or its factor."""
        has_some = self.scaled or self.word in WITH_DATA
        return f"{self.word} {self.number} of {self.output}" if has_some else None


def add_objective(program: Program, terms: Sequence[Term]) -> Program:
    """The program that also gives the number that these terms are together; of none it is 0.

    Raises:
        UnsupportedError: an output does not change a little: it is of whole numbers, or no array.
    """
    given = {output.name: output.value for output in program.outputs}
    raise_findings(_findings(given, terms))
    b = Builder.continued(program)
    inputs: dict[str, Input] = {}
    total: Value | None = None
    for term in terms:
        y = given[term.output]
        data = None
        if term.data is not None:
            data = b.new(y.dtype, () if term.scaled or term.alike else y.shape, term.data)
            inputs[term.data] = Input(data, role=InputRole.DATA, of=term.data)
        with b.at(y.where, OBJECTIVE_OUTPUT):
            part = _part(b, term, y, data)
            total = part if total is None else b.op("Add", total, part)
    value = b.constant(np.zeros(())) if total is None else total
    return replace(
        program,
        inputs=(*program.inputs, *inputs.values()),
        ops=tuple(b.ops),
        outputs=(*program.outputs, Output(OBJECTIVE_OUTPUT, value)),
    )


def _findings(given: Mapping[str, Value], terms: Sequence[Term]) -> Iterator[Finding]:
    for y in dict.fromkeys(given[term.output] for term in terms):
        name = next(term.output for term in terms if given[term.output] is y)
        if not is_float(y) or not is_tensor(y.dtype):
            yield Finding(
                "UnsupportedError",
                f"'{name}' is {y.type}, which does not change a little with anything: "
                "only numbers with a point have derivatives",
                y.where,
                "differentiate an output of float64",
            )


def _part(b: Builder, term: Term, y: Value, data: Value | None) -> Value:
    word = term.word
    if word == "mean":
        made = mean_of(b, y)
        return made if data is None else b.op("Mul", made, data)
    if data is None:
        return _sum(b, _last(b, y) if word == "last" else y)
    if word == "weighted":
        return _sum(b, b.op("Mul", y, data))
    off = b.op("Sub", y, data)
    return _sum(b, b.op("Mul", off, off))


def _last(b: Builder, y: Value) -> Value:
    return b.op("Gather", y, scalar(b, -1, "int64"), axis=0) if y.shape != () else y


def _sum(b: Builder, y: Value) -> Value:
    return y if y.shape == () else sum_of(b, y)
