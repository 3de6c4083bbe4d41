"""Cluster files: their jobs, and errors in them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from mdf_loop.cluster import cluster_file
from mdf_loop.cluster.cluster_file import read_cluster
from mdf_loop.cluster.libraries import import_library
from mdf_loop.errors import InputError

GOLDEN = Path(__file__).parent / "golden" / "slurm.sh"

SLURM = """
slurm:
  queue: normal
  account: lab
  cores: 1
  memory: 4GB
  walltime: "02:00:00"
  jobs: 3
  scheduler_options: {host: 127.0.0.1, dashboard: false}
  job_extra_directives: ["--exclusive=user"]
  job_script_prologue: [source ~/mdf/bin/activate]
"""


def write_file(folder: Path, text: str) -> Path:
    """Write a file with this text, and return its path."""
    path = folder / "cluster.yaml"
    path.write_text(dedent(text))
    return path


def test_the_job_script(tmp_path: Path) -> None:
    """Check the script that dask-jobqueue passes to sbatch, without SLURM."""
    slurm_cluster = import_library("dask_jobqueue").SLURMCluster
    arguments = dict(read_cluster(write_file(tmp_path, SLURM)).arguments)
    assert arguments.pop("jobs") == 3
    with slurm_cluster(**arguments) as cluster:
        script = cluster.job_script()
    script = re.sub(r"tcp://[\d.]+:\d+", "SCHEDULER", script.replace(sys.executable, "PYTHON"))
    assert script == GOLDEN.read_text()


def test_the_handler_of_ctrl_c_is_restored() -> None:
    code = """if True:
        import signal
        from mdf_loop.cluster.libraries import import_library
        import_library("dask_jobqueue")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_number_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class Cluster:
        def __init__(self, **arguments: object) -> None:
            calls.append(arguments)

        def scale(self, jobs: int) -> None:
            calls.append(jobs)

    monkeypatch.setitem(cluster_file._CLUSTER_CLASSES, "slurm", lambda: Cluster)
    monkeypatch.setattr(cluster_file, "_allowed_arguments", lambda kind: {"queue", "jobs"})
    started = read_cluster(write_file(tmp_path, "slurm: {queue: long, jobs: 40}")).start()
    assert isinstance(started, Cluster)
    assert calls == [{"queue": "long"}, 40]


def test_hosts_by_ssh(tmp_path: Path) -> None:
    cluster_file = read_cluster(
        write_file(tmp_path, "ssh: {hosts: [head, one], connect_options: {}}")
    )
    assert (cluster_file.cluster_kind, cluster_file.arguments["hosts"]) == ("ssh", ["head", "one"])


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("- slurm", "describes no cluster: it needs one of slurm, ssh", "an example"),
        ("{slurm: {jobs: 1}, ssh: {hosts: [a]}}", "describes no cluster", "an example"),
        ("{slrum: {jobs: 1}}", "of the unknown kind 'slrum'", "slurm"),
        ("slurm: normal", "slurm needs arguments by name", "an example"),
        ("slurm: {queue: normal}", "slurm needs the number of jobs, a whole number above 0", ""),
        ("slurm: {jobs: true}", "slurm needs the number of jobs, a whole number above 0", ""),
        ("slurm: {jobs: 2, queu: normal}", "slurm takes no 'queu'", "queue"),
        ("slurm: {jobs: 2, loop: x}", "slurm takes no 'loop'", ""),
        ("ssh: {host: [a]}", "ssh takes no 'host'", "hosts"),
        ("slurm: {jobs: [}", "is no YAML", ""),
    ],
)
def test_errors_in_cluster_files(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cluster(write_file(tmp_path, text))
    (finding,) = caught.value.findings
    assert message in finding.what
    assert "cluster.yaml" in finding.what
    assert hint in finding.hint


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the cluster file"):
        read_cluster(tmp_path / "none.yaml")


def test_a_cluster_that_does_not_start(tmp_path: Path) -> None:
    cluster_file = read_cluster(write_file(tmp_path, "slurm: {jobs: 1, cores: 1}"))
    with pytest.raises(InputError, match=r"the cluster of '.+' does not start: .*memory"):
        cluster_file.start()
