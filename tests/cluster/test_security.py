"""Local workers connect by TLS; without the library for keys there is no cluster."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

from mdf_loop.api.compiled import CompiledModel
from mdf_loop.cluster import clients
from mdf_loop.cluster.addresses import check_listener, check_scheduler
from mdf_loop.errors import InputError

pytestmark = pytest.mark.slow  # processes are started
distributed = pytest.importorskip("distributed")

REMEDY = r"pip install 'mdf-loop\[cluster\]'"


def test_who_has_no_key_is_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdf_loop.cluster.addresses.SCHEDULER_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr("mdf_loop.cluster.addresses.SILENCE_SECONDS", 0.1)
    information = client.scheduler_info(n_workers=-1)
    other_key = distributed.Security.temporary()
    monkeypatch.setattr(distributed, "Security", lambda: other_key)
    for address in [information["address"], *information["workers"]]:
        assert address.startswith("tls://127.0.0.1:")
        with pytest.raises(InputError):
            check_listener(address.replace("tls://", "tcp://"))
        with pytest.raises(InputError, match="does not answer"):
            check_scheduler(address)


def test_two_clusters_have_different_keys() -> None:
    first, second = (clients._temporary_security(distributed) for _ in range(2))
    assert first.tls_worker_key != second.tls_worker_key
    assert clients._worker_security_arguments(first)["require_encryption"]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_the_key_is_on_no_command_line(client: Any) -> None:
    key_line = client.security.tls_worker_key.splitlines()[1]
    for process in client.run(_own_files).values():
        assert key_line not in process["cmdline"]
        assert key_line not in process["environ"]
        assert "worker_process" in process["cmdline"]


def _own_files() -> dict[str, str]:
    return {
        name: Path(f"/proc/self/{name}").read_text(errors="replace")
        for name in ("cmdline", "environ")
    }


def _raise_import_error() -> None:
    raise ImportError("libssl.so.3: no such file")


@pytest.mark.parametrize("how", ["is not installed", "cannot be imported"])
def test_without_the_library_no_scheduler_is_started(
    neuron: CompiledModel, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def start(**arguments: object) -> None:
        raise AssertionError("a scheduler was started")

    monkeypatch.setattr(distributed, "SpecCluster", start)
    if how == "is not installed":
        monkeypatch.setitem(sys.modules, "cryptography", None)
    else:
        monkeypatch.setattr(distributed.Security, "temporary", _raise_import_error)
    options = {"sweep": {"current": [0.1, 0.2, 0.3]}, "steps": 3, "dt": 0.1}
    with pytest.raises(InputError, match=f"the library cryptography, which {how}") as caught:
        neuron.run(**options, cluster=2, block=1)
    assert len(caught.value.findings) == 1
    with pytest.raises(InputError, match=REMEDY):
        neuron.run(**options, cluster=2, block=1)


def test_the_library_is_part_of_the_extra() -> None:
    stated = importlib.metadata.requires("mdf-loop") or []
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert stated
    assert '    "cryptography>=' in project.read_text().split("cluster = [")[1].split("]")[0]
