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


_DTYPE_BY_CARRIED_LABEL = {"part": "float64", "sum": "float64", "goes": "bool", "count": "int64"}
"""Dtypes of the loop-carried values, which are the state of `poisson.sum_next_term`."""


def _count_in_loop(b: ModelBuilder, uniform_samples: Value, rate: Value) -> Value:
    """Transform uniform numbers to Poisson numbers by a loop that sums probabilities.

    The loop ends when all sums exceed the uniform number.

    An element also ends when its sum stops growing, because the last term is too small.
    """
    uniform_samples = b.op("Min", uniform_samples, scalar(b, poisson.MAX_UNIFORM, "float64"))
    initial_probability = streams.exp(-Symbolic(b, rate)).value
    is_counting = b.op("GreaterOrEqual", uniform_samples, initial_probability)
    if is_counting.shape != initial_probability.shape:
        # All carried values have the shape of the draw.
        initial_probability = b.op(
            "Add",
            initial_probability,
            cast(b, b.op("Less", uniform_samples, uniform_samples), "float64"),
        )
    body, loop_label = b.loop_body(), f"{b.label}.poisson"
    with body.at(b.where, loop_label):
        body_entry_values = [
            body.new(dtype, is_counting.shape, f"{loop_label}.{label}")
            for label, dtype in _DTYPE_BY_CARRIED_LABEL.items()
        ]
        event_index = body.new("int64", (), f"{loop_label}.k")
        event_number = (Symbolic(body, event_index) + 1).astype(np.float64)
        u, symbolic_rate, *loop_state = (
            Symbolic(body, value) for value in (uniform_samples, rate, *body_entry_values)
        )
        next_loop_state = poisson.sum_next_term(u, symbolic_rate, event_number, loop_state)
        body_exit_values = [part.value for part in next_loop_state]
        is_any_counting = _any_true(body, body_exit_values[2])
    initial_event_counts = cast(b, b.op("Less", uniform_samples, uniform_samples), "int64")
    initial_values = (initial_probability, initial_probability, is_counting, initial_event_counts)
    carried_values = tuple(
        Carried(
            initial_value,
            entry_value,
            exit_value,
            b.new(entry_value.dtype, is_counting.shape, f"{loop_label}.{label}"),
            label,
        )
        for label, initial_value, entry_value, exit_value in zip(
            _DTYPE_BY_CARRIED_LABEL,
            initial_values,
            body_entry_values,
            body_exit_values,
            strict=True,
        )
    )
    loop = b.append(
        Loop(
            name=loop_label,
            trip_count=scalar(b, poisson.MAX_TERMS, "int64"),
            condition=_any_true(b, is_counting),
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
