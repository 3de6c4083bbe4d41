"""Demonstration models that `mdf-loop demo` runs, as files of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct


class Demo(Struct, frozen=True):
    """Demonstration model with a name, a description, and input values for a run."""

    name: str
    description: str
    inputs: dict[str, Any]

    @property
    def path(self) -> Path:
        """Path of the MDF file."""
        return Path(__file__).parent / f"{self.name}.yaml"


DEMOS = (
    Demo(
        "sum_and_difference",
        "the sample of the ONNX Loop document: trip count and condition, one carried value, "
        "one recorded output",
        {},
    ),
    Demo(
        "repeated_division",
        "a loop as PyTorch exports it: the trip count is an input of the model",
        {"input": [[1, 1, 1], [1, 1, 1]], "loop_count": 5},
    ),
    Demo(
        "leaky_neuron",
        "a leaky integrate-and-fire neuron driven until it fires: a while loop that records its "
        "membrane potential",
        {"current": 1.8},
    ),
)
