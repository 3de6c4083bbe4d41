"""Lowering of MDF's drift diffusion model, which simulates one trial by a loop.

Source: modeci_mdf.functions.ddm (0.4.15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mdf_loop.errors import OperandError
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.lower import operators as ops
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.draws import check_not_negative, draw_floats
from mdf_loop.lower.terms import Term, as_float, literal, tensor
from mdf_loop.ops.build_helpers import scalar


def drift_diffusion_integrator(b: ModelBuilder, arguments: Mapping[str, Term]) -> Value:
    """Simulate drift diffusion up to a threshold, and return the time with the sign of that threshold.

        t = 0
        while abs(particle) < threshold:
            particle, t = particle + (drift_rate * dt + noise * sqrt(dt) * z), t + 1
        time = non_decision_time + t * dt if particle > threshold else -(...)

    By this definition, the result for a particle exactly on a threshold has the sign of the lower
    threshold. A particle that begins beyond a threshold takes no step. The loop has a trip count if the
    caller limits loops (`max_iterations`).
    """
    start_value, non_decision_time, rate, threshold, noise, dt = (
        _number_argument(b, name, arguments) for name in DRIFT_DIFFUSION_DEFAULTS
    )
    step_mean = ops.multiply(b, rate, dt)
    noise = check_not_negative(b, noise, "the noise of drift_diffusion_integrator")
    step_deviation = ops.multiply(b, noise, b.op("Sqrt", dt))
    loop_label, body = b.label, b.loop_body()
    graph_path = f"{b.call_site.graph_path}.{b.call_site.item_path}.body"
    with (
        body.at_call_site(graph_path=graph_path, item_path="particle", call_index=0),
        body.at(b.where, loop_label),
    ):
        particle_position = body.new(start_value.dtype, (), f"{loop_label}.particle")
        step_number = body.new("int64", (), f"{loop_label}.t")
        normal_sample = draw_floats(body, "Normal", ())
        next_position = ops.add(
            body,
            particle_position,
            ops.add(body, step_mean, ops.multiply(body, step_deviation, normal_sample)),
        )
        next_step_number = body.op("Add", step_number, scalar(body, 1, "int64"))
        is_undecided = body.op("Less", body.op("Abs", next_position), threshold)
    zero = scalar(b, 0, "int64")
    loop = b.append(
        Loop(
            name=loop_label,
            trip_count=None,
            condition=b.op("Less", b.op("Abs", start_value), threshold),
            iteration=body.new("int64", (), f"{loop_label}.i"),
            condition_in=body.new("bool", (), f"{loop_label}.go"),
            condition_out=is_undecided,
            carried=(
                Carried(
                    start_value,
                    particle_position,
                    next_position,
                    b.new(start_value.dtype, (), loop_label),
                    "particle",
                ),
                Carried(
                    zero, step_number, next_step_number, b.new("int64", (), f"{loop_label}.t"), "t"
                ),
            ),
            recorded=(),
            ops=tuple(body.ops),
            max_iterations=b.options.max_iterations,
            iteration_count=b.new("int64", (), f"{loop_label}.iterations"),
            last_condition=b.new("bool", (), f"{loop_label}.condition"),
            where=b.where,
        )
    )
    final_position, step_count = (carried_value.final for carried_value in loop.carried)
    elapsed_time = ops.multiply(b, as_float(b, step_count), dt)
    lower_threshold_time = ops.subtract(b, ops.negative(b, non_decision_time), elapsed_time)
    return b.op(
        "Where",
        b.op("Less", threshold, final_position),
        ops.add(b, non_decision_time, elapsed_time),
        lower_threshold_time,
    )


def _number_argument(b: ModelBuilder, name: str, arguments: Mapping[str, Term]) -> Value:
    default_value = DRIFT_DIFFUSION_DEFAULTS[name]
    if name not in arguments and default_value is None:
        raise OperandError(
            f"the function 'drift_diffusion_integrator' needs the argument '{name}'",
            hint=f"add '{name}' to the args of the function",
        )
    argument = tensor(b, arguments[name]) if name in arguments else literal(b, default_value)
    scalar_value = ops.one_element(b, argument)
    if scalar_value is None or scalar_value.dtype == "string":
        raise OperandError(
            f"'{name}' of the function 'drift_diffusion_integrator' must be one number, not {argument.type}",
            hint="integrate one decision in each node; many trials are run at once by trials=1000",
        )
    constant_array = b.constant_of(scalar_value)
    if constant_array is not None:
        return b.constant(np.asarray(constant_array, b.float_dtype))
    return as_float(b, scalar_value)


DRIFT_DIFFUSION_DEFAULTS: Mapping[str, float | None] = {
    "starting_point": None,
    "non_decision_time": None,
    "drift_rate": None,
    "threshold": None,
    "noise": 1.0,
    "dt": 0.01,
}
"""Defaults of the arguments of drift_diffusion_integrator, where None means a required argument."""

DECISION_FUNCTIONS: Mapping[
    str, tuple[Mapping[str, float | None], Callable[[ModelBuilder, Mapping[str, Term]], Value]]
] = {"drift_diffusion_integrator": (DRIFT_DIFFUSION_DEFAULTS, drift_diffusion_integrator)}
"""Default arguments and lowering of each MDF function that is a loop."""
