"""User-supplied arrays: byte orders are converted, and arrays of unsupported dtypes are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, Model, Node, OutputPort, Parameter

import mdf_loop
from mdf_loop.archives import read_arrays
from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.errors import InputError, LoopError

NODE: dict[str, Any] = {
    "input_ports": {"x": {"shape": [3]}},
    "parameters": {
        "k": {"value": 2.0},
        "s": {"value": "s + x", "default_initial_value": [0.0, 0.0, 0.0]},
    },
    "output_ports": {"y": {"value": "k * x"}, "s": {"value": "s"}},
}
MODEL = mdf_loop.compile({"m": {"nodes": {"A": NODE}}}, device="cpu")
NUMBERS = np.array([1.0, 2.5, -3.0])
TYPES = (">f8", "<f8", ">f4", ">f2", ">i8", ">i4", ">u2", "?")
REFUSED = {
    "masked": (np.ma.MaskedArray(NUMBERS), "(?s)is masked.*hint: fill them first"),
    "masked element": (np.ma.MaskedArray(NUMBERS, [0, 1, 0]), "is masked"),
    "list with a masked one": ([1.0, np.ma.masked, 2.0], "is masked"),
    "longdouble": (NUMBERS.astype(np.longdouble), "no model computes with numbers so wide"),
    "complex": (NUMBERS.astype(complex), "number"),
    "big-endian complex": (NUMBERS.astype(">c16"), "number"),
    "objects": (NUMBERS.astype(object), "number"),
    "times": (NUMBERS.astype("M8[s]"), "number"),
    "differences of times": (NUMBERS.astype("m8[s]"), "number"),
    "records": (np.zeros(3, "f8, i4"), "number"),
    "what makes no array": (type("X", (), {"__array__": lambda *_: 1 + ""})(), "made an array"),
}


@pytest.mark.parametrize("dtype", TYPES)
def test_byte_orders_do_not_change_results(dtype: str) -> None:
    array = np.array([1, 2, 3]).astype(dtype)
    plain = array.astype(array.dtype.newbyteorder("="))
    for name, arguments in {
        "inputs": {"inputs": {"x": array}},
        "set": {"inputs": {"x": NUMBERS}, "set": {"A.k": array}},
        "initial": {"inputs": {"x": NUMBERS}, "set": {"A.s": array}, "steps": 2},
        "sweep": {"inputs": {"x": NUMBERS}, "sweep": {"A.k": array}},
        "sweep of an input": {"sweep": {"x": array}},
        "over time": {"inputs": {"x": np.stack([array, array])}, "steps": 2},
    }.items():
        native = {
            word: {n: v.astype(v.dtype.newbyteorder("=")) for n, v in values.items()}
            if isinstance(values, dict)
            else values
            for word, values in arguments.items()
        }
        results, expected = MODEL.run(**arguments), MODEL.run(**native)  # type: ignore[arg-type]
        for port in ("A.y", "A.s"):
            np.testing.assert_array_equal(results[port], expected[port], err_msg=f"{name} {port}")
            assert results[port].dtype.isnative
    np.testing.assert_array_equal(as_supported_array(array, "x"), plain)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("way", ["input", "set", "initial", "sweep", "sweep of an input"])
def test_unsupported_arrays_are_refused(kind: str, way: str) -> None:
    value, match = REFUSED[kind]
    arguments: dict[str, Any] = {
        "input": {"inputs": {"x": value}},
        "set": {"set": {"A.k": value}},
        "initial": {"set": {"A.s": value}, "steps": 2},
        "sweep": {"sweep": {"A.k": value}},
        "sweep of an input": {"sweep": {"x": value}},
    }[way]
    with pytest.raises(InputError, match=match) as caught:
        MODEL.run(**{"inputs": {} if "sweep of" in way else {"x": NUMBERS}, **arguments})
    assert "x'" in str(caught.value) or "A." in str(caught.value)


def test_states_with_any_byte_order() -> None:
    state = MODEL.run({"x": NUMBERS}, steps=2).state
    assert state is not None
    swapped_state = {
        name: array.astype(array.dtype.newbyteorder(">")) for name, array in state.items()
    }
    results = MODEL.run({"x": NUMBERS}, steps=2, state=swapped_state)
    np.testing.assert_array_equal(results["A.s"][-1], 4 * NUMBERS)
    with pytest.raises(InputError, match="of the state is masked"):
        MODEL.run({"x": NUMBERS}, steps=2, state={**state, "time": np.ma.MaskedArray(1.0)})


@pytest.mark.parametrize("value", [NUMBERS.astype(">f8"), np.array([1, 2, 3], ">i4")])
def test_arrays_in_a_python_model(value: Any) -> None:
    node = Node(id="A")
    node.parameters.append(Parameter(id="w", value=value))
    node.output_ports.append(OutputPort(id="y", value="2 * w"))
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    np.testing.assert_array_equal(mdf_loop.compile(model, device="cpu").run()["A.y"], 2 * value)
    node.parameters[0].value = np.ma.MaskedArray(value)
    with pytest.raises(LoopError, match="is masked"):
        mdf_loop.compile(model, device="cpu").run()
    node.parameters[0].value = value.astype(np.longdouble)
    with pytest.raises(LoopError, match="numbers so wide"):
        mdf_loop.compile(model, device="cpu").run()


def test_files_with_any_byte_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=NUMBERS.astype(">f8"))
    assert read_arrays(tmp_path / "a.npz")["x"].dtype == np.dtype("=f8")
    weights = {
        "value": {"npz": "a.npz", "array": "x"},
        "metadata": {"dtype": "float64"},
    }
    node = {"parameters": {"w": weights}, "output_ports": {"y": {"value": "w"}}}
    content = {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}
    (tmp_path / "m.json").write_text(json.dumps(content))
    results = mdf_loop.compile(tmp_path / "m.json", device="cpu").run()
    np.testing.assert_array_equal(results["A.y"], NUMBERS)
    np.savez(tmp_path / "a.npz", x=NUMBERS.astype(np.longdouble))
    with pytest.raises(LoopError, match=r"'x' of 'a.npz' is \w+: no model computes"):
        mdf_loop.compile(tmp_path / "m.json", device="cpu")
    with pytest.raises(InputError, match="numbers so wide"):
        read_arrays(tmp_path / "a.npz")


def test_a_ragged_list_has_its_own_exception() -> None:
    with pytest.raises(Ragged):
        as_supported_array([[1], [2, 3]], "x")
