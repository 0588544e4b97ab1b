"""Layers as the one tree that a box sees, read on the host without following a link out of it."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox_worker.sandbox.images import whiteout

_MOST_LINKS = 40


@dataclass(frozen=True)
class Found:
    """What stands under a name: one file or link, or the folders of several layers, the highest first."""

    places: tuple[Path, ...]
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


class Merged:
    """layers: from the lowest to the highest. host_usr: the host's /usr lies below theirs."""

    def __init__(self, layers: Sequence[str], *, host_usr: bool) -> None:
        tops = tuple(Path(layer) for layer in reversed(layers))
        self._root = Found(tops, os.lstat(tops[0]))
        self._host_usr = host_usr

    def find(self, path: str) -> Found | None:
        """Links are followed, also of the last name; None where there is nothing."""
        found = self._walk(self.resolved(path))
        return None if found is not None and found.is_link else found

    def mode(self, path: str) -> int | None:
        found = self.find(path)
        return found.status.st_mode if found else None

    def resolved(self, path: str) -> str:
        """The path without links on its way, as far as it exists."""
        done, todo, links = "", [part for part in path.split("/") if part not in ("", ".")], 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            found = self._walk(f"{done}/{part}")
            if found is None or not found.is_link or links >= _MOST_LINKS:
                done = f"{done}/{part}"
                continue
            links += 1
            target = os.readlink(found.places[0])
            done = "" if target.startswith("/") else done
            todo = [name for name in target.split("/") if name not in ("", ".")] + todo
        return done or "/"

    def children(self, folder: Found) -> Iterator[tuple[str, Found]]:
        """By name, without links followed."""
        names = {name for place in folder.places for name in os.listdir(place)}
        for name in sorted(names):
            found = _beside(folder.places, name)
            if found is not None:
                yield name, found

    def _walk(self, path: str) -> Found | None:
        found: Found | None = self._root
        for part in [part for part in path.split("/") if part]:
            if found is None or not found.is_folder:
                return None
            places = found.places
            found = _beside(places, part)
            if found is not None and places == self._root.places and part == "usr" and self._host_usr:
                found = Found((*found.places, Path("/usr")), found.status)
        return found


def _beside(places: tuple[Path, ...], name: str) -> Found | None:
    """What the layers together have of a name in a folder."""
    folders: list[Path] = []
    first: os.stat_result | None = None
    for place in places:
        path = place / name
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if whiteout.is_whiteout(status):
            break
        if not stat.S_ISDIR(status.st_mode):
            if first is None:
                return Found((path,), status)
            break
        first = first or status
        folders.append(path)
        if whiteout.is_opaque(path):
            break
    return None if first is None else Found(tuple(folders), first)
