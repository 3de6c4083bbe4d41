"""Checks of a Dask scheduler's address before Dask's client connects to it.

A client of Dask that cannot connect waits, logs tracebacks and leaves objects behind whose destructors
print warnings. So these checks come first, and each ends in one error:

    check_address      the text of the address, without a connection
    check_listener     the program at the address, by the greeting of a scheduler
    check_scheduler    the kind of Dask server at the address, by Dask's own connection
"""

from __future__ import annotations

import socket
import time
from typing import Any
from urllib.parse import urlsplit

from mdf_loop.cluster.libraries import import_library
from mdf_loop.errors import InputError

SCHEDULER_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for the answer of a scheduler."""

SILENCE_SECONDS = 1.0
"""Seconds without a greeting after which an HTTP request tests for a web server."""

POLL_SECONDS = 0.1
"""Seconds between two checks for an awaited event."""

_MAX_GREETING_BYTES = 1 << 20
"""Bound on the size of a greeting. A greeting of Dask begins with its size, as an integer of 64 bits.

Eight characters of text, read as such an integer, are larger than this bound.
"""

_ADDRESS_HINT = "give the address that 'dask scheduler' prints, e.g. tcp://head:8786"
_ANSWER_HINT = (
    "is it running, and may this machine connect to it? 'dask scheduler' starts one and prints its "
    "address; 8787 is the port of its dashboard"
)


def check_address(address: str) -> None:
    """Check that a text is a valid address of a Dask scheduler, without a connection.

    Raises:
        InputError: The scheme is unknown, the host or the port is missing or invalid, or Dask's
            configuration has no certificates for a tls:// address.
    """
    scheme = address.partition("://")[0]
    if scheme == "tcp":
        _host_and_port(address)
        return
    registry = import_library("distributed.comm.registry")
    try:
        registry.get_backend(scheme)
    except ValueError:
        raise InputError(
            f"the address '{address}' has the unknown scheme '{scheme}'", hint=_ADDRESS_HINT
        ) from None
    if scheme == "tls":
        _host_and_port(address)
        _check_certificates(address)


def _host_and_port(address: str) -> tuple[str, int]:
    """Return the host and port in the address of a scheduler.

    Raises:
        InputError: One of them is missing or invalid.
    """
    address_problem = ""
    try:
        url_parts = urlsplit(address)
        host, port = url_parts.hostname, url_parts.port
        if not host:
            address_problem = "it has no host"
        elif not port:
            address_problem = "it has no port"
        elif (
            url_parts.path
            or url_parts.query
            or url_parts.fragment
            or url_parts.username is not None
        ):
            address_problem = "an address has a host and a port, and nothing else"
    except ValueError as error:
        address_problem = str(error)
    if address_problem:
        raise InputError(
            f"'{address}' is no address of a scheduler: {address_problem}", hint=_ADDRESS_HINT
        )
    assert host is not None
    assert port is not None
    return host, port


def _check_certificates(address: str) -> None:
    """Check that Dask's configuration names TLS certificates.

    Raises:
        InputError: The configuration has no certificates.
    """
    security = import_library("distributed.security").Security()
    if not (security.tls_ca_file and security.tls_client_cert):
        raise InputError(
            f"the cluster '{address}' needs certificates, and Dask's configuration names none",
            hint="set distributed.comm.tls in Dask's configuration, or give a "
            "dask.distributed.Client with security= in Python",
        )


# --- the program that listens ---------------------------------------------------------------------


def check_listener(address: str) -> None:
    """Check that a program listens at an address, and greets as Dask servers do.

    A refused connection is tried again, since a scheduler may still be starting.
    A tls:// address has no greeting. Addresses of other schemes are not checked here.

    Raises:
        InputError: No program listens at the address, or a program other than Dask.
    """
    scheme = address.partition("://")[0]
    if scheme not in ("tcp", "tls"):
        return
    deadline = time.monotonic() + SCHEDULER_TIMEOUT_SECONDS
    with _open_socket(address, deadline) as connection:
        if scheme == "tls":
            return
        greeting = _receive_bytes(connection, min(deadline, time.monotonic() + SILENCE_SECONDS))
        if greeting is None:
            answer = _answer_to_web_request(address, deadline)
            greeting = answer or _receive_bytes(connection, deadline)
    if greeting is None:
        raise unreachable_error(address, "it sends no greeting")
    if not _is_greeting(greeting):
        raise InputError(
            f"the program that listens at '{address}' is no scheduler of Dask", hint=_ANSWER_HINT
        )


def unreachable_error(address: str, problem: object) -> InputError:
    """Return the error for a scheduler that cannot be reached."""
    return InputError(
        f"the scheduler of the cluster '{address}' does not answer: {problem}", hint=_ANSWER_HINT
    )


def _open_socket(address: str, deadline: float) -> socket.socket:
    """Open a socket connection to an address, with retries until a deadline.

    Raises:
        InputError: No program listens at the address until the deadline, or the host does not exist.
    """
    host_and_port = _host_and_port(address)
    while True:
        try:
            timeout_seconds = max(POLL_SECONDS, deadline - time.monotonic())
            return socket.create_connection(host_and_port, timeout_seconds)
        except ConnectionRefusedError as error:
            if time.monotonic() + POLL_SECONDS >= deadline:
                raise unreachable_error(address, error) from None
            time.sleep(POLL_SECONDS)
        except (OSError, UnicodeError) as error:
            raise unreachable_error(address, error) from None


def _answer_to_web_request(address: str, deadline: float) -> bytes | None:
    """Send an HTTP request, and return the first bytes of the answer, or None on a timeout."""
    with _open_socket(address, deadline) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        except OSError:
            return b""
        return _receive_bytes(connection, time.monotonic() + SILENCE_SECONDS)


def _receive_bytes(connection: socket.socket, deadline: float) -> bytes | None:
    """Receive up to eight bytes from a socket, or return None after the deadline.

    Fewer bytes mean that the connection was closed.
    """
    received_bytes = b""
    while len(received_bytes) < 8:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            break
        connection.settimeout(remaining_seconds)
        try:
            new_bytes = connection.recv(8 - len(received_bytes))
        except TimeoutError:
            break
        except OSError:  # the other side closed the connection
            new_bytes = b""
        if not new_bytes:
            return received_bytes
        received_bytes += new_bytes
    return received_bytes or None


def _is_greeting(received: bytes) -> bool:
    """Return True if bytes from a socket may be the beginning of a Dask server's greeting."""
    return len(received) == 8 and 0 < int.from_bytes(received, "little") < _MAX_GREETING_BYTES


