"""Models of the comparison with hand-written loops, and their parameters."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from native_peers.system import Array

FILES = Path(__file__).parents[1] / "models"

FN_DT, HH_DT, IAF_DT = 5e-5, 2.5e-5, 0.1
LSTM_UNITS, LSTM_LAYERS, LSTM_DT = 16, 2, 0.1
DRIFT_DT = 0.001
DRIFT_SCALE = (12 * DRIFT_DT) ** 0.5
NEWTON_MORE = 2.0**-10

FACTOR, MORE = 1664525.0, 12345 / 2**26
"""Constants of the noise generator: its values k / 2 ** 26 need at most 53 bits, so they are exact."""

Model = dict[str, Any]


@cache
def _file(name: str) -> Model:
    loaded: Model = yaml.safe_load((FILES / f"{name}.yaml").read_text())
    return loaded


def from_file(name: str) -> Model:
    """Load a model of `benchmarks/models`."""
    return copy.deepcopy(_file(name))


def _nodes(model: Model) -> dict[str, Any]:
    (graph,) = next(iter(model.values()))["graphs"].values()
    nodes: dict[str, Any] = graph["nodes"]
    return nodes


def _model(nodes: dict[str, Any]) -> Model:
    return {"made": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": nodes}}}}


# --- cells ------------------------------------------------------------------------------------


def currents(cells: int) -> Array:
    """Return input currents from 0 to 1, at which a cell no longer fires."""
    return np.linspace(0.0, 1.0, cells)


def fn_arrays(cells: int) -> tuple[Array, Array]:
    """Return the initial values of v, and the input currents."""
    return np.linspace(-1.0, 0.9, cells), currents(cells)


def fn(cells: int) -> Model:
    """Return FN.yaml with `cells` cells."""
    model = from_file("FN")
    v, current = fn_arrays(cells)
    values = {"initial_v": v, "initial_w": np.zeros(cells), "Iext": current}
    for name, array in values.items():
        _nodes(model)["FNpop"]["parameters"][name]["value"] = array.tolist()
    return model


# --- networks ---------------------------------------------------------------------------------


def rnn_arrays(units: int) -> tuple[Array, Array]:
    """Return weights that do not amplify rounding differences, and a drive."""
    rng = np.random.default_rng(11)
    return 0.7 * rng.normal(size=(units, units)) / units**0.5, rng.normal(size=units)


def rnn(units: int) -> Model:
    """Return a network with `r = tanh(weights @ r + drive)`."""
    weights, drive = rnn_arrays(units)
    parameters = {
        "weights": {"value": weights.tolist()},
        "drive": {"value": drive.tolist()},
        "r0": {"value": [0.0] * units},
        "r": {"default_initial_value": "r0", "value": "numpy.tanh(weights @ r + drive)"},
    }
    return _model({"net": {"parameters": parameters, "output_ports": {"r": {"value": "r"}}}})


def lstm_arrays() -> tuple[Array, Array, Array, Array]:
    """Return the phases of the inputs and the weights w, u, b by layer and gate (i, f, o, update)."""
    rng = np.random.default_rng(12)
    gates, n = (LSTM_LAYERS, 4), LSTM_UNITS
    w, u, b = (rng.normal(size=(*gates, *shape)) for shape in ((n, n), (n, n), (n,)))
    return np.linspace(0.0, 3.0, n), w / 4, u / 8, b


def lstm() -> Model:
    """Return stacked LSTM layers, one node per layer, with a sine as input of the first."""
    phases, w, u, b = lstm_arrays()
    source = {
        "t": {"default_initial_value": 0.0, "time_derivative": "1.0"},
        "phases": {"value": phases.tolist()},
    }
    output = {"out": {"value": "numpy.sin(t + phases)"}}
    nodes: dict[str, Any] = {"source": {"parameters": source, "output_ports": output}}
    edges, below = {}, "source"
    for layer in range(LSTM_LAYERS):
        name = f"layer{layer}"
        nodes[name] = _lstm_layer(w[layer], u[layer], b[layer])
        ends = {"sender": below, "sender_port": "out", "receiver": name, "receiver_port": "x"}
        edges[f"to_{name}"], below = ends, name
    model = _model(nodes)
    model["made"]["graphs"]["g"]["edges"] = edges
    return model


def _lstm_layer(w: Array, u: Array, b: Array) -> dict[str, Any]:
    parameters: dict[str, Any] = {"zeros": {"value": [0.0] * LSTM_UNITS}}
    for k, gate in enumerate("ifog"):
        for name, array in (("w", w), ("u", u), ("b", b)):
            parameters[f"{name}_{gate}"] = {"value": array[k].tolist()}
    i, f, o, g = (f"w_{gate} @ x + u_{gate} @ h + b_{gate}" for gate in "ifog")
    c = f"c / (1 + numpy.exp(-({f}))) + numpy.tanh({g}) / (1 + numpy.exp(-({i})))"
    h = f"numpy.tanh(c) / (1 + numpy.exp(-({o})))"
    parameters["c"] = {"default_initial_value": "zeros", "value": c}
    parameters["h"] = {"default_initial_value": "zeros", "value": h}
    return {
        "input_ports": {"x": {"shape": [LSTM_UNITS]}},
        "parameters": parameters,
        "output_ports": {"out": {"value": "h"}},
    }


def iaf_arrays(neurons: int, *, pointwise: bool) -> tuple[Array, Array, Array]:
    """Return the initial values of v, the input currents and the weights."""
    if not pointwise:
        nodes = _nodes(from_file("IAF_net"))
        current = nodes["current_input_node"]["parameters"]["amplitude"]["value"]
        weights = nodes["syn_post"]["parameters"]["spike_weights"]["value"]
        v = nodes["pre"]["parameters"]["v0"]["value"]
        return np.array(v), np.array(current), np.array(weights)
    rng = np.random.default_rng(13)
    uniform = (rng.uniform(low, high, neurons) for low, high in ((-70, -54), (0, 20), (20, 60)))
    v, current, weights = uniform
    return v, current, weights


def iaf(neurons: int) -> Model:
    """Return IAF_net.yaml with `neurons` neurons, each with one synapse."""
    model = from_file("IAF_net")
    v, current, weights = (a.tolist() for a in iaf_arrays(neurons, pointwise=True))
    nodes = _nodes(model)
    nodes["current_input_node"]["parameters"]["amplitude"]["value"] = current
    for name in ("pre", "post"):
        nodes[name]["input_ports"]["current_input"]["shape"] = [neurons]
        parameters = nodes[name]["parameters"]
        parameters["v0"]["value"] = v
        parameters["erev"]["value"] = [-70.0] * neurons
        parameters["thresh"]["value"] = [-20.0] * neurons
    synapse = nodes["syn_post"]
    synapse["input_ports"]["spike_input"]["shape"] = [neurons]
    synapse["parameters"]["spike_weights"]["value"] = weights
    synapse["parameters"]["weighted_spike"] = {"value": "spike_weights * spike_input"}
    return model


# --- drift diffusion and roots ----------------------------------------------------------------


def drift_arrays(trials: int) -> tuple[Array, Array]:
    """Return the initial values of the noise, and the drift rates."""
    rng = np.random.default_rng(14)
    return rng.integers(2**26, size=trials) / 2**26, rng.uniform(-1.0, 1.0, trials)


def drift(trials: int) -> Model:
    """Return a model that accumulates evidence until a bound."""
    noise, drifts = drift_arrays(trials)
    parameters = {
        "noise0": {"value": noise.tolist()},
        "drift": {"value": drifts.tolist()},
        "x0": {"value": [0.0] * trials},
        "noise": {
            "default_initial_value": "noise0",
            "value": f"{FACTOR!r} * noise + {MORE!r} - numpy.floor({FACTOR!r} * noise + {MORE!r})",
        },
        "x": {
            "default_initial_value": "x0",
            "value": "numpy.where(abs(x) < 1.0, "
            f"x + drift * {DRIFT_DT!r} + {DRIFT_SCALE!r} * (noise - 0.5), x)",
        },
    }
    return _model({"trial": {"parameters": parameters, "output_ports": {"x": {"value": "x"}}}})


def newton() -> Model:
    """Return a model with a while loop whose condition depends on its data."""
    step = {
        "input_ports": {"x": {}, "a": {}, "end": {}},
        "output_ports": {
            "x_next": {"value": "0.5 * (x + a / x)"},
            "a_next": {"value": f"a + {NEWTON_MORE!r}"},
            "go": {"value": f"a + {NEWTON_MORE!r} < end"},
        },
    }
    body = {
        "metadata": {"inputs": ["i", "go_in", "x", "a"], "outputs": ["go", "x_next", "a_next"]},
        "nodes": {"step": step},
    }
    args = {"cond": True, "v_initial": ["one", "one"], "end": "end", "body": {"body": body}}
    ports = {name: {"default_value": value} for name, value in (("one", 1.0), ("end", 2.0))}
    node = {
        "input_ports": ports,
        "functions": {"loop": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"x": {"value": "loop[0]"}, "a": {"value": "loop[1]"}},
    }
    return _model({"root": node})
