"""What the supervised processes print: to one file each, and to the console with the name before each line.

A slow or stopped console loses lines and says how many; it never holds a process up.
"""

import queue
import threading
from collections import deque
from pathlib import Path
from typing import IO, BinaryIO, TextIO

FILE_BYTES = 16 * 2**20
"""A log file that grows past this becomes '<name>.log.1', whose predecessor goes."""
TAIL_LINES = 40
_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)


class Console:
    """Lines of many threads, written by one."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._colour = stream is not None and stream.isatty()
        self._names: list[str] = []
        self._lost = 0
        self._lines: queue.Queue[str | None] = queue.Queue(maxsize=5000)
        self._writer = threading.Thread(target=self._write, name="console", daemon=True)
        if stream is not None:
            self._writer.start()

    def say(self, name: str, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._lines.put_nowait(f"{self._prefix(name)} {text}\n")
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Waits a moment for what is queued, so that the last words are read."""
        if self._stream is None or not self._writer.is_alive():
            return
        if self._lost:
            self.say("up", f"{self._lost} lines were not shown here; the log files have them")
        try:
            self._lines.put(None, timeout=0.5)
        except queue.Full:
            return
        self._writer.join(timeout=0.5)

    def _prefix(self, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        label = f"{name:<9}|"
        if not self._colour:
            return label
        return f"\x1b[{_COLOURS[self._names.index(name) % len(_COLOURS)]}m{label}\x1b[0m"

    def _write(self) -> None:
        assert self._stream is not None
        while (line := self._lines.get()) is not None:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):  # the terminal was closed; the log files go on
                return


class Log:
    """One process's output, over all its restarts."""

    def __init__(self, name: str, folder: Path | None, console: Console) -> None:
        self._name = name
        self._console = console
        self._path = folder / f"{name}.log" if folder else None
        self._file: BinaryIO | None = self._path.open("ab") if self._path else None
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._reader: threading.Thread | None = None

    def follow(self, pipe: IO[bytes]) -> None:
        self._reader = threading.Thread(target=self._read, args=(pipe,), name=f"log-{self._name}", daemon=True)
        self._reader.start()

    def settle(self) -> None:
        """Until the last words of a process that has ended are shown and kept."""
        if self._reader is not None:
            self._reader.join(timeout=1)

    def tail(self) -> str:
        """The last lines, complete once the process has ended."""
        self.settle()
        return "\n".join(self._tail)

    def close(self) -> None:
        self.settle()
        if self._file is not None:
            self._file.close()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                text = line.decode(errors="replace").rstrip()
                self._tail.append(text)
                self._keep(line)
                self._console.say(self._name, text)

    def _keep(self, line: bytes) -> None:
        if self._path is None or self._file is None or self._file.closed:
            return
        self._file.write(line)
        self._file.flush()
        if self._file.tell() > FILE_BYTES:
            self._file.close()
            self._path.replace(self._path.with_suffix(".log.1"))
            self._file = self._path.open("ab")
