"""Fits on a cluster equal fits in one process."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import InputError

pytestmark = pytest.mark.slow  # processes are started

FREE = {"fn.a": (0.5, 0.9), "current": (0.2, 1.2)}
FIT_OPTIONS = {"against": "v", "dt": 0.5, "points": 8, "polish": 1, "progress": False}


def data_of(model: CompiledModel, count: int) -> dict[str, dict[str, np.ndarray]]:
    """Return noisy data that the model itself generates."""
    generator = np.random.default_rng(5)
    data_by_subject = {}
    for k in range(count):
        values = {"current": generator.uniform(0.4, 1.0)}
        results = model.run(values, set={"fn.a": generator.uniform(0.6, 0.8)}, steps=80, dt=0.5)
        data_by_subject[f"s{k}"] = {
            "time": np.asarray(results.time),
            "v": results["v"] + generator.normal(0, 0.05, 80),
        }
    return data_by_subject


def check_equal(cluster_fit: Any, local_fit: Any) -> None:
    """Check that two fits are equal, bit for bit."""
    content, expected = json.loads(cluster_fit.to_json()), json.loads(local_fit.to_json())
    for fit_content in (content, expected):
        fit_content.pop("seconds")
    assert content == expected


def test_thirty_two_subjects(neuron: CompiledModel, client: Any) -> None:
    data = data_of(neuron, 32)
    shared = neuron.fit(data, FREE, **FIT_OPTIONS, cluster=client)
    assert list(shared) == list(data)
    for name, subject_data in data.items():
        check_equal(shared[name], neuron.fit(subject_data, FREE, **FIT_OPTIONS))


def test_generations_on_a_cluster(neuron: CompiledModel, client: Any) -> None:
    (data,) = data_of(neuron, 1).values()
    fit_options = {**FIT_OPTIONS, "method": "differential_evolution", "time_limit": None}
    check_equal(
        neuron.fit(data, FREE, **fit_options, cluster=client), neuron.fit(data, FREE, **fit_options)
    )


def test_subjects_that_share_a_parameter(neuron: CompiledModel, client: Any) -> None:
    fit_options = {**FIT_OPTIONS, "shared": ["fn.a"]}
    data = data_of(neuron, 3)
    cluster_fit, local_fit = (
        neuron.fit(data, FREE, **fit_options, cluster=client),
        neuron.fit(data, FREE, **fit_options),
    )
    for name in data:
        check_equal(cluster_fit[name], local_fit[name])


def test_an_error_names_the_subject(neuron: CompiledModel, client: Any) -> None:
    data = data_of(neuron, 2)
    data["s1"]["v"] = data["s1"]["v"][:1]
    data["s1"]["time"] = data["s1"]["time"][:1]
    with pytest.raises(InputError, match="subject 's1'"):
        neuron.fit(data, FREE, **FIT_OPTIONS, cluster=client)


def test_a_model_is_picklable(neuron: CompiledModel) -> None:
    import pickle

    sent = pickle.loads(pickle.dumps(neuron))
    np.testing.assert_array_equal(
        sent.run(steps=50, dt=0.1)["v"], neuron.run(steps=50, dt=0.1)["v"]
    )
