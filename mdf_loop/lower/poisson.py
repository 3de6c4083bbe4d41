"""Lowering of `numpy.random.poisson` by the algorithm of `mdf_loop.poisson`.

Sums are unrolled for small known rates, and computed by a loop for other rates.
"""

from __future__ import annotations

import numpy as np

from mdf_loop import distributions, parameter_rules, poisson, streams
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.lower.arguments import Axes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.lower.draws import size_of
from mdf_loop.lower.functions import names
from mdf_loop.lower.site import DrawSite, draw_numbers
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.build_helpers import all_true, cast, scalar
from mdf_loop.ops.symbolic import Symbolic

MAX_UNROLLED_RATE = 32.0
"""Maximum known rate whose sums are unrolled, so that they can be computed for many steps at once."""


@names("numpy.random.poisson")
def draw_poisson(b: ModelBuilder, lam: Value | None = None, size: Axes = None) -> Value:
    """Return Poisson random numbers of rate `lam`.

    A Poisson number is the number of partial sums of the probabilities that are at most a uniform number u.
    For large rates, it is computed from a normal number.
    """
    unchecked = cast(b, as_float(b, literal(b, 1.0) if lam is None else lam), "float64")
    what = "the rate of a Poisson distribution"
    checked = parameter_rules.between(
        DrawSite(b), Symbolic(b, unchecked), 0.0, poisson.LARGEST_RATE, what
    )
    rate: Value = checked.value
    u = draw_numbers(b, "Uniform", size_of(size, rate))
    known = b.constant_of(rate)
    if known is not None and float(np.max(known, initial=0.0)) <= MAX_UNROLLED_RATE:
        return _unrolled_count(b, u, rate, distributions.most_events(known))
    largest = scalar(b, poisson.LARGEST_SUMMED, "float64")
    is_small = b.op("LessOrEqual", rate, largest)
    if known is not None and bool(np.all(known <= poisson.LARGEST_SUMMED)):
        return _looped_count(b, u, rate)
    count = _looped_count(b, u, b.op("Where", is_small, rate, scalar(b, 0.0, "float64")))

    def with_large(b: ModelBuilder) -> list[Value]:
        z = Symbolic(b, streams.normal(Symbolic(b, u)).value)
        large = Symbolic(b, b.op("Where", is_small, largest, rate))
        large_count = cast(b, poisson.of_normal(z, large).value, "int64")
        return [b.op("Where", is_small, count, large_count)]

    return choose(b, all_true(b, is_small), lambda _: [count], with_large, "poisson")[0]


def _unrolled_count(b: ModelBuilder, u: Value, rate: Value, events: int) -> Value:
    """Return the Poisson number for the uniform number `u`, by unrolled partial sums of probabilities."""
    u = b.op("Min", u, scalar(b, poisson.HIGHEST, "float64"))
    part = streams.exp(-Symbolic(b, rate)).value
    total, count = part, cast(b, b.op("GreaterOrEqual", u, part), "int64")
    for k in range(1, events):
        part = b.op("Div", b.op("Mul", part, rate), scalar(b, k, "float64"))
        total = b.op("Add", total, part)
        count = b.op("Add", count, cast(b, b.op("GreaterOrEqual", u, total), "int64"))
    return count


def _looped_count(b: ModelBuilder, u: Value, rate: Value) -> Value:
    """Return the Poisson number for the uniform number `u`, by a loop over partial sums of probabilities.

    The loop ends when all sums exceed `u`.

    An element also ends when its sum stops growing, because the last term is too small.
    """
    u = b.op("Min", u, scalar(b, poisson.HIGHEST, "float64"))
    first = streams.exp(-Symbolic(b, rate)).value
    start = b.op("GreaterOrEqual", u, first)
    if start.shape != first.shape:  # all carried values have the shape of the draw
        first = b.op("Add", first, cast(b, b.op("Less", u, u), "float64"))
    body, name = b.loop_body(), f"{b.label}.poisson"
    with body.at(b.where, name):
        term, total = (
            body.new("float64", start.shape, f"{name}.{label}") for label in ("part", "sum")
        )
        counts = body.new("bool", start.shape, f"{name}.goes")
        count = body.new("int64", start.shape, f"{name}.count")
        k = body.new("int64", (), f"{name}.k")
        events = body.op("Add", k, scalar(body, 1, "int64"))
        next_term = body.op("Div", body.op("Mul", term, rate), cast(body, events, "float64"))
        next_sum = body.op("Add", total, next_term)
        counted = body.op("Add", count, cast(body, counts, "int64"))
        grows = body.op("Less", total, next_sum)
        is_below = body.op("And", grows, body.op("GreaterOrEqual", u, next_sum))
        counts_next = body.op("And", counts, is_below)
        condition = _any_true(body, counts_next)
    zero = cast(b, b.op("Less", u, u), "int64")
    carried = tuple(
        Carried(initial, enter, leave, b.new(initial.dtype, start.shape, f"{name}.{label}"), label)
        for label, initial, enter, leave in (
            ("part", first, term, next_term),
            ("sum", first, total, next_sum),
            ("goes", start, counts, counts_next),
            ("count", zero, count, counted),
        )
    )
    loop = b.append(
        Loop(
            name=name,
            trip_count=scalar(b, poisson.MAX_TERMS, "int64"),
            condition=_any_true(b, start),
            iteration=k,
            condition_in=body.new("bool", (), f"{name}.go"),
            condition_out=condition,
            carried=carried,
            recorded=(),
            ops=tuple(body.ops),
            where=b.where,
        )
    )
    return loop.carried[-1].final


def _any_true(b: ModelBuilder, truths: Value) -> Value:
    """Return True if any element is true."""
    return b.op("Not", all_true(b, b.op("Not", truths)))
