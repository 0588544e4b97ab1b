"""The files of a container that was not started, asked of the Engine one name at a time."""

import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker import APIClient
from docker.utils import decode_json_header

from sandbox_worker.sandbox.images.errors import BadImageError

_ENGINE_ERROR = 500
_HEADER = "x-docker-container-path-stat"
_PIECE = 1 << 18
_FOLDER, _LINK = 1 << 31, 1 << 27
_NO_FILE = _FOLDER | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""Bits of the Engine's modes: devices, pipes, sockets and what it has no word for."""


class ContainerTree:
    """A Tree. What was asked is remembered: nothing changes in a container that does not run."""

    def __init__(self, api: APIClient, container: str) -> None:
        self._api = api
        self._container = container
        self._url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
        self._known: dict[str, tuple[int, str]] = {"/": (stat.S_IFDIR | 0o755, "")}

    def mode(self, path: str) -> int | None:
        found = self._look(self.resolved(path))[0]
        return None if stat.S_ISLNK(found) else found or None

    def resolved(self, path: str) -> str:
        done = "/"
        for part in posixpath.normpath(path).strip("/").split("/"):
            below = posixpath.join(done, part)
            mode, leads_to = self._look(below)
            done = leads_to if stat.S_ISLNK(mode) and leads_to else below
        return done

    def _look(self, path: str) -> tuple[int, str]:
        """Mode (0: there is nothing) and where it leads in the end, if it is a link."""
        if path not in self._known:
            is_there = stat.S_ISDIR(self._look(posixpath.dirname(path))[0])
            self._known[path] = self._asked(path) if is_there else (0, "")
        return self._known[path]

    @contextmanager
    def archive(self, path: str) -> Iterator[Iterator[bytes]]:
        """The tar of a folder in pieces; the connection goes with the block, however far it was read."""
        with self._api.get(self._url, params={"path": path}, stream=True, timeout=self._api.timeout) as answer:
            answer.raise_for_status()
            yield answer.iter_content(_PIECE)

    def _asked(self, path: str) -> tuple[int, str]:
        answer = self._api.head(self._url, params={"path": path}, timeout=self._api.timeout)
        if answer.status_code == 404:
            return 0, ""
        if answer.status_code == _ENGINE_ERROR:
            self._api.inspect_container(self._container)  # raises where it is the Engine that is ill
            raise BadImageError(f"{path} of the image cannot be looked at: a link that leads in a circle?")
        answer.raise_for_status()
        found: dict[str, Any] = decode_json_header(answer.headers[_HEADER])
        return kind_of(found["mode"]) | found["mode"] & 0o777, found["linkTarget"]


def kind_of(mode: int) -> int:
    """As stat has it."""
    if mode & _FOLDER:
        return stat.S_IFDIR
    if mode & _LINK:
        return stat.S_IFLNK
    return stat.S_IFIFO if mode & _NO_FILE else stat.S_IFREG
