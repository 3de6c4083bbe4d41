"""A session for many runs at once, which gives long records without turning them in memory.

A loop records `[iterations, members, n]`; outputs are `[members, iterations, n]`. In ONNX the
turn is a copy of everything that was recorded; here it is a view.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.ir import Array, Op, Program, Value, loops
from mdf_loop.passes.batch import batch
from mdf_loop.run.session import Session


class SweptSession(Session):
    """A program for many values of the inputs `swept`, ready to run."""

    def __init__(
        self, program: Program, swept: Collection[str], options: Options, device: str
    ) -> None:
        batched, self._turned = unturned(batch(program, swept))
        super().__init__(runnable(batched, options), device)

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, members in front."""
        made = super().run(arrays)
        return {
            name: np.swapaxes(array, 0, 1) if name in self._turned else array
            for name, array in made.items()
        }


def unturned(program: Program) -> tuple[Program, frozenset[str]]:
    """The program with the records themselves where it gives them turned, and their names.

        %turned = Transpose(%rows, perm=[1, 0, 2])
        %trace = Reshape(%turned, [members, ...])        ->   output y = %rows
        output y = %trace

    The Reshape is there for loops of zero iterations, whose records know no members.
    """
    stacks = {recorded.stack for loop in loops(program) for recorded in loop.recorded}
    turns: dict[Value, Value] = {}
    for operation in program.ops:
        source = operation.inputs[0] if isinstance(operation, Op) and operation.inputs else None
        if not isinstance(operation, Op) or source is None:
            continue
        if operation.op_type == "Transpose" and source in stacks:
            perm = list(operation.attributes["perm"])
            if perm == [1, 0, *range(2, len(perm))]:
                turns[operation.outputs[0]] = source
        elif operation.op_type == "Reshape" and source in turns:
            turns[operation.outputs[0]] = turns[source]
    names = frozenset(name for name, value in program.outputs if value in turns)
    outputs = tuple((name, turns.get(value, value)) for name, value in program.outputs)
    return replace(program, outputs=outputs), names
