"""Back ends: engines that execute prepared programs or whole model documents.

    backend = BACKENDS["onnxruntime"]
    program = prepare(program, backend.pass_order, passes_of_evaluation())
    outputs = backend.load(program, Placement("cpu")).run({"x": x})

Each engine for programs is a `Backend` in `PROGRAM_BACKENDS`: its order of passes, and a function that
loads a prepared program. Stopping, recording, resuming and reporting are written once, above this
interface. modeci_mdf's engine evaluates whole documents instead of programs. Its entry is the only
`DocumentBackend`. Programs and documents have the same interface once they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.ir import Data, Program
from mdf_loop.pipeline import INTERPRET, ONNXRUNTIME, PassOrder
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.device import DEFAULT_PLACEMENT, Device, Placement
from mdf_loop.run.interpreted import Interpreted
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.run.onnxruntime.session import Session
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers


class Computation(Protocol):
    """Interface of a loaded computation that can be run repeatedly."""

    @property
    def device(self) -> Device:
        """Device of the computation, with the reason for its choice.

        `UNDECIDED_DEVICE` if the first run chooses the device.
        """

    def run(
        self,
        arrays: Mapping[str, Data],
        stopping: Stopping | None = None,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> dict[str, Data]:
        """Run the computation on inputs by name, and return its outputs by name.

        `buffers` may provide memory for outputs.

        Raises:
            RunError: The model failed. The message names the place in the MDF document.
            Stopped: `stopping` has ended the computation.
        """


class Runnable(Computation, Protocol):
    """Interface of a loaded program that several threads can run at once."""

    @property
    def program(self) -> Program:
        """Loaded program, whose inputs `run` accepts and whose outputs `run` returns."""

    @property
    def native(self) -> Mapping[str, str]:
        """Execution mode of each loop by name: `native` (machine code) or `standard: <reason>`."""


class Load(Protocol):
    """Interface of a function that loads a prepared program into an engine."""

    def __call__(
        self,
        program: Program,
        placement: Placement = DEFAULT_PLACEMENT,
        whole: Program | None = None,
    ) -> Runnable:
        """Load a program for a device.

        `whole` is the program of which `program` is a segment, if any.
        """


class Backend(Struct, frozen=True):
    """Engine that executes programs, such as ONNX Runtime.

    Attributes:
        pass_order: Passes that prepare a program before loading.
        load: Function that loads a prepared program.
        is_standard: Function that returns True if all loops of a placement are run by ONNX Runtime
            operators. False means that loading decides for each loop.
    """

    pass_order: PassOrder
    load: Load
    is_standard: Callable[[Placement], bool]


class DocumentBackend(Struct, frozen=True):
    """Engine that executes whole model documents, without compilation to a program.

    Attributes:
        load: Function that loads a document with the names of recorded items, `dt` and a seed. Each run
            is one further evaluation.
    """

    load: Callable[[Document, Sequence[str], float | None, int], Evaluations]


PROGRAM_BACKENDS: Mapping[str, Backend] = MappingProxyType(
    {
        "onnxruntime": Backend(ONNXRUNTIME, Session, lambda placement: placement.native == "off"),
        "interpreter": Backend(INTERPRET, Interpreted, lambda _: False),
    }
)
"""Back ends for programs, by engine name."""

BACKENDS: Mapping[str, Backend | DocumentBackend] = MappingProxyType(
    {**PROGRAM_BACKENDS, "modeci": DocumentBackend(Evaluations)}
)
"""All back ends, by engine name."""
