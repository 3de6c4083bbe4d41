"""A cluster that a file describes: the jobs it asks for, and what is wrong in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from mdf_loop.cluster import described
from mdf_loop.cluster.described import read_cluster
from mdf_loop.cluster.needed import needed
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


def written(folder: Path, text: str) -> Path:
    """A file with this text."""
    path = folder / "cluster.yaml"
    path.write_text(dedent(text))
    return path


def test_the_job_script(tmp_path: Path) -> None:
    """What dask-jobqueue hands to sbatch. There is no SLURM here: it was not run."""
    slurm_cluster = needed("dask_jobqueue").SLURMCluster
    arguments = dict(read_cluster(written(tmp_path, SLURM)).arguments)
    assert arguments.pop("jobs") == 3
    with slurm_cluster(**arguments) as cluster:
        script = cluster.job_script()
    script = re.sub(r"tcp://[\d.]+:\d+", "SCHEDULER", script.replace(sys.executable, "PYTHON"))
    assert script == GOLDEN.read_text()


def test_ctrl_c_does_what_it_did() -> None:
    code = """if True:
        import signal
        from mdf_loop.cluster.needed import needed
        needed("dask_jobqueue")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_so_many_jobs_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Cluster:
        def __init__(self, **arguments: object) -> None:
            asked.append(arguments)

        def scale(self, jobs: int) -> None:
            asked.append(jobs)

    monkeypatch.setitem(described._CLASSES, "slurm", lambda: Cluster)
    monkeypatch.setattr(described, "_known", lambda kind: {"queue", "jobs"})
    started = read_cluster(written(tmp_path, "slurm: {queue: long, jobs: 40}")).started()
    assert isinstance(started, Cluster)
    assert asked == [{"queue": "long"}, 40]


def test_hosts_by_ssh(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, "ssh: {hosts: [head, one], connect_options: {}}"))
    assert (found.kind, found.arguments["hosts"]) == ("ssh", ["head", "one"])


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("- slurm", "describes no cluster: it needs one of slurm, ssh", "an example"),
        ("{slurm: {jobs: 1}, ssh: {hosts: [a]}}", "describes no cluster", "an example"),
        ("{slrum: {jobs: 1}}", "of kind 'slrum', which there is not", "slurm"),
        ("slurm: normal", "slurm needs arguments by name", "an example"),
        ("slurm: {queue: normal}", "slurm needs jobs, a whole number above 0", ""),
        ("slurm: {jobs: true}", "slurm needs jobs, a whole number above 0", ""),
        ("slurm: {jobs: 2, queu: normal}", "slurm takes no 'queu'", "queue"),
        ("slurm: {jobs: 2, loop: x}", "slurm takes no 'loop'", ""),
        ("ssh: {host: [a]}", "ssh takes no 'host'", "hosts"),
        ("slurm: {jobs: [}", "is no YAML", ""),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, what: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        read_cluster(written(tmp_path, text))
    (found,) = raised.value.findings
    assert what in found.what
    assert "cluster.yaml" in found.what
    assert hint in found.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the cluster file"):
        read_cluster(tmp_path / "none.yaml")


def test_what_does_not_start_is_said(tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, "slurm: {jobs: 1, cores: 1}"))
    with pytest.raises(InputError, match=r"the cluster of '.+' does not start: .*memory"):
        found.started()
