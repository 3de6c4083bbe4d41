"""`--cluster`, `--grid` and `mdf-loop cluster check`: equal numbers, and clear errors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import dask
import numpy as np
import pytest
import xarray

from mdf_loop.api.cluster_check import check_workers
from mdf_loop.cluster import environment
from mdf_loop.cluster.clients import connect

pytestmark = pytest.mark.slow  # processes are started

Cli: TypeAlias = Callable[..., Any]
MODEL = Path(__file__).parents[2] / "examples" / "parameter_sweep" / "model.yaml"
TIME = ("--steps", 50, "--dt", 0.1)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the tls:// address of a scheduler with two processes; Dask's configuration has its key."""
    with connect(2) as connection:
        client = connection.client
        client.wait_for_workers(2)
        configuration = {
            "distributed.comm.tls.ca-file": client.security.tls_ca_file,
            "distributed.comm.tls.client.cert": client.security.tls_client_cert,
            "distributed.comm.tls.client.key": client.security.tls_client_key,
        }
        with dask.config.set(configuration):
            yield client.scheduler.address


def test_a_sweep_is_equal_on_a_cluster(cli: Cli, address: str) -> None:
    arguments = ("run", MODEL, "--sweep", "current=0:2:9", *TIME, "--json")
    local, clustered = cli(*arguments), cli(*arguments, "--cluster", address, "--block", 4)
    assert (clustered.code, clustered.err) == (0, "")
    assert clustered.json["outputs"] == local.json["outputs"]
    assert clustered.json["axes"] == local.json["axes"]


def test_a_grid_has_an_axis_for_each_name(cli: Cli) -> None:
    grid_options = ("--grid", "current=0:1:3", "--grid", "fn.a=[0.6, 0.7]")
    outcome = cli("run", MODEL, *grid_options, *TIME)
    assert outcome.code == 0
    assert "fn.v: float64[current=3, fn.a=2, time=50]" in outcome.out


def test_a_store_is_resumed(cli: Cli, address: str, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    arguments = (
        *("run", MODEL, "--sweep", "current=0:2:9", *TIME, "--output", store),
        *("--block", 4),
    )
    first = cli(*arguments, "--cluster", address)
    assert first.code == 0, first.err
    resumed = cli(*arguments, "--cluster", address, "--resume")
    assert resumed.code == 0, resumed.err
    changed = cli(*arguments, "--cluster", address, "--resume", "--set", "fn.a=0.6")
    assert changed.code == 2
    assert "the store" in changed.err
    assert "begin anew without resume" in changed.err
    dataset = xarray.open_zarr(store)
    assert dataset.sizes["batch"] == 9
    assert np.isfinite(dataset["fn.v"]).all()


def test_a_run_without_members_is_refused(cli: Cli, address: str) -> None:
    outcome = cli("run", MODEL, *TIME, "--cluster", address)
    assert outcome.code == 2
    assert "a cluster shares the members of a sweep, or trials" in outcome.err


@pytest.mark.parametrize("options", [("--block", 4), ("--retries", 1), ("--grid", "a=1")])
def test_options_that_require_other_options(cli: Cli, options: tuple[str, Any]) -> None:
    outcome = cli("run", MODEL, *TIME, *options)
    assert outcome.code == 2, outcome.out
    assert "Traceback" not in outcome.err


def test_grid_and_sweep_are_different_sweeps(cli: Cli) -> None:
    outcome = cli("run", MODEL, *TIME, "--grid", "current=[1]", "--sweep", "current=[1]")
    assert outcome.code == 2
    assert "--sweep and --grid are different sweeps" in outcome.err


def test_cluster_check_prints_each_worker(cli: Cli, address: str) -> None:
    outcome = cli("cluster", "check", address)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].startswith("here: mdf_loop ")
    assert sum("1 threads, as here; " in line for line in lines) == 2
    assert lines[-1].startswith("2 workers, ")


def test_cluster_check_reports_different_versions(cli: Cli, address: str, monkeypatch: Any) -> None:
    own = environment.environment_versions()
    monkeypatch.setattr(environment, "environment_versions", lambda: {**own, "onnxruntime": "0.0"})
    outcome = cli("cluster", "check", address)
    assert outcome.code == 1
    assert f"DIFFERENT: onnxruntime {own['onnxruntime']}" in outcome.out
    assert "2 of them would be refused" in outcome.out


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("0", "a cluster cannot have 0 processes"),
        ("none.yaml", "cannot read the cluster file 'none.yaml'"),
        ("head:8786", "'head:8786' is no cluster"),
        ("tcp://127.0.0.1:1", "the scheduler of the cluster 'tcp://127.0.0.1:1' does not answer"),
        ("nonsense://127.0.0.1:1", "has the unknown scheme 'nonsense'"),
        ("tls://127.0.0.1:1", "the scheduler of the cluster 'tls://127.0.0.1:1' does not answer"),
    ],
)
def test_invalid_clusters_are_refused(
    cli: Cli, cluster: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdf_loop.cluster.addresses.SCHEDULER_TIMEOUT_SECONDS", 0.2)
    outcome = cli("cluster", "check", cluster)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


def test_reports_have_a_speed(address: str) -> None:
    reports = check_workers(address)
    assert [report.thread_count for report in reports] == [1, 1]
    assert all(report.steps_per_second > 0 for report in reports)


def test_there_is_no_final_state(cli: Cli) -> None:
    arguments = ("run", MODEL, "--sweep", "current=0:2:9", *TIME, "--cluster", 1)
    outcome = cli(*arguments, "--final-state", "s.npz")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--final-state cannot be had with --cluster" in outcome.err
    assert "give steps" not in outcome.err


@pytest.mark.parametrize("cluster", ["tls://127.0.0.1:1", "nonsense://a:1", "tcp://a", "http"])
def test_a_refused_address_is_one_error(
    cli: Cli, cluster: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mdf_loop.cluster.addresses.SCHEDULER_TIMEOUT_SECONDS", 0.2)
    arguments = ("run", MODEL, "--sweep", "current=0:2:9", *TIME, "--cluster", cluster)
    outcome = cli(*arguments)
    gc.collect()  # runs destructors
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("Error") == 1
    assert len(outcome.err.splitlines()) == 2  # the error, and its hint
    assert capfd.readouterr() == ("", "")
