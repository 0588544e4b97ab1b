"""Outlives a killed supervisor by a few seconds, to kill what does not follow its stop signal.

Run as a program, it reads '+<process group>' and '-<process group>' lines; the end of its input means that the
supervisor is gone. It imports nothing of ours, so that it starts at once.
"""

import os
import signal
import subprocess
import sys
import time

SECONDS = 8.0


class Guard:
    """The supervisor's end. The program starts with the first group."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._program: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def close(self) -> None:
        if self._program is not None and self._program.stdin is not None:
            self._program.stdin.close()
            self._program.wait()

    def _tell(self, lines: str) -> None:
        if self._program is None:
            self._program = self._start()
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(lines.encode())
        except BrokenPipeError:  # somebody killed it
            self.close()
            self._program = None
            self._tell("".join(f"+{group}\n" for group in self._groups))

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", __file__]
        return subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )


def main() -> None:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    until = time.monotonic() + SECONDS
    while (groups := {group for group in groups if _send(group, 0)}) and time.monotonic() < until:
        time.sleep(0.1)
    for group in groups:
        _send(group, signal.SIGKILL)


def _send(group: int, signum: int) -> bool:
    """Whether the group still had a process to get it."""
    try:
        os.killpg(group, signum)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