# --- the kind of server ---------------------------------------------------------------------------


def check_scheduler(address: str) -> None:
    """Check that a Dask scheduler, and no other Dask server, listens at an address.

    Raises:
        InputError: Another server of Dask listens at the address, or no server answers.
    """
    import asyncio  # its import takes a while

    try:
        server_kind = asyncio.run(_kind_of_server(address))
    except Exception as error:  # noqa: BLE001 - a server may answer anything
        raise unreachable_error(address, str(error) or type(error).__name__) from None
    if server_kind in ("Worker", "Nanny"):
        raise InputError(
            f"a {server_kind.lower()} of Dask listens at '{address}', not a scheduler",
            hint=_ADDRESS_HINT,
        )


async def _kind_of_server(address: str) -> Any:
    """Return the kind of a Dask server, such as `Scheduler` or `Worker`, by asking the server."""
    import asyncio

    distributed = import_library("distributed")

    async def ask() -> Any:
        connection_arguments = distributed.Security().get_connection_args("client")
        async with distributed.core.rpc(
            address, timeout=SCHEDULER_TIMEOUT_SECONDS, connection_args=connection_arguments
        ) as server:
            return await server.identity()

    server_identity = await asyncio.wait_for(ask(), SCHEDULER_TIMEOUT_SECONDS)
    return server_identity.get("type")
