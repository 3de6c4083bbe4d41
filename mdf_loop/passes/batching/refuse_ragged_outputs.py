"""Refuse outputs of which each member has a number of rows of its own, where they must be alike."""

from __future__ import annotations

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import OutputRole, Program
from mdf_loop.ops.batching.lane import HINT


def refuse_ragged_outputs(program: Program) -> Program:
    """The program itself.

    Raises:
        UnsupportedError: members would have different numbers of rows; all such outputs.
    """
    names = program.output_names(OutputRole.LENGTH)
    raise_findings(
        Finding(
            "UnsupportedError",
            f"'{output.name}' has a row for each iteration of a loop, and each member of the sweep "
            "would need its own number of rows",
            output.value.where,
            HINT,
        )
        for output in program.outputs
        if output.name in names
    )
    return program
