"""Scheduler addresses: each address without a scheduler is one error, before Dask's client connects."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mdf_loop.cluster import addresses
from mdf_loop.cluster.addresses import check_address, check_listener, check_scheduler
from mdf_loop.errors import InputError

pytest.importorskip("distributed")

GREETING = (120).to_bytes(8, "little") + bytes(112)
"""Bytes with the length prefix of a greeting of Dask."""


@contextmanager
def listener(serve: Callable[[socket.socket], Any]) -> Iterator[str]:
    """Yield the address of a server that serves one connection after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test is over
                    return
                with connection:
                    serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nonsense://127.0.0.1:1", "has the unknown scheme 'nonsense'"),
        ("://host:1", "has the unknown scheme ''"),
        ("TCP ://host:1", "has the unknown scheme 'TCP '"),
        ("http://host:8787", "has the unknown scheme 'http'"),
        ("tls://host:1", "needs certificates, and Dask's configuration names none"),
        ("tls://host", "is no address of a scheduler: it has no port"),
        ("tcp://host", "is no address of a scheduler: it has no port"),
        ("tcp://host:0", "is no address of a scheduler: it has no port"),
        ("tcp://:8786", "is no address of a scheduler: it has no host"),
        ("tcp://", "is no address of a scheduler: it has no host"),
        ("tcp://host:port", "is no address of a scheduler: Port could not be cast"),
        ("tcp://host:99999", "is no address of a scheduler: Port out of range"),
        ("tcp://[::1:8786", "is no address of a scheduler: Invalid IPv6"),
        ("tcp://host:8786/status", "a host and a port, and nothing else"),
        ("tcp://me@host:8786", "a host and a port, and nothing else"),
    ],
)
def test_the_text_of_an_address(address: str, message: str) -> None:
    with pytest.raises(InputError, match=r"tcp://head:8786|dask.distributed.Client") as caught:
        check_address(address)
    (finding,) = caught.value.findings
    assert message in finding.what
    assert address in finding.what


@pytest.mark.parametrize("address", ["tcp://head:8786", "tcp://[::1]:8786", "ws://head:8786"])
def test_addresses_that_are_accepted(address: str) -> None:
    check_address(address)


def answers(text: bytes) -> Callable[[socket.socket], None]:
    """Return a server that sends a text to whoever connects."""
    return lambda connection: connection.sendall(text)


def answers_a_request(connection: socket.socket) -> None:
    """Send an answer once there is a request, as web servers do."""
    connection.settimeout(5)
    try:
        if connection.recv(1024).startswith(b"GET"):
            connection.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")
    except OSError:
        pass


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(answers(b"SSH-2.0-OpenSSH_9.2p1\r\n"), id="a banner"),
        pytest.param(answers(b"J\0\0\0\n8.0.36\0"), id="a binary banner"),
        pytest.param(answers(b"220"), id="a short banner"),
        pytest.param(answers(bytes(8)), id="zeros"),
        pytest.param(lambda connection: None, id="closes the connection"),
    ],
)
def test_other_programs_that_listen(serve: Callable[[socket.socket], Any]) -> None:
    with listener(serve) as address, pytest.raises(InputError) as caught:
        check_listener(address)
    assert f"the program that listens at '{address}' is no scheduler of Dask" in str(caught.value)


def test_a_web_server_waits_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SILENCE_SECONDS", 0.2)

    def serve(connection: socket.socket) -> None:
        threading.Thread(target=answers_a_request, args=(connection.dup(),), daemon=True).start()

    with listener(serve) as address, pytest.raises(InputError, match="is no scheduler of Dask"):
        check_listener(address)


def test_a_silent_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(addresses, "SCHEDULER_TIMEOUT_SECONDS", 0.3)
    connections = []
    with (
        listener(lambda connection: connections.append(connection.dup())) as address,
        pytest.raises(InputError, match="does not answer: it sends no greeting"),
    ):
        check_listener(address)


def test_a_busy_scheduler_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SILENCE_SECONDS", 0.1)

    def serve(connection: socket.socket) -> None:
        time.sleep(0.3)
        connection.sendall(GREETING)

    with listener(serve) as address:
        check_listener(address)


def test_a_scheduler_that_is_started_at_the_same_time_is_awaited() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    def start() -> None:
        with socket.create_server(("127.0.0.1", port)) as later, later.accept()[0] as connection:
            connection.sendall(GREETING)

    thread = threading.Timer(0.3, start)
    thread.start()
    check_listener(f"tcp://127.0.0.1:{port}")
    thread.join()


def test_a_host_without_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SCHEDULER_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for scheme in ("tcp", "tls"):
        address = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(InputError, match=f"'{address}' does not answer: .*refused"):
            check_listener(address)
    with pytest.raises(InputError, match="does not answer"):
        check_listener(f"tcp://{'a' * 70}:8786")


@pytest.mark.parametrize("kind", ["Worker", "Nanny"])
def test_another_server_of_dask(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def kind_of_server(address: str) -> str:
        return kind

    monkeypatch.setattr(addresses, "_kind_of_server", kind_of_server)
    with pytest.raises(InputError, match=f"a {kind.lower()} of Dask listens at 'tcp://a:1'"):
        check_scheduler("tcp://a:1")


def test_a_server_with_another_protocol() -> None:
    with (
        listener(answers(GREETING)) as address,
        pytest.raises(InputError, match=r"the scheduler of the cluster .* does not answer"),
    ):
        check_scheduler(address)
