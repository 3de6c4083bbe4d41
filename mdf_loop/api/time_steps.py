"""Comparison of parameters called `dt` with the time step of a run."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.specification import RunSpecification
from mdf_loop.text_escaping import escape_to_one_line


def describe_differing_steps(prepared: PreparedModel, spec: RunSpecification) -> Iterator[str]:
    """Yield a warning for each parameter `dt` that differs from the time step of the run."""
    if spec.dt is None:
        return
    for name, model_value in prepared.step_parameters.items():
        run_value = spec.values.set.get(name, model_value)
        is_number = isinstance(run_value, int | float) and name not in spec.values.sweep
        if is_number and run_value != spec.dt:
            yield escape_to_one_line(
                f"the parameter '{name}' is {run_value}, but the dt of the run is {spec.dt}: "
                f"if they mean the same, set '{name}' to {spec.dt} (set=, --set)"
            )
