"""ONNX's operators that draw random numbers: each is a site with a stream of its own (`lower.draws`).

Their `seed` is part of the site's name, so that another seed gives other numbers; two sites of one
seed draw different ones all the same, as exporters write -1 everywhere.

Source: ONNX operators, Bernoulli-15, Dropout-13, Multinomial-7, RandomNormal-1, RandomUniform-1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from mdf_loop import parameter_rules
from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.ir.types import dtype_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.draws import index_of, not_negative, probability, size_of
from mdf_loop.lower.guards import ensured
from mdf_loop.lower.site import DrawSite, drawn
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.ops.words import cast, scalar

Attributes = Mapping[str, Any]


def onnx_draw(
    b: ModelBuilder, op_type: str, inputs: Sequence[Value | None], attributes: Attributes
) -> tuple[Value, ...]:
    """The results of an operator that draws."""
    given = [value for value in inputs if value is not None]
    if not given and "shape" not in attributes:
        raise OperandError(f"onnx::{op_type} needs the argument 'shape'")
    with _part(b, attributes):
        return DRAWN[op_type](b, given, attributes)


def _normal(b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes) -> tuple[Value, ...]:
    scale = scalar(b, float(attributes.get("scale", 1.0)), "float64")
    not_negative(b, scale, "the scale of onnx::RandomNormal")
    return _scaled(b, "Normal", inputs, attributes, ("mean", 0.0), ("scale", 1.0))


def _uniform(b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes) -> tuple[Value, ...]:
    low, high = float(attributes.get("low", 0.0)), float(attributes.get("high", 1.0))
    ends = (Symbolic(b, scalar(b, end, "float64")) for end in (low, high))
    parameter_rules.width(DrawSite(b), *ends)
    said = {**attributes, "low": low, "width": high - low}
    return _scaled(b, "Uniform", inputs, said, ("low", 0.0), ("width", 1.0))


def _scaled(
    b: ModelBuilder,
    kind: str,
    inputs: Sequence[Value],
    attributes: Attributes,
    first: tuple[str, float],
    times: tuple[str, float],
) -> tuple[Value, ...]:
    """`first + times * number`, in float64 and then in the dtype that is asked for."""
    shape = size_of(None, *inputs) if inputs else tuple(map(int, attributes["shape"]))
    low, scale = (scalar(b, attributes.get(*said), "float64") for said in (first, times))
    made = b.op("Add", low, b.op("Mul", scale, drawn(b, kind, shape)))
    usual = inputs[0].dtype if inputs else "float32"
    return (cast(b, made, _dtype(attributes, usual)),)


def _bernoulli(
    b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes
) -> tuple[Value, ...]:
    """1 with the probability of each element, else 0."""
    (p,) = inputs
    u = drawn(b, "Uniform", size_of(None, p))
    hit = b.op("Less", u, probability(b, cast(b, p, "float64"), parameter_rules.BERNOULLI))
    return (cast(b, hit, _dtype(attributes, p.dtype)),)


def _multinomial(
    b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes
) -> tuple[Value, ...]:
    """Classes by logarithms of their weights: for each row of these so many."""
    (logits,) = inputs
    rows, classes = size_of(None, logits)
    shares = Symbolic(b, b.op("Softmax", cast(b, logits, "float64"), axis=1))
    sentence = "the logits of onnx::Multinomial must not be nan, and no row only -inf"
    weights: Value = DrawSite(b).ensured(shares, shares >= 0.0, sentence).value
    u = drawn(b, "Uniform", (rows, int(attributes.get("sample_size", 1))))
    return (cast(b, index_of(b, weights, u, classes), _dtype(attributes, "int32")),)


def dropped(
    b: ModelBuilder,
    data: Value,
    ratio: Value | None,
    attributes: Attributes,
    training: Value | None = None,
) -> tuple[Value, Value]:
    """Return what a Dropout in training gives: the data, scaled where it is kept, and where that is.

    A `ratio` that is not from 0 to below 1 is an error, if `training` holds or is not given.
    """
    with _part(b, attributes):
        u = drawn(b, "Uniform", size_of(None, data))
    part = scalar(b, 0.5, "float64") if ratio is None else cast(b, ratio, "float64")
    zero, one = (scalar(b, end, "float64") for end in (0.0, 1.0))
    fits = b.op("And", b.op("GreaterOrEqual", part, zero), b.op("Less", part, one))
    if training is not None:
        fits = b.op("Or", fits, b.op("Not", training))
    sentence = "the ratio of onnx::Dropout must be from 0 to below 1"
    part = ensured(b, part, fits, OperandError(sentence))
    kept = b.op("GreaterOrEqual", u, part)
    scale = cast(b, b.op("Sub", scalar(b, 1.0, "float64"), part), data.dtype)
    return b.op("Where", kept, b.op("Div", data, scale), scalar(b, 0.0, data.dtype)), kept


def _part(b: ModelBuilder, attributes: Attributes) -> AbstractContextManager[None]:
    """The part of the item that the seed names, if there is one."""
    seed = attributes.get("seed")
    return b.part("" if seed is None else f"seed {seed}")


def _dtype(attributes: Attributes, usual: str) -> str:
    asked = attributes.get("dtype")
    return usual if asked is None else dtype_of(int(asked))


DRAWN: Mapping[str, Callable[[ModelBuilder, Sequence[Value], Attributes], tuple[Value, ...]]] = {
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "RandomNormal": _normal,
    "RandomNormalLike": _normal,
    "RandomUniform": _uniform,
    "RandomUniformLike": _uniform,
}
"""Operators that draw, but for Dropout, which may do so (see `lower.dropout`)."""
