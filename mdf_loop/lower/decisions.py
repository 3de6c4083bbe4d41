"""MDF functions that are loops: one trial of a decision, by modeci_mdf's own definition.

Source: modeci_mdf.functions.ddm (0.4.15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.draws import drawn_floats, not_negative
from mdf_loop.lower.terms import Term, as_float, literal, tensor
from mdf_loop.ops.words import scalar


def drift_diffusion_integrator(b: ModelBuilder, given: Mapping[str, Term]) -> Value:
    """The time that a particle takes to a threshold, with the sign of the one that it reached.

        t = 0
        while abs(particle) < threshold:
            particle, t = particle + (drift_rate * dt + noise * sqrt(dt) * z), t + 1
        time = non_decision_time + t * dt if particle > threshold else -(...)

    As it is defined, one that lands on the threshold has reached the lower one, and one that begins
    beyond it takes no step. The loop has a trip count if the run bounds loops (`max_iterations`).
    """
    start, late, rate, threshold, noise, dt = (_one(b, name, given) for name in DRIFT_DIFFUSION)
    mean = ops.multiply(b, rate, dt)
    noise = not_negative(b, noise, "the noise of drift_diffusion_integrator")
    scale = ops.multiply(b, noise, b.op("Sqrt", dt))
    name, inside = b.label, b.loop_body()
    graph = f"{b.place.graph}.{b.place.item}.body"
    with inside.placed(graph=graph, item="particle", call=0), inside.at(b.where, name):
        particle = inside.new(start.dtype, (), f"{name}.particle")
        t = inside.new("int64", (), f"{name}.t")
        z = drawn_floats(inside, "Normal", ())
        moved = ops.add(inside, particle, ops.add(inside, mean, ops.multiply(inside, scale, z)))
        later = inside.op("Add", t, scalar(inside, 1, "int64"))
        goes_on = inside.op("Less", inside.op("Abs", moved), threshold)
    zero = scalar(b, 0, "int64")
    loop = b.append(
        Loop(
            name=name,
            trip_count=None,
            condition=b.op("Less", b.op("Abs", start), threshold),
            iteration=inside.new("int64", (), f"{name}.i"),
            condition_in=inside.new("bool", (), f"{name}.go"),
            condition_out=goes_on,
            carried=(
                Carried(start, particle, moved, b.new(start.dtype, (), name), "particle"),
                Carried(zero, t, later, b.new("int64", (), f"{name}.t"), "t"),
            ),
            recorded=(),
            ops=tuple(inside.ops),
            bound=b.options.max_iterations,
            count=b.new("int64", (), f"{name}.iterations"),
            last_condition=b.new("bool", (), f"{name}.condition"),
            where=b.where,
        )
    )
    end, steps = (carried.final for carried in loop.carried)
    took = ops.multiply(b, as_float(b, steps), dt)
    lower = ops.subtract(b, ops.negative(b, late), took)
    return b.op("Where", b.op("Less", threshold, end), ops.add(b, late, took), lower)


def _one(b: ModelBuilder, name: str, given: Mapping[str, Term]) -> Value:
    usual = DRIFT_DIFFUSION[name]
    if name not in given and usual is None:
        raise OperandError(
            f"the function 'drift_diffusion_integrator' needs the argument '{name}'",
            hint=f"add '{name}' to the args of the function",
        )
    value = tensor(b, given[name]) if name in given else literal(b, usual)
    single = ops.one_element(b, value)
    if single is None or single.dtype == "string":
        raise OperandError(
            f"'{name}' of the function 'drift_diffusion_integrator' must be one number, not {value.type}",
            hint="integrate one decision in each node; many trials are run at once by trials=1000",
        )
    known = b.constant_of(single)
    if known is not None:
        return b.constant(np.asarray(known, b.float_dtype))
    return as_float(b, single)


DRIFT_DIFFUSION: Mapping[str, float | None] = {
    "starting_point": None,
    "non_decision_time": None,
    "drift_rate": None,
    "threshold": None,
    "noise": 1.0,
    "dt": 0.01,
}
"""Its arguments, and what they are if they are left out."""

DECISIONS: Mapping[
    str, tuple[Mapping[str, float | None], Callable[[ModelBuilder, Mapping[str, Term]], Value]]
] = {"drift_diffusion_integrator": (DRIFT_DIFFUSION, drift_diffusion_integrator)}
"""By name the arguments of such a function, and what it becomes."""
