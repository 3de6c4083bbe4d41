"""The seam between a model and what computes it.

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
    """What is ready to be computed, again and again."""

    @property
    def device(self) -> Device:
        """Where it is computed, and why; `UNDECIDED` if the first run decides."""

    def run(
        self, arrays: Mapping[str, Data], stopping: Stopping | None = None, room: Room = NO_ROOM
    ) -> dict[str, Data]:
        """The outputs by name, for inputs by name; they may be where there is room for them.

        Raises:
            RunError: the model failed; the sentence names the place in the MDF.
            Stopped: `stopping` has ended it.
        """


class Runnable(Computes, Protocol):
    """A program that is ready: from several threads at once, each run for itself."""

    @property
    def program(self) -> Program:
        """What is computed; `run` is given its inputs and gives its outputs."""

    @property
    def native(self) -> Mapping[str, str]:
        """Of each loop, by name, `native`, or `standard: ` and why."""


class Load(Protocol):
    """Makes a prepared program ready."""

    def __call__(
        self,
        program: Program,
        placement: Placement = USUAL,
        whole: Program | None = None,
    ) -> Runnable:
        """The program where it is to be computed; it may be a segment of a `whole`."""


class Backend(Struct, frozen=True):
    """What computes programs.

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
    """What computes documents as they are written.

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
