"""ONNX Runtime: one session for one program, its errors in the modeller's words."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from contextlib import suppress

from mdf_loop.emit import to_onnx
from mdf_loop.emit.row_shapes import row_error
from mdf_loop.errors import LoopError, MemoryLimitError, RunError
from mdf_loop.ir import Data, Loop, Program, walk
from mdf_loop.lower.guards import GUARD
from mdf_loop.run.choosing import open_session
from mdf_loop.run.device import Device
from mdf_loop.run.float32_ends import fed, taken, with_float32_ends
from mdf_loop.run.overseeing.stopping import Stopped, Stopping
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
        model = to_onnx(with_float32_ends(program))
        try:
            self._session = open_session(model, device, options)
        except LoopError:
            raise
        except onnxruntime_errors() as error:
            raise _translated(error, program) from None

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
        if made is None:
            assert alone.failure is not None
            raise alone.failure
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
            raise _translated(error, self.program) from None
        return taken(dict(zip(self.names, made, strict=True)), self.program)


@functools.cache
def onnxruntime_errors() -> tuple[type[Exception], ...]:
    """The exceptions that ONNX Runtime raises."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = (getattr(state, name, None) for name in dir(state))
    own = [t for t in found if isinstance(t, type) and issubclass(t, Exception)]
    return (*own, RuntimeError, ValueError)


_PLACE = re.compile(r"Name:'([^\n]*?) \w+#\d+'")
_NO_ROOM = re.compile(r"Failed to allocate memory|bad_alloc|bad allocation|out of memory", re.I)
_LESS = "make it smaller: fewer members of a sweep, shorter arrays"
_SOURCE_LINE = re.compile(
    r"^(\S+\.(cc|h|cpp|cu):\d+ )?(\S+ )?operator\(\) |^\S+\.(cc|h|cpp|cu):\d+ \S+ "
)


def _translated(error: Exception, program: Program | None = None) -> LoopError:
    """The runtime's error with the place in the MDF, or the sentence of a guard."""
    text = str(error)
    places = _PLACE.findall(text)
    for place in reversed(places):
        if GUARD in place:
            where, sentence = place.split(f" {GUARD}", 1)
            return RunError(sentence, where)
    operations = walk(program.ops) if program else ()
    loops = [operation for operation in operations if isinstance(operation, Loop)]
    if _NO_ROOM.search(text):
        return MemoryLimitError(
            "there is no memory for what the model computes", places[-1] if places else "", _LESS
        )
    about_rows = row_error(text, places[-1], loops) if places else None
    if about_rows is not None:
        return about_rows
    lines = text.rpartition("Status Message: ")[2].strip().splitlines()
    reason = _SOURCE_LINE.sub("", lines[0]) if lines else type(error).__name__
    return RunError(
        f"the model failed while running: {reason}",
        places[-1] if places else "",
        _advice(text),
    )


def _advice(text: str) -> str:
    if "indices element out of data bounds" in text:
        return "a subscript is outside of its array"
    if "OptionalGetElement on an optional type" in text:
        return "an optional value is taken that is absent: ask onnx::OptionalHasElement before"
    if "Invalid sequence index" in text:
        return "a position is outside of its sequence: ask onnx::SequenceLength before"
    if re.search(r"(division|modulo|divide) by zero", text, re.IGNORECASE):
        return "a whole number was divided by zero"
    return ""
