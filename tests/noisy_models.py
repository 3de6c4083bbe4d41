"""Models with random numbers, and the expected draws of expressions at one site."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from mdf_loop import streams

WALK = {
    "parameters": {
        "x": {"value": "0.9 * x + numpy.random.normal(0.5, 2.0)", "default_initial_value": 1.0},
        "y": {"value": "numpy.random.uniform(size=3)"},
    },
    "output_ports": {"x": {"value": "x"}, "y": {"value": "y"}},
}


def model(node: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a model with one node `A` in the graph `g`."""
    return {"m": {"graphs": {"g": {"nodes": {"A": node, **more}}}}}


LOOP = {
    "parameters": {"n": {"value": 4}, "start": {"value": 0.0}},
    "functions": {
        "f": {
            "function": "onnx::Loop",
            "args": {
                "M": "n",
                "v_initial": "start",
                "body": {
                    "b": {
                        "metadata": {"inputs": ["i", "go", "s"], "outputs": ["", "s_out", "row"]},
                        "nodes": {
                            "B": {
                                "input_ports": {"s": {}},
                                "parameters": {"z": {"value": "random.random()"}},
                                "output_ports": {
                                    "s_out": {"value": "s + z"},
                                    "row": {"value": "z"},
                                },
                            }
                        },
                    }
                },
            },
        }
    },
    "output_ports": {"rows": {"value": "f[1]"}},
}


# --- expressions --------------------------------------------------------------------------------

SITE = "g.A.y#0"
"""Site of the expressions: the first call in output port y of node A."""

COUNT = 5
WORDS = streams.squares(np.arange(COUNT), streams.keys(0, streams.site(SITE)))
U = streams.uniform(WORDS)
Z = streams.normal(U)
SIGNS = streams.uniform(
    streams.squares(np.arange(COUNT), streams.keys(0, streams.site("g.A.y.sign#0")))
)
P = [0.1, 0.2, 0.3, 0.4]


def whole(first: int, count: int) -> np.ndarray:
    """Return the expected integers: `first` plus the high half of the product of each word and `count`."""
    return np.array([first + ((int(word) * count) >> 64) for word in WORDS])


KNOWN: dict[str, Any] = {
    "means": [0, 1, 2, 3, 4],
    "list": [5.0, 6.0, 7.0, 8.0],
    "weights": P,
}
"""Values of the names in the expressions."""

EXPECTED = {
    f"numpy.random.normal(2.0, 0.5, {COUNT})": 2.0 + 0.5 * Z,
    f"numpy.random.normal(size={COUNT})": 0.0 + 1.0 * Z,
    f"numpy.random.standard_normal({COUNT})": Z,
    f"numpy.random.randn({COUNT}, 1)": Z[:, np.newaxis],
    "numpy.random.normal(means, 2.0)": np.arange(COUNT) + 2.0 * Z,
    "random.gauss(1.0, 3.0)": 1.0 + 3.0 * Z[0],
    "random.normalvariate()": Z[0],
    f"numpy.random.uniform(-1.0, 3.0, ({COUNT},))": -1.0 + 4.0 * U,
    f"numpy.random.uniform(0.25, size={COUNT})": 0.25 + (1.0 - 0.25) * U,
    "random.uniform(1, 3)": 1.0 + 2.0 * U[0],
    f"numpy.random.rand({COUNT})": U,
    "numpy.random.rand()": U[0],
    f"numpy.random.random_sample({COUNT})": U,
    f"numpy.random.random({COUNT})": U,
    f"numpy.random.ranf({COUNT})": U,
    f"numpy.random.sample(({COUNT},))": U,
    "random.random()": U[0],
    "random()": U[0],
    f"numpy.random.randint(10, size={COUNT})": whole(0, 10),
    f"numpy.random.randint(-3, 4, {COUNT})": whole(-3, 7),
    f"numpy.random.integers(0, 2**32 - 1, {COUNT})": whole(0, 2**32 - 1),
    "random.randint(1, 6)": whole(1, 6)[0],
    f"numpy.random.exponential(2.0, {COUNT})": 2.0 * streams.exponential(U),
    f"numpy.random.standard_exponential({COUNT})": streams.exponential(U),
    f"numpy.random.binomial(3, 0.3, {COUNT})": (
        streams.uniform(streams.squares(np.arange(3 * COUNT), streams.keys(0, streams.site(SITE))))
        < 0.3
    )
    .reshape(3, COUNT)
    .sum(axis=0),
    f"numpy.random.lognormal(0.5, 2.0, {COUNT})": streams.exp(0.5 + 2.0 * Z),
    f"numpy.random.laplace(1.0, 2.0, {COUNT})": 1.0
    + 2.0 * np.where(SIGNS < 0.5, -streams.exponential(U), streams.exponential(U)),
    f"numpy.random.poisson(2.5, {COUNT})": stats.poisson.ppf(U, 2.5).astype(int),
    "numpy.random.poisson(means)": stats.poisson.ppf(U, np.arange(COUNT)).astype(int),
    "numpy.random.multivariate_normal([1, 2], [[4, 2], [2, 5]])": np.array(
        [1.0 + 2.0 * Z[0], 2.0 + 1.0 * Z[0] + 2.0 * Z[1]]
    ),
    f"numpy.random.binomial(1, 0.3, {COUNT})": (U < 0.3).astype(int),
    f"numpy.random.choice(7, {COUNT})": whole(0, 7),
    f"numpy.random.choice(list, {COUNT})": np.array([5.0, 6.0, 7.0, 8.0])[whole(0, 4)],
    f"numpy.random.choice(4, {COUNT}, p=weights)": np.searchsorted(
        np.cumsum(P)[:-1], U, side="right"
    ),
}
