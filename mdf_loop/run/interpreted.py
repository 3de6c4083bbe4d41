"""Back end that executes programs in the reference interpreter (plain NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mdf_loop.errors import DeviceError
from mdf_loop.ir import Data, Program
from mdf_loop.run.control.stopping import Stopped, Stopping
from mdf_loop.run.device import DEFAULT_PLACEMENT, Device, Placement
from mdf_loop.run.interpret import interpret
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers


class Interpreted:
    """Loaded program that the reference interpreter executes in plain NumPy."""

    device = Device("cpu", "the interpreter computes there")
    native: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        program: Program,
        placement: Placement = DEFAULT_PLACEMENT,
        whole: Program | None = None,
    ) -> None:
        if placement.device == "cuda":
            raise DeviceError(
                "the interpreter computes on the CPU", hint="use engine='onnxruntime'"
            )
        self.program = program

    def run(
        self,
        arrays: Mapping[str, Data],
        stopping: Stopping | None = None,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> dict[str, Data]:
        """Run the program on inputs by name, and return newly allocated outputs by name.

        Raises:
            RunError: The model failed. The message names the place.
            Stopped: `stopping` has ended the computation between two iterations.
        """
        if stopping is None:
            return interpret(self.program, arrays)
        termination_flag = _TerminationFlag()
        try:
            stopping.register_computation(termination_flag)
            return interpret(self.program, arrays, termination_flag.raise_if_terminated)
        finally:
            stopping.unregister_computation(termination_flag)


class _TerminationFlag:
    """Termination flag of an interpreter run, like the flag in ONNX Runtime's run options."""

    terminate = False

    def raise_if_terminated(self) -> None:
        """Raise `Stopped` if the termination flag is set."""
        if self.terminate:
            raise Stopped
