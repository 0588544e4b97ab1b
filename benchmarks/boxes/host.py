"""What boxes take of the host, read from /proc: processes by name, memory by process tree."""

import contextlib
import os
import signal
import time
from pathlib import Path

KILOBYTE = 1024


def processes_with(text: str) -> list[int]:
    """Living processes on the host with this in their command line."""
    return [pid for pid in _pids() if text.encode() in _read(pid, "cmdline")]


def kill_all_with(text: str) -> int:
    """What an arm left alive, and wait until it is gone; the number of them."""
    found = processes_with(text)
    while left := processes_with(text):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return len(found)


def descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid in _pids():
        after_name = _read(pid, "stat").rpartition(b")")[2].split()
        if after_name:
            children.setdefault(int(after_name[1]), []).append(pid)
    found: set[int] = set()
    open_ends = [root]
    while open_ends:
        young = children.get(open_ends.pop(), [])
        found.update(young)
        open_ends += young
    return found


def memory_of_trees(roots: list[int]) -> int:
    """Bytes of these and all below them: their own pages, and their share of what they share with others (PSS)."""
    pids = set(roots).union(*(descendants(root) for root in roots))
    return sum(_kilobytes(_read(pid, "smaps_rollup"), "Pss") for pid in pids) * KILOBYTE


def is_alive(pid: int) -> bool:
    """Also false for one that only waits to be noticed."""
    after_name = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(after_name) and after_name[0] not in (b"Z", b"X")


def own_memory() -> int:
    """Bytes resident of this process."""
    return _kilobytes(Path("/proc/self/status").read_bytes(), "VmRSS") * KILOBYTE


def own_peak() -> int:
    """The most of that since forget_peak()."""
    return _kilobytes(Path("/proc/self/status").read_bytes(), "VmHWM") * KILOBYTE


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _read(pid: int, name: str) -> bytes:
    """Empty where the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _kilobytes(text: bytes, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(f"{name}:".encode()):
            return int(line.split()[1])
    return 0
