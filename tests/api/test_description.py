"""A compiled model describes its inputs, parameters, states and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

import mdf_loop
from mdf_loop.api.description import Description
from mdf_loop.html_tables import MAX_ROWS

NEURON = Path(mdf_loop.__file__).parent / "starts" / "neuron.yaml"


def compiled(graph: str) -> mdf_loop.CompiledModel:
    content = yaml.safe_load(graph)
    return mdf_loop.compile({"m": {"format": "ModECI MDF v0.4", "graphs": {"g": content}}})


def test_a_neuron_has_units_defaults_and_a_state() -> None:
    model = mdf_loop.compile(NEURON)
    assert model.inputs == {"current": Description("float64", (), "nA", 2.0)}
    assert model.parameters["cell.tau"] == Description("float64", (), "ms", 10.0)
    assert model.states == {"cell.v": Description("float64", (), "mV", "v_rest")}
    assert "cell.v" not in model.parameters
    assert model.outputs["cell.v"] == Description("float64", (), "mV")
    assert model.outputs["cell.spike"].type == "bool[]"


def test_print_and_html_show_the_same_rows() -> None:
    model = mdf_loop.compile(NEURON)
    text, table = str(model), model._repr_html_()
    assert text.splitlines()[0] == "model 'neuron.yaml'"
    for name in (*model.inputs, *model.parameters, *model.states, *model.outputs):
        assert name in text
        assert f"<td>{name}</td>" in table


def test_keys_are_the_names_that_a_run_takes_and_returns() -> None:
    model = compiled("""
        nodes:
            A: {input_ports: {x: {default_value: 1.0}}, output_ports: {y: {value: x}}}
            B: {input_ports: {x: {default_value: [1, 2]}, z: {shape: [3], type: float}}, output_ports: {y: {value: 'x + z[0]'}}}
    """)
    assert {name: item.type for name, item in model.inputs.items()} == {
        "A.x": "float64[]",
        "B.x": "int64[2]",
        "z": "float64[3]",
    }
    assert model.inputs["z"].default == [0.0, 0.0, 0.0]
    assert list(model.outputs) == list(model.run({"A.x": 2.0, "B.x": [3, 4]}))


def test_parameters_with_expressions_and_of_every_dtype() -> None:
    model = compiled("""
        nodes:
            A:
                parameters:
                    n: {value: 3}
                    flag: {value: true}
                    double: {value: 2 * n}
                    count: {default_initial_value: 0, value: count + n}
                output_ports: {y: {value: numpy.arange(double)}}
    """)
    assert model.parameters == {
        "A.n": Description("int64", (), "", 3),
        "A.flag": Description("bool", (), "", True),
        "A.double": Description("int64", (), "", "2 * n"),
    }
    assert model.states == {"A.count": Description("int64", (), "", 0)}


def test_an_input_of_a_network_that_must_be_given_has_no_default() -> None:
    network = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[2, n] x) => (float[2, n] y) { y = Neg (x) }'
    )
    model = mdf_loop.compile(mdf_loop.from_onnx(network))
    assert model.inputs == {"x": Description("float32", (2, "n"))}
    assert [item.type for item in model.outputs.values()] == ["float32[2, n]"]


def test_tables_are_short_and_escaped() -> None:
    parameters: dict[str, Any] = {f"p{k}": {"value": k} for k in range(MAX_ROWS + 5)}
    node = {"parameters": parameters, "output_ports": {"y": {"value": "p0"}}}
    model = mdf_loop.compile(
        {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"A": node}}}}}
    )
    assert len(str(model).splitlines()) == MAX_ROWS + 2
    assert "... and 6 more" in str(model)
    assert len(model.parameters) == MAX_ROWS + 5
    comparison = compiled(
        "nodes: {A: {parameters: {p: {value: 1 < 2}}, output_ports: {y: {value: p}}}}"
    )
    assert "<td>1 &lt; 2</td>" in comparison._repr_html_()


def test_a_model_that_cannot_be_evaluated_is_still_shown() -> None:
    model = compiled("nodes: {A: {output_ports: {y: {value: x + 1}}}}")
    assert "which cannot be evaluated: unknown name 'x'" in repr(model)
    assert model._repr_html_() is None
    with pytest.raises(mdf_loop.LoopError, match="x"):
        _ = model.inputs
