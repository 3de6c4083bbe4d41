"""Template models that `mdf-loop new` writes, as files of the package."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class StarterModel(Struct, frozen=True):
    """Template model with a name, a description, and command-line arguments for a first run."""

    model_kind: str
    description: str
    run_arguments: str

    @property
    def path(self) -> Path:
        """Path of the MDF file."""
        return Path(__file__).parent / f"{self.model_kind}.yaml"


STARTER_MODELS = (
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
