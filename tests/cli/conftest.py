"""The command line as tests call it: `cli("run", path, "--json")`, and models to call it with."""

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
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object that was printed; strict JSON, without NaN and Infinity."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is no JSON")

        return json.loads(self.out, parse_constant=refuse)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli() -> Cli:
    """Run a command in this process; anything but an orderly exit fails the test."""

    def run(*arguments: Any) -> Outcome:
        result = CliRunner().invoke(
            commands, [str(argument) for argument in arguments], prog_name="mdf-loop"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def demos() -> dict[str, Path]:
    """The models of `mdf-loop demo`, by name."""
    return {demo.name: demo.path for demo in DEMOS}


@pytest.fixture
def sample(demos: dict[str, Path]) -> Path:
    """The sample of the ONNX Loop document: 6, [12, -6], False after 2 iterations."""
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
    """A model without loops: y = 2 x, inverse = 1 / x, and a parameter half = x / 2."""
    path = tmp_path / "double.yaml"
    path.write_text(DOUBLE)
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A loop with neither trip count nor condition: x grows by 1."""
    path = tmp_path / "endless.yaml"
    path.write_text(GROWTH)
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A model with two mistakes."""
    path = tmp_path / "broken.yaml"
    path.write_text(DOUBLE.replace("x * 2", "z * 2").replace("x / 2", "numpy.exq(x)"))
    return path
