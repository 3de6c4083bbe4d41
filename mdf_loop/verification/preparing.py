"""All that can be wrong here is said before modeci_mdf's engine runs, which may take minutes."""

from __future__ import annotations

from mdf_loop.api.prepared import Prepared
from mdf_loop.ir import Program
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.names import output_names
from mdf_loop.specification import RunSpecification


def prepare(prepared: Prepared, asked: RunSpecification) -> Bound:
    """The values of what is asked for; the programs for it are read, compiled, and kept.

    Raises:
        LoopError: what is asked for does not fit, or the model cannot be compiled or compared.
    """
    bound = prepared.bound(asked)
    programs = _programs(prepared, asked, bound)
    return bound.drawing(programs[0]) if programs else bound


def _programs(prepared: Prepared, asked: RunSpecification, bound: Bound) -> tuple[Program, ...]:
    """The programs of one evaluation, or of all steps; none for a model without outputs."""
    if not output_names(prepared.document):
        return ()
    if asked.steps is None:
        return (prepared.evaluation(asked, bound).program,)
    session = prepared.over_time(asked, bound)
    session.make_ready()
    return (session.programs.first, session.programs.later)
