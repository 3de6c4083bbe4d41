"""Lowering of `numpy.random.poisson` by the algorithm in `mdf_loop.poisson`.

Sums are unrolled for small known rates, and computed by a loop for other rates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdf_loop import distributions, poisson, streams
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.ops.build_helpers import all_true, cast, scalar
from mdf_loop.ops.symbolic import Symbolic

MAX_UNROLLED_RATE = 32.0
"""Maximum known rate whose sums are unrolled, so that they can be computed for many steps at once."""


def count_events(b: ModelBuilder, uniform_samples: Value, rate: Value) -> Value:
    """Return Poisson random numbers of a checked rate, from uniform numbers.

    A Poisson number is the number of partial sums of the probabilities that are at most a uniform number u.
    For large rates, it is computed from a normal number.
    """
    constant_rate = b.constant_of(rate)
    if constant_rate is not None and float(np.max(constant_rate, initial=0.0)) <= MAX_UNROLLED_RATE:
        max_count = distributions.max_event_count(constant_rate)
        summed_count: Value = _count_unrolled(
            Symbolic(b, uniform_samples), Symbolic(b, rate), max_count
        ).value
        return summed_count
    largest_summed_rate = scalar(b, poisson.MAX_SUMMED_RATE, "float64")
    is_small_rate = b.op("LessOrEqual", rate, largest_summed_rate)
    if constant_rate is not None and bool(np.all(constant_rate <= poisson.MAX_SUMMED_RATE)):
        return _count_in_loop(b, uniform_samples, rate)
    event_count = _count_in_loop(
        b, uniform_samples, b.op("Where", is_small_rate, rate, scalar(b, 0.0, "float64"))
    )

    def with_large(b: ModelBuilder) -> list[Value]:
        normal_samples = Symbolic(b, streams.normal(Symbolic(b, uniform_samples)).value)
        large_rate = Symbolic(b, b.op("Where", is_small_rate, largest_summed_rate, rate))
        large_rate_count = cast(
            b, poisson.poisson_quantile(normal_samples, large_rate).value, "int64"
        )
        return [b.op("Where", is_small_rate, event_count, large_rate_count)]

    return choose(b, all_true(b, is_small_rate), lambda _: [event_count], with_large, "poisson")[0]


def _count_unrolled(u: Any, rate: Any, events: int) -> Any:
    """Transform uniform numbers to Poisson numbers by an unrolled sum of probabilities."""
    u = np.minimum(u, poisson.MAX_UNIFORM)
    probability = partial_sum = streams.exp(-rate)
    event_count = (u >= partial_sum).astype(np.int64)
    for k in range(1, events):
        probability = probability * rate / float(k)
        partial_sum = partial_sum + probability
        event_count = event_count + (u >= partial_sum).astype(np.int64)
    return event_count


def _count_in_loop(b: ModelBuilder, uniform_samples: Value, rate: Value) -> Value:
    """Transform uniform numbers to Poisson numbers by a loop that sums probabilities.

    The loop ends when all sums exceed the uniform number.

    An element also ends when its sum stops growing, because the last term is too small.
    """
    uniform_samples = b.op("Min", uniform_samples, scalar(b, poisson.MAX_UNIFORM, "float64"))
    initial_probability = streams.exp(-Symbolic(b, rate)).value
    is_counting_initially = b.op("GreaterOrEqual", uniform_samples, initial_probability)
    if (
        is_counting_initially.shape != initial_probability.shape
    ):  # all carried values have the shape of the draw
        initial_probability = b.op(
            "Add",
            initial_probability,
            cast(b, b.op("Less", uniform_samples, uniform_samples), "float64"),
        )
    body, loop_label = b.loop_body(), f"{b.label}.poisson"
    with body.at(b.where, loop_label):
        probability_term, partial_sum = (
            body.new("float64", is_counting_initially.shape, f"{loop_label}.{label}")
            for label in ("part", "sum")
        )
        is_counting = body.new("bool", is_counting_initially.shape, f"{loop_label}.goes")
        event_count = body.new("int64", is_counting_initially.shape, f"{loop_label}.count")
        event_index = body.new("int64", (), f"{loop_label}.k")
        event_number = body.op("Add", event_index, scalar(body, 1, "int64"))
        next_probability_term = body.op(
            "Div", body.op("Mul", probability_term, rate), cast(body, event_number, "float64")
        )
        next_sum = body.op("Add", partial_sum, next_probability_term)
        next_count = body.op("Add", event_count, cast(body, is_counting, "int64"))
        is_sum_growing = body.op("Less", partial_sum, next_sum)
        is_sum_below = body.op(
            "And", is_sum_growing, body.op("GreaterOrEqual", uniform_samples, next_sum)
        )
        is_counting_next = body.op("And", is_counting, is_sum_below)
        is_any_counting = _any_true(body, is_counting_next)
    initial_counts = cast(b, b.op("Less", uniform_samples, uniform_samples), "int64")
    carried_values = tuple(
        Carried(
            initial_value,
            entry_value,
            exit_value,
            b.new(initial_value.dtype, is_counting_initially.shape, f"{loop_label}.{label}"),
            label,
        )
        for label, initial_value, entry_value, exit_value in (
            ("part", initial_probability, probability_term, next_probability_term),
            ("sum", initial_probability, partial_sum, next_sum),
            ("goes", is_counting_initially, is_counting, is_counting_next),
            ("count", initial_counts, event_count, next_count),
        )
    )
    loop = b.append(
        Loop(
            name=loop_label,
            trip_count=scalar(b, poisson.MAX_TERMS, "int64"),
            condition=_any_true(b, is_counting_initially),
            iteration=event_index,
            condition_in=body.new("bool", (), f"{loop_label}.go"),
            condition_out=is_any_counting,
            carried=carried_values,
            recorded=(),
            ops=tuple(body.ops),
            where=b.where,
        )
    )
    return loop.carried[-1].final


def _any_true(b: ModelBuilder, truths: Value) -> Value:
    """Return True if any element of a bool array is true."""
    return b.op("Not", all_true(b, b.op("Not", truths)))
