"""Fixtures: a client with two worker processes for all tests, and a neuron model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.cluster.clients import connect

MODEL = Path(__file__).resolve().parents[2] / "examples" / "parameter_sweep" / "model.yaml"


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """Yield a client of two processes."""
    with connect(2) as connection:
        connection.client.wait_for_workers(2)
        yield connection.client


@pytest.fixture(scope="module")
def neuron() -> CompiledModel:
    """Return a neuron of FitzHugh and Nagumo over time."""
    return mdf_loop.compile(MODEL)
