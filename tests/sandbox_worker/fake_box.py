"""A back end without boxes, for tests in which a real box is not the point: commands from a table, files in memory.

It runs nothing, so nothing of it can harm the host, and nothing that it says proves isolation.
"""

import posixpath
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox_worker.sandbox import archive, layout
from sandbox_worker.sandbox.base import (
    Backend,
    Box,
    BoxFileError,
    BoxKilledError,
    BoxSpec,
    CommandRefusedError,
    Completed,
    End,
    MissingFileError,
    Said,
    Session,
    SessionClosedError,
    Usage,
)
from sandbox_worker.sandbox.channel import Reply


@dataclass(frozen=True)
class Does:
    """What a command does."""

    output: bytes = b""
    exit_code: int = 0
    seconds: float = 0.0
    closes: bool = False
    """The session in which it runs."""


UNKNOWN = Does(b"not found\n", exit_code=127)


class FakeBox(Box):
    def __init__(self, spec: BoxSpec, table: Mapping[str, Does]) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        """By absolute path: content and mode."""
        self._spec = spec
        self._table = table
        self._cancelled = threading.Event()
        self._killed = False
        self._session: FakeSession | None = None

    def run(
        self,
        command: list[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        cwd: str = "",
        user: str = "",
    ) -> Completed:
        self._require_life()
        if self._session and not self._session.closed:
            raise CommandRefusedError("session: one is open")
        return self.do(self._table.get(command[-1], UNKNOWN), timeout)

    def do(self, does: Does, timeout: float) -> Completed:
        self._require_life()
        self._cancelled.clear()
        interrupted = self._cancelled.wait(min(does.seconds, timeout))
        self._require_life()
        if interrupted or does.seconds > timeout:
            end = End.CANCELLED if interrupted else End.TIMED_OUT
            return Completed(end, 124, b"", 0, timeout, finished=False)
        kept = does.output[: self._spec.limits.output_bytes]
        return Completed(End.EXITED, does.exit_code, kept, len(does.output), does.seconds)

    def cancel(self) -> None:
        self._cancelled.set()

    def open_session(self) -> "FakeSession":
        self._require_life()
        if self._session and not self._session.closed:
            raise CommandRefusedError("session: one is open")
        self._session = FakeSession(self, self._table)
        return self._session

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._require_life()
        place = self._absolute(path)
        if any(other.startswith(f"{place}/") for other in self.files):
            raise BoxFileError(path, "Is a directory")
        self.files[place] = (data, mode)

    def read(self, path: str, *, limit: int) -> bytes:
        self._require_life()
        place = self._absolute(path)
        if place not in self.files:
            raise MissingFileError(path, "there is no such file")
        data, _ = self.files[place]
        if len(data) > limit:
            raise BoxFileError(path, f"larger than {limit} bytes")
        return data

    def snapshot(self, *, limit: int, folder: str = "") -> bytes:
        self._require_life()
        top = self._absolute(folder) + "/"
        found = {path.removeprefix(top): held for path, held in sorted(self.files.items()) if path.startswith(top)}
        if sum(len(data) for data, _ in found.values()) > limit:
            raise BoxFileError(folder, f"the files take more than {limit} bytes")
        words = [word for name, (data, mode) in found.items() for word in ("f", str(mode), str(len(data)), name)]
        return archive.pack(Reply(["ok", *words], b"".join(data for data, _ in found.values())))

    def restore(self, content: bytes, *, folder: str = "", links: bool = False) -> None:
        self._require_life()
        top = self._absolute(folder) + "/"
        entries = archive.unpack(content, links=links)
        self.files = {path: held for path, held in self.files.items() if not path.startswith(top)}
        self.files |= {top + entry.name: (entry.data, entry.mode) for entry in entries if entry.kind == "f"}

    def usage(self) -> Usage:
        return Usage(0.0, 0, 0, sum(len(data) for data, _ in self.files.values()))

    def give(self, *, env: tuple[tuple[str, str], ...], label: str) -> None:
        self._spec = BoxSpec(**vars(self._spec) | {"env": env, "label": label})

    def kill(self) -> None:
        self._killed = True
        self._cancelled.set()

    def stop(self) -> None:
        self.kill()

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._spec.workdir, path))

    def _require_life(self) -> None:
        if self._killed:
            raise BoxKilledError("The box was killed.")


class FakeSession(Session):
    def __init__(self, box: FakeBox, table: Mapping[str, Does]) -> None:
        self.closed = False
        self._box = box
        self._table = table

    def run(self, text: str, *, timeout: float, stdin: bytes = b"") -> Said:
        if self.closed:
            raise SessionClosedError("The session has ended.")
        does = self._table.get(text, UNKNOWN)
        done = self._box.do(does, timeout)
        self.closed = does.closes
        return Said(done, closed=does.closes, waiting=False)

    def close(self) -> None:
        self.closed = True


class FakeBackend(Backend):
    isolation = "none: nothing runs"
    weaker = ""

    def __init__(self, table: Mapping[str, Does]) -> None:
        """By the last word of the command, or the text that a session is told."""
        self._table = table
        self._boxes: list[FakeBox] = []

    def start(self, spec: BoxSpec) -> FakeBox:
        layout.check_workdir(spec.workdir)
        self._boxes.append(FakeBox(spec, self._table))
        return self._boxes[-1]

    def reap(self) -> int:
        return 0

    def close(self) -> None:
        for box in self._boxes:
            box.stop()
