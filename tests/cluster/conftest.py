"""Two processes that compute for all tests, and a neuron."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mdf_loop
from mdf_loop.api.compiled import Compiled
from mdf_loop.cluster.clients import connected

MODEL = Path(__file__).resolve().parents[2] / "examples" / "parameter_sweep" / "model.yaml"


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of two processes."""
    with connected(2) as found:
        found.wait_for_workers(2)
        yield found


@pytest.fixture(scope="module")
def neuron() -> Compiled:
    """A neuron of FitzHugh and Nagumo over time."""
    return mdf_loop.compile(MODEL)
