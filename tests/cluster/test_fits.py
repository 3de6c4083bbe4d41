"""A fit on a cluster is the fit that one process makes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mdf_loop.api.compiled import Compiled
from mdf_loop.errors import InputError

pytestmark = pytest.mark.slow  # processes are started

FREE = {"fn.a": (0.5, 0.9), "current": (0.2, 1.2)}
WORDS = {"against": "v", "dt": 0.5, "points": 8, "polish": 1, "progress": False}


def data_of(model: Compiled, count: int) -> dict[str, dict[str, np.ndarray]]:
    """Data that the model itself has made, with noise."""
    draw = np.random.default_rng(5)
    found = {}
    for k in range(count):
        values = {"current": draw.uniform(0.4, 1.0)}
        made = model.run(values, set={"fn.a": draw.uniform(0.6, 0.8)}, steps=80, dt=0.5)
        found[f"s{k}"] = {
            "time": np.asarray(made.time),
            "v": made["v"] + draw.normal(0, 0.05, 80),
        }
    return found


def same(one: Any, other: Any) -> None:
    """Both have found the same, bit for bit."""
    mine, wanted = json.loads(one.to_json()), json.loads(other.to_json())
    for content in (mine, wanted):
        content.pop("seconds")
    assert mine == wanted


def test_thirty_two_subjects_are_fitted_as_one_by_one(neuron: Compiled, client: Any) -> None:
    data = data_of(neuron, 32)
    shared = neuron.fit(data, FREE, **WORDS, cluster=client)
    assert list(shared) == list(data)
    for name, each in data.items():
        same(shared[name], neuron.fit(each, FREE, **WORDS))


def test_generations_are_shared_out(neuron: Compiled, client: Any) -> None:
    (data,) = data_of(neuron, 1).values()
    words = {**WORDS, "method": "differential_evolution", "time_limit": None}
    same(neuron.fit(data, FREE, **words, cluster=client), neuron.fit(data, FREE, **words))


def test_subjects_that_share_a_parameter(neuron: Compiled, client: Any) -> None:
    words = {**WORDS, "shared": ["fn.a"]}
    data = data_of(neuron, 3)
    one, other = neuron.fit(data, FREE, **words, cluster=client), neuron.fit(data, FREE, **words)
    for name in data:
        same(one[name], other[name])


def test_an_error_names_the_subject(neuron: Compiled, client: Any) -> None:
    data = data_of(neuron, 2)
    data["s1"]["v"] = data["s1"]["v"][:1]
    data["s1"]["time"] = data["s1"]["time"][:1]
    with pytest.raises(InputError, match="subject 's1'"):
        neuron.fit(data, FREE, **WORDS, cluster=client)


def test_a_model_can_be_sent(neuron: Compiled) -> None:
    import pickle

    sent = pickle.loads(pickle.dumps(neuron))
    np.testing.assert_array_equal(
        sent.run(steps=50, dt=0.1)["v"], neuron.run(steps=50, dt=0.1)["v"]
    )
