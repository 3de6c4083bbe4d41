"""Fixtures for tests of the command line: `cli("run", path, "--json")`, and models."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mdf_loop.cli import cli as commands
from mdf_loop.demo import DEMOS


@dataclass(frozen=True)
class Outcome:
    """Exit code of a command and the texts that it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON object on stdout. NaN and Infinity, which are not JSON, fail the test."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is no JSON")

        return json.loads(self.out, parse_constant=refuse)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli() -> Cli:
    """Return a function that runs a command in this process. Any exception except SystemExit fails the test."""

    def run(*arguments: Any) -> Outcome:
        invocation = CliRunner().invoke(
            commands, [str(argument) for argument in arguments], prog_name="mdf-loop"
        )
        if invocation.exception is not None and not isinstance(invocation.exception, SystemExit):
            raise invocation.exception
        return Outcome(invocation.exit_code, invocation.stdout, invocation.stderr)

    return run


@pytest.fixture
def demos() -> dict[str, Path]:
    """Return the models of `mdf-loop demo` by name."""
    return {demo.name: demo.path for demo in DEMOS}


@pytest.fixture
def sample(demos: dict[str, Path]) -> Path:
    """Return the sample of the ONNX Loop document: 6, [12, -6], False after 2 iterations."""
    return demos["sum_and_difference"]


DOUBLE = """
Double:
    format: ModECI MDF v0.4
    graphs:
        main:
            nodes:
                twice:
                    input_ports:
                        x: {default_value: 1}
                    parameters:
                        half: {value: x / 2}
                    output_ports:
                        y: {value: x * 2}
                        inverse: {value: 1 / numpy.float64(x)}
            edges: {}
"""

GROWTH = """
Growth:
    format: ModECI MDF v0.4
    graphs:
        main:
            nodes:
                grow:
                    input_ports:
                        x: {default_value: 1}
                    functions:
                        f:
                            function: onnx::Loop
                            args:
                                v_initial: x
                                body:
                                    step:
                                        metadata: {inputs: [i, go, x], outputs: [go_on, x_next]}
                                        nodes:
                                            n:
                                                input_ports: {x: {}}
                                                output_ports:
                                                    x_next: {value: x + 1}
                                                    go_on: {value: x < 100}
                    output_ports:
                        x_final: {value: f}
            edges: {}
"""


@pytest.fixture
def double(tmp_path: Path) -> Path:
    """Return a model without loops: y = 2 x, inverse = 1 / x, and a parameter half = x / 2."""
    path = tmp_path / "double.yaml"
    path.write_text(DOUBLE)
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Return a loop without trip count and condition, in which x increases by 1."""
    path = tmp_path / "endless.yaml"
    path.write_text(GROWTH)
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return a model with two errors."""
    path = tmp_path / "broken.yaml"
    path.write_text(DOUBLE.replace("x * 2", "z * 2").replace("x / 2", "numpy.exq(x)"))
    return path
