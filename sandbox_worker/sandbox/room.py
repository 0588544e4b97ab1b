"""How much room this host has left: on disk and in memory."""

import shutil
from pathlib import Path

from sandbox_worker.sandbox.findings import HOST, Finding, State

LEAST_DISK = 2 * 2**30
LEAST_MEMORY = 2**30
_MEMINFO = Path("/proc/meminfo")


def disk(name: str, folder: Path, *, least: int = LEAST_DISK) -> Finding:
    """Of the file system that a folder is on, or will be on."""
    there = next(above for above in (folder, *folder.parents) if above.exists())
    usage = shutil.disk_usage(there)
    found = f"{gigabytes(usage.free)} of {gigabytes(usage.total)} free at {folder}"
    if usage.free >= least:
        return Finding(HOST, name, State.OK, found)
    return Finding(HOST, name, State.WEAKER, found, f"Free some, or use a larger disk: {gigabytes(least)} are wanted.")


def memory(*, least: int = LEAST_MEMORY) -> Finding:
    sizes = memory_sizes()
    free, total = sizes["MemAvailable"], sizes["MemTotal"]
    found = f"{gigabytes(free)} of {gigabytes(total)} free"
    if free >= least:
        return Finding(HOST, "memory", State.OK, found)
    mend = f"End what takes it, or lower ASSAY_SANDBOX_SLOTS: boxes are killed when none is left; {gigabytes(least)}"
    return Finding(HOST, "memory", State.WEAKER, found, f"{mend} are wanted.")


def spare_memory(*, reserve: int = LEAST_MEMORY) -> int:
    """Bytes that this host can do without; below zero where it lacks some."""
    return memory_sizes()["MemAvailable"] - reserve


def memory_sizes() -> dict[str, int]:
    """In bytes, as the kernel names them."""
    lines = (line.split() for line in _MEMINFO.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}


def gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
