"""Binding of run values to inputs; values of a known dtype and shape skip the full check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, InputPort, Node, OutputPort

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.reading import binding
from mdf_loop.reading.binding import InputBinder
from mdf_loop.specification import Values


def graph(**ports: Any) -> Graph:
    """Return a node that adds its input ports."""
    node = Node("A")
    node.input_ports = [InputPort(name, **stated) for name, stated in ports.items()]
    node.output_ports = [OutputPort("sum", value=" + ".join(ports))]
    mdf_graph = Graph("g")
    mdf_graph.nodes = [node]
    return mdf_graph


class Watched:
    """Inputs of a graph; `looked` counts the full checks of values."""

    def __init__(self, source: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looked = 0
        self._inputs = InputBinder(open_document(source), Options())
        original_function = binding.bind

        def counted(*arguments: Any) -> Any:
            self.looked += 1
            return original_function(*arguments)

        monkeypatch.setattr(binding, "bind", counted)

    def bound(self, inputs: dict[str, Any], **more: Any) -> binding.BoundValues:
        return self._inputs.bind(Values(inputs), **more)


def test_known_array_types_skip_the_full_check(monkeypatch):
    watched = Watched(graph(x={"shape": (2,)}, y={"default_value": 1.5}), monkeypatch)
    first = watched.bound({"x": np.array([1.0, 2.0])})
    second = watched.bound({"x": np.array([3.0, 4.0])})
    assert watched.looked == 1
    assert second.input_types is first.input_types
    assert {name: array.tolist() for name, array in second.arrays.items()} == {
        "x": [3.0, 4.0],
        "y": 1.5,
    }


def test_inputs_by_qualified_name_skip_the_full_check(monkeypatch):
    watched = Watched(graph(x={"shape": (2,)}), monkeypatch)
    for value in ([1.0, 2.0], [3.0, 4.0]):
        assert watched.bound({"A.x": np.array(value)}).arrays["x"].tolist() == value
    assert watched.looked == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([1.0, 2.0]), np.array([1, 2])),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0], np.float32)),
        (np.array([1.0, 2.0]), np.array(2.0)),
        ([1.0, 2.0], [1.0, 2.0]),
        (np.array(1.0), np.array(2.0)),  # a number is broadcast to all elements
        (np.ma.array([1.0, 2.0]), np.array([1.0, 2.0])),
    ],
    ids=["dtype", "precision", "shape", "lists", "one number", "masked"],
)
def test_other_values_are_checked_fully(monkeypatch, first, second):
    watched = Watched(graph(x={"shape": (2,), "type": "float64"}), monkeypatch)
    for value in (first, second):
        if isinstance(value, np.ma.MaskedArray):
            with pytest.raises(InputError, match="is masked"):
                watched.bound({"x": value})
        else:
            watched.bound({"x": value})
    assert watched.looked == 2


def test_invalid_arrays_are_refused_after_valid_ones(monkeypatch):
    watched = Watched(graph(x={"shape": (2,)}), monkeypatch)
    watched.bound({"x": np.array([1.0, 2.0])})
    with pytest.raises(InputError, match=r"has the shape \[2\], but what is given has \[3\]"):
        watched.bound({"x": np.array([1.0, 2.0, 3.0])})
    with pytest.raises(InputError, match="no input 'z'"):
        watched.bound({"x": np.array([1.0, 2.0]), "z": np.array(1.0)})


def test_narrowed_numbers_are_checked_in_each_run():
    compiled = mdf_loop.compile(graph(x={"shape": (1,)}), device="cpu", precision="float32")
    assert compiled.run({"x": np.array([0.5])})["A.sum"].dtype == np.float32
    with pytest.raises(InputError, match="too large for float32"):
        compiled.run({"x": np.array([1e300])})


@pytest.mark.parametrize(
    ("written", "other"), [(1.5, 2.5), (1, 2), (None, 3)], ids=["float", "int", "nothing"]
)
def test_a_replaced_default_value_applies_to_the_next_run(written, other):
    model = graph(x={"shape": (2,)}, y={"default_value": written})
    compiled = mdf_loop.compile(model, device="cpu")
    inputs = {"x": np.array([1.0, 2.0])}
    before = compiled.run(inputs)["A.sum"]
    assert before.tolist() == compiled.run(inputs)["A.sum"].tolist()
    model.nodes[0].input_ports[1].default_value = other
    assert compiled.run(inputs)["A.sum"].tolist() == (inputs["x"] + other).tolist()


def test_defaults_are_checked_in_runs_over_time_without_inputs(monkeypatch):
    model = graph(y={"default_value": 1.5})
    compiled = mdf_loop.compile(model, device="cpu")
    looked = []
    look = InputBinder._bind_uncached
    monkeypatch.setattr(
        InputBinder, "_bind_uncached", lambda *arguments: looked.append(1) or look(*arguments)
    )
    for steps in (2, 3, 2):
        assert compiled.run(steps=steps)["A.sum"].tolist() == [1.5] * steps
    assert len(looked) == 1
    model.nodes[0].input_ports[0].default_value = 4.0
    assert compiled.run(steps=2)["A.sum"].tolist() == [4.0, 4.0]


def test_a_changed_default_list_applies_to_the_next_run():
    model = graph(x={"shape": (2,)}, y={"default_value": [1.0, 2.0]})
    compiled = mdf_loop.compile(model, device="cpu")
    inputs = {"x": np.array([0.0, 0.0])}
    assert [compiled.run(inputs)["A.sum"].tolist() for _ in range(2)] == [[1.0, 2.0]] * 2
    model.nodes[0].input_ports[1].default_value[0] = 5.0
    assert compiled.run(inputs)["A.sum"].tolist() == [5.0, 2.0]
    model.nodes[0].input_ports[1].default_value[:] = [7]
    assert compiled.run(inputs)["A.sum"].tolist() == [7.0, 7.0]


def test_runs_over_time_and_single_evaluations_bind_separately():
    compiled = mdf_loop.compile(graph(x={"shape": (2,)}), device="cpu")
    inputs = {"x": np.array([[1.0, 2.0], [3.0, 4.0]])}
    assert compiled.run(inputs, steps=2)["A.sum"].tolist() == inputs["x"].tolist()
    with pytest.raises(InputError, match="has the shape"):
        compiled.run(inputs)
