"""Interfaces between a model and the engine that computes it.

    backend = BACKENDS["onnxruntime"]
    ready = prepare(program, backend.order, asked=evaluation())
    made = backend.load(ready, Placement("cpu")).run({"x": x})

Whoever computes programs is a `Backend` in the table: the order of passes that it needs, and what
makes a prepared program ready. All that stops, records, resumes and reports runs is written once,
above it. modeci_mdf's engine knows no programs: it computes documents, whole, and is the one
`DocumentBackend`. What either makes ready is run alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.ir import Data, Program
from mdf_loop.pipeline import INTERPRET, ONNXRUNTIME, Order
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.device import USUAL, Device, Placement
from mdf_loop.run.interpreted import Interpreted
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.run.onnxruntime.session import Session
from mdf_loop.run.room import NO_ROOM, Room


class Computes(Protocol):
    """Interface of a computation that can be run repeatedly."""

    @property
    def device(self) -> Device:
        """Device of the computation, with the reason. `UNDECIDED` if the first run decides."""

    def run(
        self, arrays: Mapping[str, Data], stopping: Stopping | None = None, room: Room = NO_ROOM
    ) -> dict[str, Data]:
        """Return the outputs by name, for inputs by name. Outputs may be written to the memory in `room`.

        Raises:
            RunError: the model failed; the sentence names the place in the MDF.
            Stopped: `stopping` has ended it.
        """


class Runnable(Computes, Protocol):
    """Interface of a program that can be run by several threads at once."""

    @property
    def program(self) -> Program:
        """Program whose inputs `run` takes and whose outputs it gives."""

    @property
    def native(self) -> Mapping[str, str]:
        """Form of each loop by name: `native`, or `standard: ` with the reason."""


class Load(Protocol):
    """Interface of a function that makes a prepared program ready to run."""

    def __call__(
        self,
        program: Program,
        placement: Placement = USUAL,
        whole: Program | None = None,
    ) -> Runnable:
        """Make a program ready for a placement. The program may be a segment of a `whole`."""


class Backend(Struct, frozen=True):
    """Engine for programs.

    Attributes:
        order: the passes that a program goes through before it is loaded.
        load: makes it ready.
        is_standard: whether all loops of a placement are surely those of ONNX Runtime; else it is known
            when they are loaded.
    """

    order: Order
    load: Load
    is_standard: Callable[[Placement], bool]


class DocumentBackend(Struct, frozen=True):
    """Engine for documents.

    Attributes:
        load: makes one ready, to give what is to record, for a `dt` and a seed; each run is its next
            evaluation.
    """

    load: Callable[[Document, Sequence[str], float | None, int], Evaluations]


PROGRAM_BACKENDS: Mapping[str, Backend] = MappingProxyType(
    {
        "onnxruntime": Backend(ONNXRUNTIME, Session, lambda placement: placement.native == "off"),
        "interpreter": Backend(INTERPRET, Interpreted, lambda _: False),
    }
)
"""Back ends for programs, by the word that chooses them."""

BACKENDS: Mapping[str, Backend | DocumentBackend] = MappingProxyType(
    {**PROGRAM_BACKENDS, "modeci": DocumentBackend(Evaluations)}
)
"""All back ends."""
