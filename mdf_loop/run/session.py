"""ONNX Runtime: one session for one program."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from mdf_loop.emit import to_session
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Data, Program
from mdf_loop.onnx_types import dtype_name, element_type
from mdf_loop.run.choosing import open_session
from mdf_loop.run.device import Device
from mdf_loop.run.float32_ends import fed, taken, with_float32_ends
from mdf_loop.run.overseeing.stopping import Stopped, Stopping
from mdf_loop.run.runtime_errors import load_error, onnxruntime_errors, run_error
from mdf_loop.run.sizes import sizes
from mdf_loop.signals import ending

SMALL = 50_000
"""Up to this many elements per value one thread is fastest (measured on ONNX Runtime 1.31)."""


class Session:
    """A program that is ready to run.

    A session may be used from several threads at once. One of a part of a program computes on as
    many threads as the `whole` would: on how many changes the last bits (Log, MatMul).
    """

    def __init__(
        self, program: Program, device: str = "auto", whole: Program | None = None
    ) -> None:
        import onnxruntime

        self.program = program
        self.names = [name for name, _ in program.outputs]
        self._sizes = sizes(program)
        self._sizes.refuse()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        most = self._sizes.most_elements if whole is None else sizes(whole).most_elements
        if most <= SMALL:
            options.intra_op_num_threads = 1
        model, apart = to_session(with_float32_ends(program))
        self._apart = {name: _as_runtime_has(array) for name, array in apart.items()}
        if apart:
            options.add_external_initializers(list(apart), list(self._apart.values()))
        try:
            self._session = open_session(model, device, options)
        except LoopError:
            raise
        except onnxruntime_errors() as error:
            raise load_error(error) from None

    @property
    def device(self) -> Device:
        """Where the program runs, and why; `auto` may leave it open until the first run."""
        return self._session.device

    def run(self, arrays: Mapping[str, Data], stopping: Stopping | None = None) -> dict[str, Data]:
        """The outputs by name, for inputs by name.

        Raises:
            RunError: the model failed; the sentence names the place in the MDF.
            RecordShapeError: the rows of a recorded value differ in shape.
            MemoryLimitError: it has taken more memory than it may.
            Stopped: `stopping` has ended it.
            KeyboardInterrupt: a signal, within milliseconds, if there is no `stopping`.
        """
        if stopping is not None:
            return self._run(arrays, stopping)
        made: dict[str, Data] | None = None
        with Stopping(grace=0.0) as alone, suppress(Stopped):
            made = self._run(arrays, alone)
        if alone.reason is not None and alone.reason.is_asked:
            raise ending(alone.reason)
        if made is None:  # without a failure somebody else has ended it
            raise alone.failure or KeyboardInterrupt
        return made

    def _run(self, arrays: Mapping[str, Data], stopping: Stopping) -> dict[str, Data]:
        import onnxruntime

        self._sizes.refuse()
        options = onnxruntime.RunOptions()
        feeds = {name: fed(data) for name, data in arrays.items()}
        try:
            with stopping.watching(options):
                made = self._session.run(self.names, feeds, options)
        except onnxruntime_errors() as error:
            if options.terminate:
                raise Stopped from None
            raise run_error(error, self.program) from None
        return taken(dict(zip(self.names, made, strict=True)), self.program)


def _as_runtime_has(array: Array) -> Any:
    """An array as a value of the runtime, which reads the array's own memory."""
    import onnxruntime

    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        array.view(np.uint16), element_type(dtype_name(array))
    )
