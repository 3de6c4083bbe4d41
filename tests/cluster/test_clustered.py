"""Members are the same whoever runs them: bit for bit, with their axes, dtypes, loops and statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.api.compiled import Compiled
from mdf_loop.errors import InputError, MemoryLimitError, NotFiniteError, RunError
from mdf_loop.results.data import Results

pytestmark = pytest.mark.slow  # processes are started

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CURRENTS = np.linspace(0, 2, 23)
TIME = {"steps": 300, "dt": 0.1}


def same(one: Results, other: Results) -> None:
    """All that is said of both is the same."""
    assert list(one) == list(other)
    for name, array in other.items():
        np.testing.assert_array_equal(np.asarray(one[name]), array, strict=True)
    assert [axis.name for axis in one.axes] == [axis.name for axis in other.axes]
    for mine, wanted in zip(one.axes, other.axes, strict=True):
        assert list(mine.coordinates) == list(wanted.coordinates)
        for name, along in wanted.coordinates.items():
            np.testing.assert_array_equal(np.asarray(mine.coordinates[name]), np.asarray(along))
        assert mine.is_swept == wanted.is_swept
    assert dict(one.units) == dict(other.units)
    assert (one.seed, one.reduced) == (other.seed, other.reduced)


SWEEPS = {
    "paired": mdf_loop.paired({"current": CURRENTS, "fn.a": np.linspace(0.6, 0.8, 23)}),
    "grid": mdf_loop.grid({"current": CURRENTS, "fn.a": [0.6, 0.7, 0.8]}),
    "sobol": mdf_loop.sobol({"current": (0, 2), "fn.b": (0.7, 0.9)}, 41),
    "one": {"current": [0.3]},
}


@pytest.mark.parametrize("words", [{}, {"reduce": {"v": ["mean", "max"]}}, {"record": "fn.w"}])
@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_in_memory(neuron: Compiled, client: Any, sweep: str, words: Any) -> None:
    given = {"sweep": SWEEPS[sweep], **TIME, **words}
    same(neuron.run(**given, cluster=client, block=5), neuron.run(**given))


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_in_a_store(neuron: Compiled, client: Any, sweep: str, tmp_path: Path) -> None:
    given = {"sweep": SWEEPS[sweep], **TIME}
    alone = neuron.run(**given)
    shared = neuron.run(**given, cluster=client, block=5, output=tmp_path / "s.zarr")
    same(shared, alone)
    lazy = shared.to_xarray()
    xarray_names = set(lazy.variables) - {"computed"}
    assert xarray_names == set(alone.to_xarray().variables)
    for name in xarray_names:
        np.testing.assert_array_equal(lazy[name], alone.to_xarray()[name])
    assert (lazy["computed"] == 1).all()
    assert not any(lazy[name].variable._in_memory for name in alone)


def test_outputs_that_are_read_from_a_store_are_saved_like_others(
    neuron: Compiled, client: Any, tmp_path: Path
) -> None:
    given = {"sweep": SWEEPS["grid"], **TIME}
    shared = neuron.run(**given, cluster=client, output=tmp_path / "s.zarr")
    shared.save(tmp_path / "shared.npz")
    neuron.run(**given).save(tmp_path / "alone.npz")
    one, other = (np.load(tmp_path / f"{who}.npz") for who in ("shared", "alone"))
    assert set(one) == set(other)
    for name in other:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_measured_block(neuron: Compiled, client: Any) -> None:
    given = {"sweep": {"current": np.linspace(0, 2, 3000)}, **TIME}
    same(neuron.run(**given, cluster=client), neuron.run(**given))


def test_trials(client: Any) -> None:
    model = mdf_loop.compile(EXAMPLES / "drift_diffusion" / "model.yaml")
    drift = _drift(model)
    for given in (
        {"trials": 100},
        {"trials": [5, 3, 70]},
        {"trials": 7, "sweep": {drift: [0.1, 0.3, 0.7]}, "seed": 4},
        {"trials": 7, "sweep": mdf_loop.grid({drift: [0.1, 0.3], "seed": [1, 2]})},
    ):
        one, other = model.run(**given, cluster=client, block=4), model.run(**given)
        same(one, other)
        assert one.loops == other.loops


def test_statistics_over_trials_are_those_of_one_process(client: Any) -> None:
    model = mdf_loop.compile(EXAMPLES / "drift_diffusion" / "model.yaml")
    (rt, choice), drift = _told(model), _drift(model)
    words = ["mean", "std", "count", {"quantiles": [0.1, 0.5]}, {"histogram": [0, 1, 2, 9]}]
    for more in ({}, {"sweep": {drift: [0.1, 0.4]}}, {"sweep": mdf_loop.grid({drift: [0.1, 0.4]})}):
        given = {"trials": 500, "over_trials": {rt: words}, "by": choice, **more}
        one, other = model.run(**given, cluster=client, block=64), model.run(**given)
        same(one, other)
        assert one.told == other.told


def _told(model: Compiled) -> tuple[str, str]:
    names = list(model.run(trials=1))
    return (
        next(name for name in names if name.endswith(("rt", "reaction_time"))),
        next(name for name in names if name.endswith(("choice", "response"))),
    )


def _drift(model: Compiled) -> str:
    names = [f"{n.id}.{p.id}" for n in model.document.graph.nodes for p in n.parameters or []]
    return next(name for name in names if name.endswith(("drift", "drift_rate", "rate")))


def test_loops_whose_members_stop_apart(client: Any) -> None:
    model = mdf_loop.compile(EXAMPLES / "newton_sqrt" / "model.yaml")
    (port,) = [p.id for n in model.document.graph.nodes for p in n.input_ports or []][:1]
    given = {"sweep": {port: [2.0, 900.0, 1e8, 3.0, 5e5]}}
    one, other = model.run(**given, cluster=client, block=2), model.run(**given)
    same(one, other)
    assert one.loops == other.loops


# --- what fails -----------------------------------------------------------------------------------


def test_a_member_that_fails_is_named_and_the_others_are_kept(
    neuron: Compiled, client: Any, tmp_path: Path
) -> None:
    currents = CURRENTS.copy()
    currents[[4, 17]] = 1e200
    given = {"sweep": {"current": currents}, **TIME, "cluster": client, "block": 6}
    alone = neuron.run(sweep={"current": CURRENTS}, **TIME)["v"]
    good = np.delete(np.arange(23), [4, 17])
    for more in ({}, {"output": tmp_path / "s.zarr"}):
        with pytest.raises(RunError, match=r"member 4 \(current = 1e\+200\)") as caught:
            neuron.run(**given, **more, nan="error")
        assert "member 17" in str(caught.value)
        reached = np.asarray(caught.value.results["v"])
        np.testing.assert_array_equal(reached[good], alone[good])
        assert np.isnan(reached[[4, 17]]).all()
    flags = caught.value.results.to_xarray()["computed"].values
    assert (flags[good] == 1).all()
    assert (flags[[4, 17]] == 2).all()


def test_all_members_fail(neuron: Compiled, client: Any) -> None:
    with pytest.raises(RunError, match="all members failed; member 0"):
        neuron.run(sweep={"current": [1e200, 1e210]}, **TIME, nan="error", cluster=client)
    with pytest.raises(NotFiniteError):
        neuron.run(sweep={"current": [1e200, 1e210]}, **TIME, nan="error")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"cluster": 0, "sweep": {"current": [1.0]}}, "a cluster of 0 processes"),
        ({"cluster": 2.5, "sweep": {"current": [1.0]}}, "cluster cannot be 2.5"),
        ({"cluster": "head", "sweep": {"current": [1.0]}}, "'head' is no cluster"),
        ({"cluster": 2}, "there are none"),
        ({"cluster": 2, "sweep": {"current": [1.0]}, "nan": "stop"}, "do not stop one another"),
        ({"cluster": 2, "sweep": {"current": [1.0]}, "checkpoint": "a.ckpt"}, "no checkpoint"),
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
def test_what_means_no_cluster_is_refused(
    neuron: Compiled, words: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdf_loop.cluster.clients.PATIENCE", 0.5)
    with pytest.raises(InputError, match=said):
        neuron.run(**TIME, **words)


def test_what_does_not_fit_into_memory_is_refused_with_the_way_out(
    neuron: Compiled, client: Any
) -> None:
    with pytest.raises(MemoryLimitError, match=r"sweep\.zarr"):
        neuron.run(
            sweep=mdf_loop.sobol({"current": (0, 1)}, 10_000_000), steps=4000, cluster=client
        )


def test_a_worker_of_another_form_is_refused_by_name(
    neuron: Compiled, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdf_loop.cluster.form.__version__", "0.0.9")
    with pytest.raises(InputError, match=r"worker 'tcp://.*mdf_loop 0\.1\.0 \(here: 0\.0\.9\)"):
        neuron.run(sweep={"current": CURRENTS}, **TIME, cluster=client, block=5)


def test_without_the_libraries_the_error_says_what_to_install(
    neuron: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'mdf-loop\[cluster\]'"):
        neuron.run(sweep={"current": CURRENTS}, **TIME, cluster=2)


# --- what is not finite ---------------------------------------------------------------------------


def test_the_first_member_that_is_not_finite_is_noted(
    neuron: Compiled, client: Any, tmp_path: Path
) -> None:
    currents = CURRENTS.copy()
    currents[[9, 17]] = 1e200
    given: dict[str, Any] = {"sweep": {"current": currents}, **TIME}
    with pytest.warns(RuntimeWarning, match="of member 9 became") as caught:
        alone = neuron.run(**given)
    assert len(caught) == 1
    given |= {"cluster": client, "block": 4}
    for more in ({}, {"output": tmp_path / "s.zarr"}):
        with pytest.warns(RuntimeWarning) as caught:
            shared = neuron.run(**given, **more)
        assert [str(each.message) for each in caught] == [*shared.notes] == [*alone.notes]
    with pytest.warns(RuntimeWarning):  # all was computed by the run before this one
        again = neuron.run(**given, output=tmp_path / "s.zarr", resume=True)
    assert again.notes == alone.notes
    assert neuron.run(**given, nan="ignore").notes == ()
