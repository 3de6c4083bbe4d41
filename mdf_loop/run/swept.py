"""A session for many runs at once, which gives long records without copying them once more.

A loop records `[iterations, members, n]`; outputs are `[members, iterations, n]`, and one that is
the same in all runs is there for each. In ONNX the turn and the repetition copy everything that
was recorded; here they are views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.ir import Data, Op, Program, Value, loops
from mdf_loop.passes.batch import batch
from mdf_loop.run.overseeing.stopping import Stopping
from mdf_loop.run.session import Session


class SweptSession(Session):
    """A program for many values of the inputs `swept`, ready to run."""

    def __init__(
        self, program: Program, swept: Collection[str], options: Options, device: str
    ) -> None:
        self._swept = min(swept)
        viewed = _Views(batch(program, swept))
        self._turned, self._alike = viewed.turned, viewed.alike
        super().__init__(runnable(viewed.program, options), device)

    def run(self, arrays: Mapping[str, Data], stopping: Stopping | None = None) -> dict[str, Data]:
        """The outputs by name, members in front."""
        made = super().run(arrays, stopping)
        members = len(arrays[self._swept])
        for name in self._turned:
            made[name] = np.swapaxes(made[name], 0, 1)
        for name in self._alike:
            made[name] = np.broadcast_to(made[name], (members, *made[name].shape))
        return made


class _Views:
    """A batched program without copies at its end, and the outputs that are views instead.

        %turned = Transpose(%rows, perm=[1, 0, 2])
        %trace = Reshape(%turned, [members, ...])        ->   output y = %rows
        output y = %trace
        output z = Expand(%w, [members, ...])                 output z = %w

    The Reshape is there for loops of zero iterations, whose records know no members.
    """

    def __init__(self, batched: Program) -> None:
        self._stacks = {r.stack for loop in loops(batched) for r in loop.recorded}
        self._turns: dict[Value, Value] = {}
        self._repeats: dict[Value, Value] = {}
        for operation in batched.ops:
            if isinstance(operation, Op) and operation.inputs and operation.inputs[0] is not None:
                self._look_at(operation, operation.inputs[0])
        outputs = batched.outputs
        self.turned = [name for name, value in outputs if value in self._turns]
        self.alike = [name for name, value in outputs if value in self._repeats]
        sources = self._turns | self._repeats
        self.program = replace(
            batched, outputs=tuple((name, sources.get(v, v)) for name, v in outputs)
        )

    def _look_at(self, op: Op, source: Value) -> None:
        made = op.outputs[0]
        if op.op_type == "Transpose" and source in self._stacks:
            perm = list(op.attributes["perm"])
            if perm == [1, 0, *range(2, len(perm))]:
                self._turns[made] = source
        elif op.op_type == "Reshape" and source in self._turns:
            self._turns[made] = self._turns[source]
        elif op.op_type == "Expand" and source.shape == (made.shape or ())[1:]:
            self._repeats[made] = source
