"""TCP ports of this machine: whether one can be had, and whether somebody answers on it."""

import http.client
import socket


class PortError(Exception):
    """A port cannot be had; says how to choose another."""


def check_port(host: str, port: int, who: str, way_out: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortError(
                f"Port {port} on {host} cannot be had for {who}: {error.strerror}. Choose another: {way_out}"
            ) from error


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((_reachable(host), port), timeout=1).close()
    except OSError:
        return False
    return True


def answers_http(host: str, port: int, path: str) -> bool:
    """Whether there is an answer that is no server error; a refused Host header counts as one."""
    connection = http.client.HTTPConnection(_reachable(host), port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _reachable(host: str) -> str:
    """Where one asks a server that listens on every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
