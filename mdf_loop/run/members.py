"""Programs that compute all members of a sweep at once, with outputs indexed by member first.

A loop records `[iterations, members, n]`. Outputs are `[members, iterations, n]`, and an output without an
axis of members is repeated for each member. Transposing and repeating with ONNX operators would copy all
recorded rows. Here, both are NumPy views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from mdf_loop.ir import Array, Data, Program
from mdf_loop.run.backend import Runnable
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.device import Device
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers


class Members:
    """Loaded program that computes all members of a sweep over the inputs `swept` at once."""

    def __init__(self, runnable: Runnable, swept: Collection[str]) -> None:
        self._swept = min(swept)
        self._runnable = runnable

    @property
    def program(self) -> Program:
        """Program that computes all members of the sweep."""
        return self._runnable.program

    @property
    def device(self) -> Device:
        """Device of the program, with the reason for its choice."""
        return self._runnable.device

    @property
    def native(self) -> Mapping[str, str]:
        """Execution mode of each loop by name: `native` (machine code) or `standard: <reason>`."""
        return self._runnable.native

    def run(
        self,
        arrays: Mapping[str, Data],
        stopping: Stopping | None = None,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> dict[str, Data]:
        """Compute the outputs by name, each with a leading axis over members of the sweep."""
        axis_by_output = {output.name: output.member_axis for output in self.program.outputs}
        inner_buffers = {
            name: np.moveaxis(buffer, 0, axis)
            for name, buffer in buffers.items()
            if (axis := axis_by_output[name]) is not None
        }
        outputs = self._runnable.run(arrays, stopping, inner_buffers)
        return move_members_first(self.program, outputs, len(arrays[self._swept]))


def move_members_first(
    program: Program, outputs: Mapping[str, Data], members: int
) -> dict[str, Data]:
    """Return outputs of a sweep as views whose first axis counts the members."""
    axis_by_output = {output.name: output.member_axis for output in program.outputs}
    return {
        name: _move_axis_first(data, axis_by_output[name], members)
        for name, data in outputs.items()
    }


def _move_axis_first(data: Array, axis: int | None, members: int) -> Array:
    """Return a view of an output whose first axis counts the members of a sweep.

    An output without an axis of members is broadcast.

    A loop without iterations records an array that does not have the number of members.
    """
    if axis is None:
        return np.broadcast_to(data, (members, *data.shape))
    members_first = np.moveaxis(data, axis, 0)
    return (
        members_first
        if len(members_first) == members
        else np.zeros((members, *members_first.shape[1:]), data.dtype)
    )
