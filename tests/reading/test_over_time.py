"""Models over time: the compiled loop equals modeci_mdf's engine step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.document.loading import suppress_output
from mdf_loop.errors import (
    CarryShapeError,
    ExpressionError,
    InputError,
    LoopError,
    RecordShapeError,
    UnsupportedError,
)
from mdf_loop.importing.opening import open_document
from mdf_loop.run.modeci.engine_graph import to_modeci_graph
from tests.models.control import choose, give, model

SHARED = Path(__file__).parents[3] / "shared" / "models"


def by_engine(
    source: Any, steps: int, dt: float | None, names: list[str], **inputs: Any
) -> dict[str, Any]:
    """Evaluate the model with the MDF engine; the first evaluation has no time increment."""
    from modeci_mdf.execution_engine import EvaluableGraph

    rows: dict[str, list[Any]] = {name: [] for name in names}
    with suppress_output():
        engine = EvaluableGraph(to_modeci_graph(open_document(source)))
        for step in range(steps):
            engine.evaluate(time_increment=dt if step else None, initializer=dict(inputs))
            for name in names:
                node, item = name.rsplit(".", 1)
                enode = engine.enodes[node]
                port = enode.evaluable_outputs.get(item) or enode.evaluable_parameters[item]
                rows[name].append(np.array(port.curr_value, dtype=float))
    return {name: np.stack(np.broadcast_arrays(*values)) for name, values in rows.items()}


def graph(edges: dict[str, Any] | None = None, **nodes: Any) -> dict[str, Any]:
    return {"g": {"nodes": nodes, "edges": edges or {}}}


def node(ports: dict[str, Any] | None = None, **parameters: Any) -> dict[str, Any]:
    """Return a node with an output port `o_<id>` for each parameter."""
    outputs = {f"o_{name}": {"value": name} for name in parameters}
    return {"input_ports": ports or {}, "parameters": parameters, "output_ports": outputs}


def edge(sender: str, out: str, receiver: str, port: str, **parameters: Any) -> dict[str, Any]:
    return {
        "sender": sender,
        "sender_port": out,
        "receiver": receiver,
        "receiver_port": port,
        **({"parameters": parameters} if parameters else {}),
    }


# --- real models ------------------------------------------------------------------------------

MODELS = [
    ("MDF/States.yaml", 0.1),
    ("MDF/FN.mdf.json", 5e-5),
    ("NeuroML/FN.mdf.yaml", 5e-5),
    ("MDF/RNN/RNNs.yaml", 1e-3),
    ("MDF/RNN/IAFs.yaml", 1e-3),
    ("MDF/RNN/IAF_net.yaml", 1e-3),
    ("NeuroML/PyNN/HH.mdf.yaml", 1e-5),
    ("MDF/ABCD.yaml", None),
    ("MDF/Simple.yaml", 0.1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dt"), MODELS)
def test_shared_models_for_50_steps(name: str, dt: float | None) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared models are not here")
    results = mdf_loop.compile(path, device="cpu").run(steps=50, dt=dt)
    expected = by_engine(path, 50, dt, list(results))
    for output, array in results.items():
        assert array.shape[0] == 50
        np.testing.assert_allclose(
            array.reshape(expected[output].shape),
            expected[output],
            rtol=1e-12,
            atol=1e-15,
            err_msg=output,
        )


# --- the rules, one by one (rows that modeci_mdf's engine gives) ------------------------------

RULES = {
    "a state and a function that reads it": (
        {
            "parameters": {"p": {"default_initial_value": 5, "value": "p + 1"}},
            "functions": {"f": {"value": "p * 10"}},
            "output_ports": {"a": {"value": "p"}, "b": {"value": "f"}},
        },
        {"a": [6, 7, 8, 9], "b": [50, 60, 70, 80]},
    ),
    "a state that starts from nothing": (
        {"parameters": {"p": {"value": "p + 1"}}, "output_ports": {"a": {"value": "p"}}},
        {"a": [1, 2, 3, 4]},
    ),
    "a function sees a computed parameter one step late": (
        {
            "parameters": {
                "p": {"default_initial_value": 5, "value": "p + 1"},
                "q": {"value": "p * 10"},
            },
            "functions": {"f": {"value": "q"}},
            "output_ports": {"a": {"value": "q"}, "b": {"value": "f"}},
        },
        {"a": [60, 70, 80, 90], "b": [50, 60, 70, 80]},
    ),
    "parameters change one after the other": (
        {
            "parameters": {
                "p": {"default_initial_value": 1, "value": "q"},
                "q": {"default_initial_value": 10, "value": "p"},
            },
            "output_ports": {"a": {"value": "p"}, "b": {"value": "q"}},
        },
        {"a": [10, 10, 10, 10], "b": [10, 10, 10, 10]},
    ),
    "derivatives use what is already new": (
        {
            "parameters": {
                "x": {"default_initial_value": 1.0, "time_derivative": "y"},
                "y": {"default_initial_value": 0.0, "time_derivative": "-x"},
            },
            "output_ports": {"a": {"value": "x"}, "b": {"value": "y"}},
        },
        {"a": [1, 1, 0.99, 0.9701], "b": [0, -0.1, -0.199, -0.29601]},
    ),
    "a condition resets": (
        {
            "parameters": {
                "v": {
                    "default_initial_value": 0,
                    "time_derivative": "10",
                    "conditions": {"reset": {"test": "v >= 2", "value": 0}},
                }
            },
            "output_ports": {"a": {"value": "v"}},
        },
        {"a": [0, 1, 2, 0]},
    ),
    "a condition sees the old value": (
        {
            "parameters": {
                "p": {
                    "default_initial_value": 0,
                    "value": "p + 1",
                    "conditions": {"jump": {"test": "p >= 2", "value": 100}},
                }
            },
            "output_ports": {"a": {"value": "p"}},
        },
        {"a": [1, 2, 100, 100]},
    ),
    "a value set by conditions alone stays": (
        {
            "parameters": {
                "n": {"value": "n + 1"},
                "p": {"conditions": {"once": {"test": "n == 2", "value": 7}}},
            },
            "output_ports": {"a": {"value": "p"}},
        },
        {"a": [0, 7, 7, 7]},
    ),
    "a parameter with a function": (
        {
            "parameters": {
                "p": {
                    "function": "linear",
                    "default_initial_value": 1,
                    "args": {"variable0": "p", "slope": 2, "intercept": 1},
                }
            },
            "output_ports": {"a": {"value": "p"}},
        },
        {"a": [3, 7, 15, 31]},
    ),
    "a state that becomes a list": (
        {
            "parameters": {
                "drive": {"value": [1.0, 2.0]},
                "p": {"default_initial_value": 0, "time_derivative": "drive"},
            },
            "output_ports": {"a": {"value": "p"}},
        },
        {"a": [[0, 0], [0.1, 0.2], [0.2, 0.4], [0.3, 0.6]]},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_semantics_rules(rule: str) -> None:
    content, expected = RULES[rule]
    results = mdf_loop.compile(graph(A=content), device="cpu").run(steps=4, dt=0.1)
    engine = by_engine(graph(A=content), 4, 0.1, list(results))
    for port, rows in expected.items():
        np.testing.assert_allclose(results[port], np.array(rows, float), rtol=1e-12)
        np.testing.assert_allclose(results[port], engine[f"A.{port}"], rtol=1e-12)


def test_no_time_passes_without_dt() -> None:
    content = node(x={"default_initial_value": 5, "time_derivative": "2"}, n={"value": "n + 1"})
    results = mdf_loop.compile(graph(A=content), device="cpu").run(steps=3)
    assert results["o_x"].tolist() == [5, 5, 5]
    assert results["o_n"].tolist() == [1, 2, 3]
    assert results.time is None


# --- edges over time --------------------------------------------------------------------------


def test_an_edge_back_brings_the_last_output() -> None:
    nodes = {
        "A": {
            "input_ports": {"a": {"default_value": 0}},
            "output_ports": {"o": {"value": "a + 1"}},
        },
        "B": {"input_ports": {"b": {}}, "output_ports": {"o": {"value": "b * 2"}}},
    }
    edges = {"go": edge("A", "o", "B", "b"), "back": edge("B", "o", "A", "a")}
    results = mdf_loop.compile(graph(edges, **nodes), device="cpu").run(
        steps=3, record=["A.o", "B.o"]
    )
    assert results["A.o"].tolist() == [1, 3, 7]
    assert results["B.o"].tolist() == [2, 6, 14]
    engine = by_engine(graph(edges, **nodes), 3, None, ["A.o", "B.o"])
    assert engine["A.o"].tolist() == [1, 3, 7]


def test_a_weighted_edge_to_itself() -> None:
    content = {
        "input_ports": {"a": {"default_value": 0}},
        "output_ports": {"o": {"value": "a + 1"}},
    }
    edges = {"back": edge("A", "o", "A", "a", weight=20)}
    results = mdf_loop.compile(graph(edges, A=content), device="cpu").run(steps=3, record=["A.o"])
    assert results["A.o"].tolist() == [1, 21, 421]


def test_an_input_holds_in_every_step() -> None:
    content = node({"i": {}}, x={"default_initial_value": 0, "time_derivative": "i"})
    compiled = mdf_loop.compile(graph(A=content), device="cpu")
    results = compiled.run({"i": 2.0}, steps=4, dt=0.5)
    assert results["o_x"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(results.time, [0, 0.5, 1.0, 1.5])
    repeated = compiled.run({"i": 4.0}, steps=2, dt=0.25)
    assert repeated["o_x"].tolist() == [0, 1]
    assert len(compiled.prepared._time_sessions) == 1


def test_a_loop_inside_a_timed_model() -> None:
    body = {
        "metadata": {"inputs": ["i", "c", "s"], "outputs": ["c", "s_next"]},
        "nodes": {
            "add": {
                "input_ports": {"s": {}, "n": {}},
                "output_ports": {"s_next": {"value": "s + n"}},
            }
        },
    }
    content = {
        "parameters": {"n": {"default_initial_value": 0, "value": "n + 1"}, "zero": {"value": 0}},
        "functions": {
            "f": {
                "function": "onnx::Loop",
                "args": {"M": "n", "v_initial": "(zero,)", "body": {"b": body}},
            }
        },
        "output_ports": {"square": {"value": "f"}},
    }
    results = mdf_loop.compile(graph(A=content), device="cpu").run(steps=5)
    assert results["square"].tolist() == [0, 1, 4, 9, 16]  # functions see the old n


def test_one_step_is_the_first_evaluation() -> None:
    content = node(p={"default_initial_value": 5, "value": "p + 1"})
    compiled = mdf_loop.compile(graph(A=content), device="cpu")
    assert compiled.run(steps=1)["o_p"].tolist() == [6]
    assert compiled.run()["o_p"] == 6


def test_results_keep_their_time(tmp_path: Path) -> None:
    content = node(p={"value": "p + 1"})
    mdf_loop.compile(graph(A=content)).run(steps=3, dt=0.5).save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as archive:
        assert archive["time"].tolist() == [0, 0.5, 1]
        assert archive["A.o_p"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number above 0, not 0"),
        ({"steps": 2.5}, "steps must be a whole number above 0, not 2.5"),
        ({"steps": True}, "steps must be a whole number"),
        ({"steps": 3, "dt": "fast"}, "dt must be a length of time"),
        ({"steps": 3, "dt": float("nan")}, "dt must be a length of time"),
        ({"dt": 0.1}, "dt needs steps"),
    ],
)
def test_steps_and_dt_are_checked(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mdf_loop.compile(graph(A=node(p={"value": "p + 1"}))).run(**settings)


def test_invalid_models_over_time_are_refused() -> None:
    from_nothing = node(x={"time_derivative": "2"})
    with pytest.raises(ExpressionError, match="nothing to start from"):
        mdf_loop.compile(graph(A=from_nothing)).run(steps=2, dt=0.1)
    growing = node(x={"default_initial_value": [1.0, 2.0], "value": "numpy.concatenate([x, x])"})
    with pytest.raises(CarryShapeError, match="changes its shape over time"):
        mdf_loop.compile(graph(A=growing)).run(steps=2)
    scheduled = graph(A=node(x={"value": "x + 1"}))
    scheduled["g"]["conditions"] = {
        "node_specific": {"A": {"type": "WhenFinished", "kwargs": {"dependency": "A"}}}
    }
    with pytest.raises(UnsupportedError, match=r"(?s)WhenFinished.*engine='modeci'"):
        mdf_loop.compile(scheduled).run(steps=2)


def test_a_list_with_names_is_an_array() -> None:
    document = graph(
        A={
            "parameters": {"n": {"value": "n + 1"}, "p": {"value": "[n, 2.5]"}},
            "output_ports": {"l": {"value": "[n, 1]"}, "p": {"value": "p"}},
        }
    )
    rows = mdf_loop.compile(document).run(steps=2)
    np.testing.assert_array_equal(rows["l"], [[1, 1], [2, 1]])
    np.testing.assert_array_equal(rows["p"], [[1, 2.5], [2, 2.5]])


# --- rows whose number of axes only the run knows ------------------------------------------------

OF_OPEN_RANK = model(
    {"y": "choice", "z": "2 * choice"},
    choice=choose("whole", give("x"), give(r="numpy.sum(x)")),
)
OF_OPEN_RANK["graph"]["nodes"]["m"]["input_ports"]["x"] = {"shape": [3]}


@pytest.mark.parametrize(("whole", "row"), [(True, [1, 2, 3]), (False, 6)])
def test_rows_of_an_unknown_number_of_axes(whole: bool, row: Any) -> None:
    compiled = mdf_loop.compile(OF_OPEN_RANK, device="cpu", shapes="dynamic")
    results = compiled.run({"x": [1.0, 2.0, 3.0], "whole": whole}, steps=4)
    assert results["m.y"].tolist() == [row] * 4
    assert results["m.z"].tolist() == [(2 * np.array(row)).tolist()] * 4


@pytest.mark.parametrize("whole", [[True, True, False, True], [False, True, True, True]])
def test_rows_of_another_number_of_axes(whole: list[bool]) -> None:
    compiled = mdf_loop.compile(OF_OPEN_RANK, device="cpu", shapes="dynamic")
    with pytest.raises(RecordShapeError, match=r"'m\.y' has rows of . axes and of . axes"):
        compiled.run({"x": [1.0, 2.0, 3.0], "whole": whole}, steps=4)


def test_cycles_through_a_port_of_unknown_shape_need_a_default() -> None:
    around = {
        f"{one}{other}": {
            "sender": one, "receiver": other, "sender_port": "y", "receiver_port": "x"
        }
        for one, other in ("ab", "ba")
    }  # fmt: skip
    m = graph(
        around,
        a={"input_ports": {"x": {"shape": [-1]}}, "output_ports": {"y": {"value": "x + 1"}}},
        b={"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}},
    )
    with pytest.raises(LoopError, match="nothing has arrived at the port 'x'"):
        mdf_loop.compile(m).run(steps=2, record=["b.y"])
    m["g"]["nodes"]["a"]["input_ports"]["x"]["default_value"] = [0.0, 1.0]
    assert mdf_loop.compile(m).run(steps=3, record=["b.y"])["b.y"].tolist() == [
        [1, 2],
        [2, 3],
        [3, 4],
    ]
