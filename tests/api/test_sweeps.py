"""Sweeps: all members in one run equal single runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError
from tests.models.timed import ALL, ARRAYS, NEURON, SCHEDULED, graph

SWEEPS = {
    "a parameter": ("neuron", {"fn.a": [0.1, 0.7, 1.5]}),
    "an initial value": ("neuron", {"fn.v": [-1.0, 0.0, 1.0]}),
    "the parameter that a state starts from": ("neuron", {"fn.start": [-1.0, 0.5]}),
    "an input": ("neuron", {"I": [0.0, 0.25, 0.5, 1.0]}),
    "several": ("neuron", {"fn.a": [0.1, 0.7], "I": [0.0, 1.0]}),
    "one member": ("neuron", {"fn.b": [0.5]}),
    "two nodes": ("pair", {"source.gain": [0.0, 0.5, 2.0], "cell.tau": [1.0, 2.0, 4.0]}),
    "a counter": ("pair", {"source.n": [0, 5, 10]}),
    "an input of a pair": ("pair", {"drive": [0, 1, 2]}),
    "a matrix": ("arrays", {"net.W": np.arange(27.0).reshape(3, 3, 3) / 16}),
    "a vector": ("arrays", {"net.r": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]}),
    "vectors of an input": ("arrays", {"I": [[0.0, 0.0, 1.0], [0.5, 0.5, 0.5]]}),
    "a number for arrays": ("arrays", {"net.leak": [0.5, 0.25]}),
    "when a node runs": ("scheduled", {"fast.step": [1, 2, 3]}),
}


def run_members(model: Any, sweep: dict[str, Any], **how: Any) -> list[Any]:
    """Run each member of the sweep alone."""
    compiled = mdf_loop.compile(model, device="cpu")
    parameters = {name for name in sweep if "." in name}
    member_results = []
    for k in range(len(next(iter(sweep.values())))):
        values = {name: np.asarray(rows)[k] for name, rows in sweep.items()}
        inputs = {name: value for name, value in values.items() if name not in parameters}
        settings = {name: value for name, value in values.items() if name in parameters}
        member_results.append(compiled.run(inputs, set=settings, **how))
    return member_results


def all_same(swept: Any, singles: list[Any]) -> None:
    assert list(swept) == list(singles[0])
    for name in swept:
        assert len(swept[name]) == len(singles)
        for row, single in zip(swept[name], singles, strict=True):
            assert row.shape == single[name].shape
            np.testing.assert_allclose(row, single[name], rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("what", SWEEPS)
@pytest.mark.parametrize(
    "how", [{}, {"steps": 1}, {"steps": 12, "dt": 0.5}, {"steps": 11, "dt": 0.25, "every": 4}]
)
def test_a_sweep_is_a_loop_over_single_runs(what, how):
    name, sweep = SWEEPS[what]
    sweep_run = mdf_loop.compile(ALL[name], device="cpu").run(sweep=sweep, **how)
    all_same(sweep_run, run_members(ALL[name], sweep, **how))
    batch = sweep_run.axes[0]
    assert batch.name == "batch"
    assert list(batch.coordinates) == list(sweep)
    for key, values in sweep.items():
        np.testing.assert_array_equal(batch.coordinates[key], values)
    assert [axis.name for axis in sweep_run.axes] == (
        ["batch", "time"] if "steps" in how else ["batch"]
    )


def test_arithmetic_is_bit_equal():
    sweep = {"fn.a": np.linspace(0, 1, 20)}
    sweep_run = mdf_loop.compile(NEURON, device="cpu").run(sweep=sweep, steps=30, dt=0.5)
    for k, single in enumerate(run_members(NEURON, sweep, steps=30, dt=0.5)):
        np.testing.assert_array_equal(sweep_run["v"][k], single["v"])


def test_a_number_swept_over_vectors():
    """Check that a scalar parameter can be swept over vectors."""
    sweep = {"fn.v": [[0.0, 1.0], [0.5, 1.5], [1.0, 2.0]]}
    sweep_run = mdf_loop.compile(NEURON, device="cpu").run(sweep=sweep, steps=6, dt=0.5)
    assert sweep_run["v"].shape == (3, 6, 2)
    all_same(sweep_run, run_members(NEURON, sweep, steps=6, dt=0.5))


@pytest.mark.parametrize("how", [{}, {"every": 2}, {"every": 3}])
def test_inputs_over_time_are_swept(how):
    rows = np.random.default_rng(1).normal(size=(4, 9))
    sweep_run = mdf_loop.compile(NEURON, device="cpu").run(
        sweep={"I": rows}, steps=9, dt=0.5, **how
    )
    all_same(sweep_run, run_members(NEURON, {"I": rows}, steps=9, dt=0.5, **how))


def test_vectors_over_time_are_swept():
    rows = np.random.default_rng(2).normal(size=(2, 5, 3))
    sweep_run = mdf_loop.compile(ARRAYS, device="cpu").run(sweep={"I": rows}, steps=5, dt=0.5)
    all_same(sweep_run, run_members(ARRAYS, {"I": rows}, steps=5, dt=0.5))


def test_an_input_over_time_beside_a_swept_parameter():
    rows = np.random.default_rng(3).normal(size=7)
    compiled = mdf_loop.compile(NEURON, device="cpu")
    sweep_run = compiled.run({"I": rows}, sweep={"fn.a": [0.1, 0.9]}, steps=7, dt=0.5)
    singles = [compiled.run({"I": rows}, set={"fn.a": a}, steps=7, dt=0.5) for a in (0.1, 0.9)]
    all_same(sweep_run, singles)


def test_other_values_need_no_new_session():
    compiled = mdf_loop.compile(NEURON, device="cpu")
    compiled.run(sweep={"fn.a": [0.1, 0.2]}, steps=5, dt=0.5)
    (timed,) = compiled.prepared._time_sessions._values.values()
    sessions = dict(timed._sessions)
    compiled.run(sweep={"fn.a": [0.3, 0.4, 0.5]}, steps=9, dt=0.1)
    assert list(compiled.prepared._time_sessions._values.values()) == [timed]
    assert timed._sessions == sessions


# --- names --------------------------------------------------------------------------------------

SHARED_ID = graph(
    A={"input_ports": {"x": {"default_value": 1.0}}, "output_ports": {"y": {"value": "x * 2"}}},
    B={"input_ports": {"x": {"default_value": 1.0}}, "output_ports": {"y": {"value": "x * 3"}}},
)


@pytest.mark.parametrize("name", ["I", "cell.I"])
@pytest.mark.parametrize("steps", [None, 3])
def test_a_swept_input_has_its_unit_by_every_name(name, steps):
    port = {"default_value": 0.0, "metadata": {"units": "pA"}}
    cell = {"input_ports": {"I": port}, "output_ports": {"v": {"value": "2 * I"}}}
    compiled = mdf_loop.compile({"g": {"nodes": {"cell": cell}}})
    results = compiled.run(sweep={name: [1.0, 2.0]}, steps=steps)
    assert results.units[name] == "pA"
    assert compiled.run(sweep=mdf_loop.grid({name: [1.0, 2.0]})).units[name] == "pA"


def test_an_id_of_ports_with_different_units_has_none():
    nodes = {
        name: {
            "input_ports": {"I": {"default_value": 0.0, "metadata": {"units": unit}}},
            "output_ports": {"v": {"value": "2 * I"}},
        }
        for name, unit in (("a", "pA"), ("b", "nA"))
    }
    results = mdf_loop.compile({"g": {"nodes": nodes}}).run(sweep={"I": [1.0, 2.0]})
    assert "I" not in results.units


def test_an_id_that_several_nodes_have_means_all_of_them():
    compiled = mdf_loop.compile(SHARED_ID, device="cpu")
    results = compiled.run(sweep={"x": [1.0, 2.0]})
    assert (results["A.y"].tolist(), results["B.y"].tolist()) == ([2, 4], [3, 6])
    results = compiled.run({"A.x": 5.0}, sweep={"x": [1.0, 2.0]})
    assert (results["A.y"].tolist(), results["B.y"].tolist()) == ([10, 10], [3, 6])
    results = compiled.run({"x": 5.0}, sweep={"A.x": [1.0, 2.0]})
    assert (results["A.y"].tolist(), results["B.y"].tolist()) == ([2, 4], [15, 15])


WHOLE = graph(
    n={
        "input_ports": {"k": {"type": "int", "default_value": 1}},
        "output_ports": {"y": {"value": "k * 2"}},
    }
)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (NEURON, {"sweep": {"fn.a": 0.5}}, "the sweep of 'fn.a' is no list of numbers: 0.5"),
        (NEURON, {"sweep": {"fn.a": []}}, "the sweep of 'fn.a' is no list of numbers"),
        (NEURON, {"sweep": {"fn.a": ["x"]}}, "the sweep of 'fn.a' is no list of numbers"),
        (NEURON, {"sweep": {"fn.a": [[1], [1, 2]]}}, "have different shapes"),
        (
            NEURON,
            {"sweep": {"fn.a": [1, 2], "I": [1, 2, 3]}},
            "all values of a sweep must be equally many, but 'fn.a' has 2, 'I' has 3",
        ),
        (NEURON, {"sweep": {"fn.x": [1, 2]}}, "the model has no parameter 'fn.x'"),
        (
            NEURON,
            {"sweep": {"fn.a": [1, 2]}, "set": {"fn.a": 1}},
            "'fn.a' is swept, so it cannot be given one value too",
        ),
        (NEURON, {"sweep": {"I": [1, 2]}, "inputs": {"I": 1}}, "'I' is swept, so it cannot"),
        (
            NEURON,
            {"sweep": {"I": [1, 2]}, "inputs": {"fn.I": 1}},
            "'I' is swept, but 'fn.I' means the same input",
        ),
        (
            NEURON,
            {"sweep": {"I": [1, 2], "fn.I": [3, 4]}},
            "'I' is swept, but 'fn.I' means the same input",
        ),
        (WHOLE, {"sweep": {"k": [1, 2.5]}}, "the input 'k' must be int64, but [1.0, 2.5] is not"),
        (
            NEURON,
            {"sweep": {"fn.a": [1, 2]}, "engine": "modeci"},
            "modeci_mdf's engine takes no sweep",
        ),
        (
            SCHEDULED,
            {"sweep": {"fast.step": [1, 2]}, "steps": 3, "execution_list": True},
            "a sweep has no execution_list where that is decided while running",
        ),
    ],
)
def test_invalid_sweeps_are_refused(model, options, sentence):
    with pytest.raises(LoopError) as caught:
        mdf_loop.compile(model, device="cpu").run(**options)
    assert sentence in str(caught.value)
    assert isinstance(caught.value, InputError)


CHOOSES = graph(
    n={
        "input_ports": {"stop": {"default_value": 3}},
        "functions": {
            "f": {
                "function": "onnx::Loop",
                "args": {
                    "M": "stop",
                    "v_initial": "(0,)",
                    "body": {
                        "step": {
                            "metadata": {
                                "inputs": ["i", "go", "x"],
                                "outputs": ["go_on", "x_next"],
                            },
                            "nodes": {
                                "m": {
                                    "input_ports": {"x": {}},
                                    "output_ports": {
                                        "x_next": {"value": "x + 2"},
                                        "go_on": {"value": "True"},
                                    },
                                }
                            },
                        }
                    },
                },
            }
        },
        "output_ports": {"y": {"value": "f"}},
    }
)


def test_a_trip_count_of_each_member():
    compiled = mdf_loop.compile(CHOOSES, device="cpu")
    assert compiled.run({"stop": 4})["y"] == 8
    sweep_run = compiled.run(sweep={"stop": [1, 4, 2]})
    assert sweep_run["y"].tolist() == [compiled.run({"stop": k})["y"] for k in (1, 4, 2)]
