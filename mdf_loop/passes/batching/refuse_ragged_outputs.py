"""Check that each program output has the same number of rows for all batch members."""

from __future__ import annotations

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import OutputRole, Program
from mdf_loop.ops.batching.scope import UNBATCHED_HINT


def refuse_ragged_outputs(program: Program) -> Program:
    """Raise an error if the number of rows of an output may differ between batch members.

    Otherwise, return the program unchanged.

    Raises:
        UnsupportedError: Members would have different numbers of rows. The error lists all such outputs.
    """
    length_names = program.output_names(OutputRole.LENGTH)
    raise_findings(
        Finding(
            "UnsupportedError",
            f"'{output.name}' has a row for each iteration of a loop, and each member of the sweep "
            "would need its own number of rows",
            output.value.where,
            UNBATCHED_HINT,
        )
        for output in program.outputs
        if output.name in length_names
    )
    return program
