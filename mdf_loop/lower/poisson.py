"""`numpy.random.poisson`: of known small rates written out, of others in a loop (see `mdf_loop.poisson`)."""

from __future__ import annotations

import numpy as np

from mdf_loop import distributions, parameter_rules, poisson, streams
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.lower.arguments import Axes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.lower.draws import size_of
from mdf_loop.lower.functions import names
from mdf_loop.lower.site import DrawSite, drawn
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.ops.words import all_true, cast, scalar

WRITTEN_OUT = 32.0
"""Largest known rate whose sums are written out: they can be computed for many steps at once."""


@names("numpy.random.poisson")
def draw_poisson(b: ModelBuilder, lam: Value | None = None, size: Axes = None) -> Value:
    """Return how many events there are of a rate: how many sums of their probabilities are not above u."""
    given = cast(b, as_float(b, literal(b, 1.0) if lam is None else lam), "float64")
    what = "the rate of a Poisson distribution"
    checked = parameter_rules.between(
        DrawSite(b), Symbolic(b, given), 0.0, poisson.LARGEST_RATE, what
    )
    rate: Value = checked.value
    u = drawn(b, "Uniform", size_of(size, rate))
    known = b.constant_of(rate)
    if known is not None and float(np.max(known, initial=0.0)) <= WRITTEN_OUT:
        return _written_out(b, u, rate, distributions.most_events(known))
    largest = scalar(b, poisson.LARGEST_SUMMED, "float64")
    is_small = b.op("LessOrEqual", rate, largest)
    if known is not None and bool(np.all(known <= poisson.LARGEST_SUMMED)):
        return _summed(b, u, rate)
    count = _summed(b, u, b.op("Where", is_small, rate, scalar(b, 0.0, "float64")))

    def with_large(b: ModelBuilder) -> list[Value]:
        z = Symbolic(b, streams.normal(Symbolic(b, u)).value)
        large = Symbolic(b, b.op("Where", is_small, largest, rate))
        made = cast(b, poisson.of_normal(z, large).value, "int64")
        return [b.op("Where", is_small, count, made)]

    return choose(b, all_true(b, is_small), lambda _: [count], with_large, "poisson")[0]


def _written_out(b: ModelBuilder, u: Value, rate: Value, events: int) -> Value:
    """Return how many of the first sums are not above u."""
    u = b.op("Min", u, scalar(b, poisson.HIGHEST, "float64"))
    part = streams.exp(-Symbolic(b, rate)).value
    total, count = part, cast(b, b.op("GreaterOrEqual", u, part), "int64")
    for k in range(1, events):
        part = b.op("Div", b.op("Mul", part, rate), scalar(b, k, "float64"))
        total = b.op("Add", total, part)
        count = b.op("Add", count, cast(b, b.op("GreaterOrEqual", u, total), "int64"))
    return count


def _summed(b: ModelBuilder, u: Value, rate: Value) -> Value:
    """Return how many sums are not above u, by a loop that ends when all of the others are.

    A sum that grows no more, because its last part is too small, ends as well.
    """
    u = b.op("Min", u, scalar(b, poisson.HIGHEST, "float64"))
    first = streams.exp(-Symbolic(b, rate)).value
    start = b.op("GreaterOrEqual", u, first)
    if start.shape != first.shape:  # each carried value has the shape of what is drawn
        first = b.op("Add", first, cast(b, b.op("Less", u, u), "float64"))
    inside, name = b.loop_body(), f"{b.label}.poisson"
    with inside.at(b.where, name):
        part, total = (inside.new("float64", start.shape, f"{name}.{of}") for of in ("part", "sum"))
        goes = inside.new("bool", start.shape, f"{name}.goes")
        count = inside.new("int64", start.shape, f"{name}.count")
        k = inside.new("int64", (), f"{name}.k")
        events = inside.op("Add", k, scalar(inside, 1, "int64"))
        numbered = inside.op("Div", inside.op("Mul", part, rate), cast(inside, events, "float64"))
        larger = inside.op("Add", total, numbered)
        counted = inside.op("Add", count, cast(inside, goes, "int64"))
        grows = inside.op("Less", total, larger)
        reached = inside.op("And", grows, inside.op("GreaterOrEqual", u, larger))
        goes_on = inside.op("And", goes, reached)
        condition = _any(inside, goes_on)
    zero = cast(b, b.op("Less", u, u), "int64")
    carried = tuple(
        Carried(initial, enter, leave, b.new(initial.dtype, start.shape, f"{name}.{of}"), of)
        for of, initial, enter, leave in (
            ("part", first, part, numbered),
            ("sum", first, total, larger),
            ("goes", start, goes, goes_on),
            ("count", zero, count, counted),
        )
    )
    loop = b.append(
        Loop(
            name=name,
            trip_count=scalar(b, poisson.MAX_TERMS, "int64"),
            condition=_any(b, start),
            iteration=k,
            condition_in=inside.new("bool", (), f"{name}.go"),
            condition_out=condition,
            carried=carried,
            recorded=(),
            ops=tuple(inside.ops),
            where=b.where,
        )
    )
    return loop.carried[-1].final


def _any(b: ModelBuilder, truths: Value) -> Value:
    """Return whether any of some truths holds."""
    return b.op("Not", all_true(b, b.op("Not", truths)))
