"""All that can be wrong here is said before modeci_mdf's engine runs, which may take minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.compiled import Compiled
from mdf_loop.ir import Program
from mdf_loop.randomness import COMPARED, refuse_random
from mdf_loop.reading.names import OUTPUTS, output_names
from mdf_loop.request import Request, request
from mdf_loop.run.over_time import checked_steps, refuse_without_steps


def prepare(
    compiled: Compiled,
    inputs: Mapping[str, Any],
    parameters: Mapping[str, Any],
    steps: int | None,
    dt: float | None,
) -> Request:
    """What is asked for, checked; the programs for it are read, compiled, and kept.

    Raises:
        LoopError: what is asked for does not fit, or the model cannot be compiled or compared.
    """
    asked = request(
        compiled.document,
        compiled.options,
        inputs=inputs,
        chosen=OUTPUTS,
        parameters=parameters,
        steps=steps,
    )
    refuse_random(COMPARED, *_programs(compiled, asked, steps, dt))
    return asked


def _programs(
    compiled: Compiled, asked: Request, steps: int | None, dt: float | None
) -> tuple[Program, ...]:
    """The programs of one evaluation, or of all steps; none for a model without outputs."""
    if steps is None:
        refuse_without_steps(dt=dt)
    else:
        steps, dt, _ = checked_steps(steps, dt)
    if not output_names(compiled.document):
        return ()
    if steps is None:
        return (compiled.once(asked)[0],)
    session = compiled.over_time(asked, has_dt=dt is not None, executed=False)
    session.make_ready()
    return (session.programs.first, session.programs.later)
