"""Sweeps on a cluster equal sweeps in one process: bits, axes, dtypes, loops and statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import InputError, MemoryLimitError, NotFiniteError, RunError
from mdf_loop.results.data import Results

pytestmark = pytest.mark.slow  # processes are started

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CURRENTS = np.linspace(0, 2, 23)
TIME = {"steps": 300, "dt": 0.1}


def check_equal(cluster_side: Results, local_side: Results) -> None:
    """Check that two results have equal values, dtypes, axes, loops and statistics."""
    assert list(cluster_side) == list(local_side)
    for name, array in local_side.items():
        np.testing.assert_array_equal(np.asarray(cluster_side[name]), array, strict=True)
    assert [axis.name for axis in cluster_side.axes] == [axis.name for axis in local_side.axes]
    for mine, other_axis in zip(cluster_side.axes, local_side.axes, strict=True):
        assert list(mine.coordinates) == list(other_axis.coordinates)
        for name, coordinate in other_axis.coordinates.items():
            np.testing.assert_array_equal(
                np.asarray(mine.coordinates[name]), np.asarray(coordinate)
            )
        assert mine.is_swept == other_axis.is_swept
    assert dict(cluster_side.units) == dict(local_side.units)
    assert (cluster_side.seed, cluster_side.reduced) == (local_side.seed, local_side.reduced)


SWEEPS = {
    "paired": mdf_loop.paired({"current": CURRENTS, "fn.a": np.linspace(0.6, 0.8, 23)}),
    "grid": mdf_loop.grid({"current": CURRENTS, "fn.a": [0.6, 0.7, 0.8]}),
    "sobol": mdf_loop.sobol({"current": (0, 2), "fn.b": (0.7, 0.9)}, 41),
    "one": {"current": [0.3]},
}


@pytest.mark.parametrize(
    "extra_options", [{}, {"reduce": {"v": ["mean", "max"]}}, {"record": "fn.w"}]
)
@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_in_memory(
    neuron: CompiledModel, client: Any, sweep: str, extra_options: Any
) -> None:
    options = {"sweep": SWEEPS[sweep], **TIME, **extra_options}
    check_equal(neuron.run(**options, cluster=client, block=5), neuron.run(**options))


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_in_a_store(neuron: CompiledModel, client: Any, sweep: str, tmp_path: Path) -> None:
    options = {"sweep": SWEEPS[sweep], **TIME}
    local_results = neuron.run(**options)
    cluster_results = neuron.run(**options, cluster=client, block=5, output=tmp_path / "s.zarr")
    check_equal(cluster_results, local_results)
    dataset = cluster_results.to_xarray()
    xarray_names = set(dataset.variables) - {"computed"}
    assert xarray_names == set(local_results.to_xarray().variables)
    for name in xarray_names:
        np.testing.assert_array_equal(dataset[name], local_results.to_xarray()[name])
    assert (dataset["computed"] == 1).all()
    assert not any(dataset[name].variable._in_memory for name in local_results)


def test_outputs_in_a_store_are_saved_to_a_file(
    neuron: CompiledModel, client: Any, tmp_path: Path
) -> None:
    options = {"sweep": SWEEPS["grid"], **TIME}
    cluster_results = neuron.run(**options, cluster=client, output=tmp_path / "s.zarr")
    cluster_results.save(tmp_path / "shared.npz")
    neuron.run(**options).save(tmp_path / "alone.npz")
    cluster_side, local_side = (np.load(tmp_path / f"{who}.npz") for who in ("shared", "alone"))
    assert set(cluster_side) == set(local_side)
    for name in local_side:
        np.testing.assert_array_equal(cluster_side[name], local_side[name])


def test_a_measured_block(neuron: CompiledModel, client: Any) -> None:
    options = {"sweep": {"current": np.linspace(0, 2, 3000)}, **TIME}
    check_equal(neuron.run(**options, cluster=client), neuron.run(**options))


def test_trials(client: Any) -> None:
    model = mdf_loop.compile(EXAMPLES / "drift_diffusion" / "model.yaml")
    drift = _drift_parameter(model)
    for options in (
        {"trials": 100},
        {"trials": [5, 3, 70]},
        {"trials": 7, "sweep": {drift: [0.1, 0.3, 0.7]}, "seed": 4},
        {"trials": 7, "sweep": mdf_loop.grid({drift: [0.1, 0.3], "seed": [1, 2]})},
    ):
        cluster_side, local_side = (
            model.run(**options, cluster=client, block=4),
            model.run(**options),
        )
        check_equal(cluster_side, local_side)
        assert cluster_side.loops == local_side.loops


def test_statistics_over_trials(client: Any) -> None:
    model = mdf_loop.compile(EXAMPLES / "drift_diffusion" / "model.yaml")
    (rt, choice), drift = _response_outputs(model), _drift_parameter(model)
    arguments = ["mean", "std", "count", {"quantiles": [0.1, 0.5]}, {"histogram": [0, 1, 2, 9]}]
    for extra_options in (
        {},
        {"sweep": {drift: [0.1, 0.4]}},
        {"sweep": mdf_loop.grid({drift: [0.1, 0.4]})},
    ):
        options = {"trials": 500, "over_trials": {rt: arguments}, "by": choice, **extra_options}
        cluster_side, local_side = (
            model.run(**options, cluster=client, block=64),
            model.run(**options),
        )
        check_equal(cluster_side, local_side)
        assert cluster_side.statistics == local_side.statistics


def _response_outputs(model: CompiledModel) -> tuple[str, str]:
    names = list(model.run(trials=1))
    return (
        next(name for name in names if name.endswith(("rt", "reaction_time"))),
        next(name for name in names if name.endswith(("choice", "response"))),
    )


def _drift_parameter(model: CompiledModel) -> str:
    names = [f"{n.id}.{p.id}" for n in model.document.graph.nodes for p in n.parameters or []]
    return next(name for name in names if name.endswith(("drift", "drift_rate", "rate")))


def test_members_with_individual_termination(client: Any) -> None:
    model = mdf_loop.compile(EXAMPLES / "newton_sqrt" / "model.yaml")
    (port,) = [p.id for n in model.document.graph.nodes for p in n.input_ports or []][:1]
    options = {"sweep": {port: [2.0, 900.0, 1e8, 3.0, 5e5]}}
    cluster_side, local_side = model.run(**options, cluster=client, block=2), model.run(**options)
    check_equal(cluster_side, local_side)
    assert cluster_side.loops == local_side.loops


# --- what fails -----------------------------------------------------------------------------------


def test_failed_members_are_named_and_others_have_results(
    neuron: CompiledModel, client: Any, tmp_path: Path
) -> None:
    currents = CURRENTS.copy()
    currents[[4, 17]] = 1e200
    options = {"sweep": {"current": currents}, **TIME, "cluster": client, "block": 6}
    local_results = neuron.run(sweep={"current": CURRENTS}, **TIME)["v"]
    good = np.delete(np.arange(23), [4, 17])
    for extra_options in ({}, {"output": tmp_path / "s.zarr"}):
        with pytest.raises(RunError, match=r"member 4 \(current = 1e\+200\)") as caught:
            neuron.run(**options, **extra_options, nan="error")
        assert "member 17" in str(caught.value)
        partial_voltages = np.asarray(caught.value.results["v"])
        np.testing.assert_array_equal(partial_voltages[good], local_results[good])
        assert np.isnan(partial_voltages[[4, 17]]).all()
    flags = caught.value.results.to_xarray()["computed"].values
    assert (flags[good] == 1).all()
    assert (flags[[4, 17]] == 2).all()


def test_all_members_fail(neuron: CompiledModel, client: Any) -> None:
    with pytest.raises(RunError, match="all members failed; member 0"):
        neuron.run(sweep={"current": [1e200, 1e210]}, **TIME, nan="error", cluster=client)
    with pytest.raises(NotFiniteError):
        neuron.run(sweep={"current": [1e200, 1e210]}, **TIME, nan="error")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cluster": 0, "sweep": {"current": [1.0]}}, "a cluster cannot have 0 processes"),
        ({"cluster": 2.5, "sweep": {"current": [1.0]}}, "cluster cannot be 2.5"),
        ({"cluster": "head", "sweep": {"current": [1.0]}}, "'head' is no cluster"),
        ({"cluster": 2}, "there are none"),
        ({"cluster": 2, "sweep": {"current": [1.0]}, "nan": "stop"}, "do not stop one another"),
        (
            {"cluster": 2, "sweep": {"current": [1.0]}, "checkpoint": "a.ckpt"},
            "a cluster does not take a checkpoint",
        ),
        ({"cluster": 2, "sweep": {"current": [1.0]}, "resume": True}, "store that it writes"),
        ({"cluster": 2, "sweep": {"current": [1.0]}, "block": 0}, "block must be"),
        ({"cluster": 2, "sweep": {"current": [1.0]}, "retries": -1}, "retries must be"),
        ({"sweep": {"current": [1.0]}, "block": 3}, "a block is for a cluster"),
        ({"sweep": {"current": [1.0]}, "resume": True}, "resume=True is for a store"),
        (
            {"cluster": 2, "sweep": {"current": [1.0, 2.0], "fn.a": [1.0]}},
            "equally many",
        ),
        (
            {"cluster": "tcp://127.0.0.1:9", "sweep": {"current": [1.0]}},
            "'tcp://127.0.0.1:9' does not answer",
        ),
    ],
)
def test_invalid_clusters_are_refused(
    neuron: CompiledModel, arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdf_loop.cluster.addresses.SCHEDULER_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(InputError, match=message):
        neuron.run(**TIME, **arguments)


def test_too_large_results_are_refused_with_a_remedy(neuron: CompiledModel, client: Any) -> None:
    with pytest.raises(MemoryLimitError, match=r"sweep\.zarr"):
        neuron.run(
            sweep=mdf_loop.sobol({"current": (0, 1)}, 10_000_000), steps=4000, cluster=client
        )


def test_a_worker_with_another_environment_is_refused(
    neuron: CompiledModel, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdf_loop.cluster.environment.__version__", "0.0.9")
    with pytest.raises(InputError, match=r"worker 'tls://.*mdf_loop 0\.1\.0 \(here: 0\.0\.9\)"):
        neuron.run(sweep={"current": CURRENTS}, **TIME, cluster=client, block=5)


def test_missing_libraries_have_an_install_command(
    neuron: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'mdf-loop\[cluster\]'"):
        neuron.run(sweep={"current": CURRENTS}, **TIME, cluster=2)


# --- what is not finite ---------------------------------------------------------------------------


def test_the_first_nan_or_infinite_member_has_a_note(
    neuron: CompiledModel, client: Any, tmp_path: Path
) -> None:
    currents = CURRENTS.copy()
    currents[[9, 17]] = 1e200
    options: dict[str, Any] = {"sweep": {"current": currents}, **TIME}
    with pytest.warns(RuntimeWarning, match="of member 9 became") as caught:
        local_results = neuron.run(**options)
    assert len(caught) == 1
    options |= {"cluster": client, "block": 4}
    for extra_options in ({}, {"output": tmp_path / "s.zarr"}):
        with pytest.warns(RuntimeWarning) as caught:
            cluster_results = neuron.run(**options, **extra_options)
        assert (
            [str(warning.message) for warning in caught]
            == [*cluster_results.notes]
            == [*local_results.notes]
        )
    with pytest.warns(RuntimeWarning):  # the previous run has computed all members
        resumed = neuron.run(**options, output=tmp_path / "s.zarr", resume=True)
    assert resumed.notes == local_results.notes
    assert neuron.run(**options, nan="ignore").notes == ()
