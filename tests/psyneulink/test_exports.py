"""Exports of PsyNeuLink 0.21 (see `make_data.py`) compared with the numbers that PsyNeuLink computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.errors import CycleError, LoopError, UnknownFunctionError, UnsupportedError
from mdf_loop.importing.opening import open_document
from tests.documents import blocks

DATA = Path(__file__).parent / "data"
DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "run-psyneulink-models.md"
EXPORTS = {
    path.stem: path for path in DATA.iterdir() if path.is_file() and ".numbers" not in path.name
}

PORT_SUFFIX = "_input_port_from__INPUT_CIM_A_InputPort_0__to__A_InputPort_0_"
"""Suffix that the exporter adds to the name of an input port that also receives a projection."""

INCOMPLETE: dict[str, tuple[list[str], list[str]]] = {
    "left_out": ([], ["Scaled.Scaled_RESULT", "Tanh.Tanh_OutputPort_0", "Clipped.Clipped_RESULT"]),
    "two_senders": (["A.A_RESULT", "B.B_RESULT"], ["C.C_RESULT"]),
    "recurrent": ([], ["A.A_RESULT"]),
    "competing": ([], ["A.A_RESULT"]),
    "drift_diffusion_analytical": (
        [],
        ["DDM.DDM_DECISION_VARIABLE", "DDM.DDM_RESPONSE_TIME"],
    ),
    "ddm_trials": ([], ["DDM.DDM_DECISION_VARIABLE", "DDM.DDM_RESPONSE_TIME"]),
}
"""Exports that omit parts of the model: outputs that agree with PsyNeuLink, and outputs that differ."""

REFUSED: dict[str, tuple[type[LoopError], str]] = {
    "nested": (UnsupportedError, "the node 'inner' is a graph with nodes of its own"),
    "python_function": (UnknownFunctionError, "unknown function 'doubled'"),
    "python_condition": (UnsupportedError, "it calls Python code"),
    "when_finished": (UnsupportedError, "it asks nodes whether they are finished"),
    "circle": (CycleError, "the nodes 'A', 'B' wait for each other"),
}
AGREE = sorted(EXPORTS.keys() - INCOMPLETE.keys() - REFUSED.keys())


def numbers(name: str) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return inputs, outputs and the number of trials."""
    content = json.loads((DATA / f"{name}.numbers.json").read_text())
    steps = len(next(iter(content["inputs"].values())))
    return content["inputs"], content["outputs"], steps


def run(name: str, source: Any = None) -> Any:
    inputs, outputs, steps = numbers(name)
    if name in ("recurrent", "competing"):
        inputs = {f"{port}{PORT_SUFFIX}": [row[0] for row in rows] for port, rows in inputs.items()}
    model = mdf_loop.compile(EXPORTS[name] if source is None else source)
    return model.run(inputs, steps=steps, record=list(outputs))


def agrees(actual: Any, expected: list[Any]) -> bool:
    """Return True if rows equal those of PsyNeuLink, including the missing rows of nodes that have not run.

    Rows of PsyNeuLink lack the axis of the items of a mechanism's value.
    """
    width = max((np.size(row) for row in expected if row is not None), default=1)
    rows = [np.full(width, np.nan) if row is None else np.ravel(row) for row in expected]
    actual_rows = np.reshape(actual, (len(expected), -1))
    same_shape = actual_rows.shape == np.shape(rows)
    return same_shape and np.allclose(actual_rows, rows, rtol=1e-12, atol=1e-14, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGREE)
def test_outputs_equal_psyneulink(name: str) -> None:
    results = run(name)
    _, outputs, _ = numbers(name)
    for output, expected in outputs.items():
        assert agrees(results[output], expected), output


@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_exports_differ_from_psyneulink(name: str) -> None:
    results = run(name)
    _, outputs, _ = numbers(name)
    agree, differ = INCOMPLETE[name]
    for output in agree:
        assert agrees(results[output], outputs[output]), output
    for output in differ:
        assert not agrees(results[output], outputs[output]), output


def test_the_first_port_of_an_analytical_ddm_is_the_time() -> None:
    """Check the port order: the export omits that the mechanism puts the decision first."""
    _, outputs, _ = numbers("drift_diffusion_analytical")
    times = run("drift_diffusion_analytical")["DDM.DDM_DECISION_VARIABLE"]
    assert agrees(times, outputs["DDM.DDM_RESPONSE_TIME"])


@pytest.mark.parametrize("name", ["two_senders", "recurrent", "competing"])
def test_incomplete_exports_can_be_completed(name: str) -> None:
    """Complete the export with the function in the how-to page, and compare all outputs."""
    page = DOCUMENT.read_text()
    (code,) = [b.text for b in blocks(page) if "def completed(" in b.text]
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    content = yaml.safe_load(EXPORTS[name].read_text())
    results = run(name, namespace["completed"](content))
    for output, expected in numbers(name)[1].items():
        assert agrees(results[output], expected), output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two_senders", "recurrent", "competing", "left_out"])
def test_modeci_mdf_computes_the_same_from_an_export(name: str) -> None:
    _, _, steps = numbers(name)
    graph = open_document(EXPORTS[name]).graph
    inputs = {
        port.id: np.linspace(0.5, 1.0, int(np.prod(port.shape))).reshape(port.shape)
        for node in graph.nodes
        for port in node.input_ports
        if (node.id, port.id) not in {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    }
    verification = mdf_loop.verify(EXPORTS[name], inputs, steps=steps)
    assert verification.equal, str(verification)


@pytest.mark.parametrize("name", REFUSED)
def test_python_objects_are_refused_by_name(name: str) -> None:
    error, sentence = REFUSED[name]
    with pytest.raises(error, match=sentence):
        mdf_loop.read(EXPORTS[name])
