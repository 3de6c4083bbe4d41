"""`--cluster`, `--grid` and `mdf-loop cluster check`: the same numbers, and errors in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import xarray

from mdf_loop.api.cluster_check import check_workers
from mdf_loop.cluster import form
from mdf_loop.cluster.clients import connected

pytestmark = pytest.mark.slow  # processes are started

Cli: TypeAlias = Callable[..., Any]
MODEL = Path(__file__).parents[2] / "examples" / "parameter_sweep" / "model.yaml"
TIME = ("--steps", 50, "--dt", 0.1)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the scheduler of two processes listens."""
    with connected(2) as client:
        client.wait_for_workers(2)
        yield client.scheduler.address


def test_a_sweep_gives_what_it_gives_alone(cli: Cli, address: str) -> None:
    given = ("run", MODEL, "--sweep", "current=0:2:9", *TIME, "--json")
    alone, shared = cli(*given), cli(*given, "--cluster", address, "--block", 4)
    assert (shared.code, shared.err) == (0, "")
    assert shared.json["outputs"] == alone.json["outputs"]
    assert shared.json["axes"] == alone.json["axes"]


def test_a_grid_has_an_axis_for_each_name(cli: Cli) -> None:
    crossed = ("--grid", "current=0:1:3", "--grid", "fn.a=[0.6, 0.7]")
    done = cli("run", MODEL, *crossed, *TIME)
    assert done.code == 0
    assert "fn.v: float64[current=3, fn.a=2, time=50]" in done.out


def test_a_store_is_resumed(cli: Cli, address: str, tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    given = (*("run", MODEL, "--sweep", "current=0:2:9", *TIME, "--output", store), *("--block", 4))
    first = cli(*given, "--cluster", address)
    assert first.code == 0, first.err
    again = cli(*given, "--cluster", address, "--resume")
    assert again.code == 0, again.err
    other = cli(*given, "--cluster", address, "--resume", "--set", "fn.a=0.6")
    assert other.code == 2
    assert "the store" in other.err
    assert "begin anew without resume" in other.err
    kept = xarray.open_zarr(store)
    assert kept.sizes["batch"] == 9
    assert np.isfinite(kept["fn.v"]).all()


def test_what_has_no_members_is_refused(cli: Cli, address: str) -> None:
    done = cli("run", MODEL, *TIME, "--cluster", address)
    assert done.code == 2
    assert "a cluster shares the members of a sweep, or trials" in done.err


@pytest.mark.parametrize("words", [("--block", 4), ("--retries", 1), ("--grid", "a=1")])
def test_a_word_without_what_it_goes_with(cli: Cli, words: tuple[str, Any]) -> None:
    done = cli("run", MODEL, *TIME, *words)
    assert done.code == 2, done.out
    assert "Traceback" not in done.err


def test_grid_and_sweep_are_different_sweeps(cli: Cli) -> None:
    done = cli("run", MODEL, *TIME, "--grid", "current=[1]", "--sweep", "current=[1]")
    assert done.code == 2
    assert "--sweep and --grid are different sweeps" in done.err


def test_a_cluster_is_tried(cli: Cli, address: str) -> None:
    done = cli("cluster", "check", address)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("here: mdf_loop ")
    assert sum("1 threads, as here; " in line for line in lines) == 2
    assert lines[-1].startswith("2 workers, ")


def test_workers_that_would_be_refused(cli: Cli, address: str, monkeypatch: Any) -> None:
    own = form.form()
    monkeypatch.setattr(form, "form", lambda: {**own, "onnxruntime": "0.0"})
    done = cli("cluster", "check", address)
    assert done.code == 1
    assert f"DIFFERENT: onnxruntime {own['onnxruntime']}" in done.out
    assert "2 of them would be refused" in done.out


@pytest.mark.parametrize(
    ("cluster", "what"),
    [
        ("0", "a cluster of 0 processes cannot be"),
        ("none.yaml", "cannot read the cluster file 'none.yaml'"),
        ("head:8786", "'head:8786' is no cluster"),
        ("tcp://127.0.0.1:1", "the scheduler of the cluster 'tcp://127.0.0.1:1' does not answer"),
        ("nonsense://127.0.0.1:1", "does not answer"),
    ],
)
def test_what_is_no_cluster(cli: Cli, cluster: str, what: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("mdf_loop.cluster.clients.PATIENCE", 0.5)
    done = cli("cluster", "check", cluster)
    assert done.code == 2
    assert what in done.err
    assert done.out == ""


def test_reports_have_a_speed(address: str) -> None:
    reports = check_workers(address)
    assert [report.threads for report in reports] == [1, 1]
    assert all(report.speed > 0 for report in reports)
