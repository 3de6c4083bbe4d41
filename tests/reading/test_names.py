"""Outputs of a model: its end ports, or its parameters if it has no output port."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.importing.opening import open_document
from mdf_loop.reading import names
from mdf_loop.reading.names import named_items, output_names
from mdf_loop.specification import Selection

NO_PORTS = """
nodes:
    A:
        functions:
            twice: {function: linear, args: {variable0: fixed, slope: 2, intercept: 0}}
        parameters:
            fixed: {value: 1.5}
            count: {value: count + 1}
            level: {default_initial_value: 0.0, time_derivative: twice}
    B:
        parameters:
            pair: {value: [3, 4.0]}
"""

NAMES = ["A.fixed", "A.count", "A.level", "B.pair"]

LOOP = """
nodes:
    A:
        functions:
            f: {function: onnx::Loop, args: {M: 3, v_initial: 1.0, body: body}}
        parameters:
            body:
                value:
                    net:
                        metadata: {inputs: [i, go, x], outputs: [go_on, z]}
                        nodes:
                            s:
                                input_ports: {x: {}}
                                output_ports: {z: {value: 2 * x}, go_on: {value: x < 99}}
            last: {function: linear, args: {variable0: f, slope: 1, intercept: 0}}
"""


def test_a_model_without_output_ports_gives_its_parameters(mdf: Any) -> None:
    results = mdf_loop.compile(mdf(NO_PORTS)).run()
    assert list(results) == NAMES
    assert [results[name].tolist() for name in NAMES] == [1.5, 1, 0.0, [3.0, 4.0]]


def test_over_time(mdf: Any) -> None:
    compiled = mdf_loop.compile(mdf(NO_PORTS))
    results = compiled.run(steps=3, dt=0.5)
    assert results["A.count"].tolist() == [1, 2, 3]
    assert results["A.level"].tolist() == [0.0, 1.5, 3.0]
    assert results["B.pair"].shape == (3, 2)
    engine = compiled.run(steps=3, dt=0.5, engine="modeci")
    for name in NAMES:
        np.testing.assert_array_equal(engine[name], results[name])
    assert list(compiled.run(steps=3, dt=0.5, only=["A.level"])) == ["A.level"]


@pytest.mark.parametrize("steps", [None, 4])
def test_verify_compares_parameters_of_models_without_ports(mdf: Any, steps: int | None) -> None:
    verification = mdf_loop.verify(mdf(NO_PORTS), steps=steps, dt=None if steps is None else 0.5)
    assert verification.bit_for_bit
    names = {c.name for c in verification.comparisons if c.engine == "modeci_mdf"}
    assert names >= set(NAMES)


def test_parameters_are_outputs_of_the_onnx_file(mdf: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    mdf_loop.compile(mdf(NO_PORTS)).save(path)
    session = onnxruntime.InferenceSession(path)
    assert [output.name for output in session.get_outputs()] == NAMES
    mdf_loop.draw(mdf(NO_PORTS), tmp_path / "model.svg")
    assert "level" in (tmp_path / "model.svg").read_text()


def test_a_parameter_that_holds_a_graph_is_no_output(mdf: Any) -> None:
    results = mdf_loop.compile(mdf(LOOP)).run()
    assert dict(results) == {"A.last": 8.0}


def test_one_port_is_enough_to_be_the_output(mdf: Any) -> None:
    text = NO_PORTS + "        output_ports: {y: {value: pair}}\n"
    assert list(output_names(open_document(mdf(text)))) == ["B.y"]


def test_the_index_of_names_is_freed_with_its_document(mdf: Any) -> None:
    document = open_document(mdf(NO_PORTS))
    assert list(named_items(document)) == NAMES
    assert list(named_items(document, Selection(record=("A.twice",)))) == [*NAMES, "A.twice"]
    assert list(named_items(document)) == NAMES
    known = len(names._NAME_INDEXES)
    reference = weakref.ref(document)
    del document
    gc.collect()
    assert reference() is None
    assert len(names._NAME_INDEXES) < known


def test_the_parameters_example_of_mdf(shared: Path) -> None:
    path = shared / "models" / "MDF" / "ParametersFunctions.yaml"
    assert len(mdf_loop.compile(path).run()) == 7
    assert mdf_loop.verify(path, steps=4, dt=0.5).bit_for_bit
