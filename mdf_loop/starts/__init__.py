"""The models that `mdf-loop new` writes to start from, as files of the package."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class StarterModel(Struct, frozen=True):
    """A model to start from: its kind, what it is, and words for a first run of it."""

    kind: str
    about: str
    run: str

    @property
    def path(self) -> Path:
        """The MDF file."""
        return Path(__file__).parent / f"{self.kind}.yaml"


STARTS = (
    StarterModel(
        "neuron",
        "a leaky integrate-and-fire neuron over time",
        "--steps 1001 --dt 0.1ms --plot {name}.png",
    ),
    StarterModel(
        "decision",
        "a decision by evidence with noise, as a loop that ends at a bound",
        "--trials 1000 --plot {name}.png",
    ),
    StarterModel("loop", "a while loop that carries a number and records each one", ""),
)
