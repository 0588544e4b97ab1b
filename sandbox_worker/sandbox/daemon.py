"""What the Docker Engine of this host says of itself, asked over its socket with a short time limit."""

import http.client
import json
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

DEFAULT = "unix:///var/run/docker.sock"
GVISOR = "runsc"
MEND = "Start it, give this user the right to it (its group is docker), or set DOCKER_HOST."
SECONDS = 3.0
_MOST_BYTES = 4 * 2**20


class EngineAbsentError(Exception):
    """No Engine answers there, in words that name the address."""


@dataclass(frozen=True)
class EngineFacts:
    address: str
    version: str
    cgroups: str
    """Version and driver."""
    storage: str
    root: Path
    runtimes: tuple[str, ...]


def ask_engine(address: str, *, seconds: float = SECONDS) -> EngineFacts:
    """seconds: for each step of the conversation. Raises EngineAbsentError."""
    try:
        said = get_json(connection_to(address, seconds), "/info")
        return EngineFacts(
            address=address,
            version=str(said["ServerVersion"]),
            cgroups=f"v{said.get('CgroupVersion', '1')} by {said['CgroupDriver']}",
            storage=str(said["Driver"]),
            root=Path(str(said["DockerRootDir"])),
            runtimes=tuple(sorted(said["Runtimes"])),
        )
    except OSError as error:
        raise EngineAbsentError(f"{address}: {error.strerror or error}") from error
    except (http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise EngineAbsentError(f"{address} does not speak as a Docker Engine does ({error!r})") from error


def connection_to(address: str, seconds: float) -> http.client.HTTPConnection:
    """Raises EngineAbsentError for an address of another kind, OSError where the keys of TLS cannot be read."""
    parsed = urlparse(address)
    if parsed.scheme == "unix":
        return UnixConnection(parsed.path, seconds)
    if parsed.scheme not in ("tcp", "http", "https") or not parsed.hostname:
        raise EngineAbsentError(f"{address} is no address of an Engine on this host, such as {DEFAULT}")
    if parsed.scheme == "https" or os.environ.get("DOCKER_TLS_VERIFY"):
        return http.client.HTTPSConnection(
            parsed.hostname, parsed.port or 2376, timeout=seconds, context=client_context()
        )
    return http.client.HTTPConnection(parsed.hostname, parsed.port or 2375, timeout=seconds)


def client_context() -> ssl.SSLContext:
    """With the keys where Docker's own client has them."""
    keys = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    context = ssl.create_default_context(cafile=keys / "ca.pem")
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    return context


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def get_json(connection: http.client.HTTPConnection, path: str) -> dict[str, Any]:
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES)
        if answer.status != 200:
            raise http.client.HTTPException(f"status {answer.status}")
        found = json.loads(body)
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise TypeError("no object")
    return found
