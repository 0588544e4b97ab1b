"""Asks the sandbox worker's own program to remove what has no live lease on this host, and tells what it said."""

import subprocess
import sys
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

_SECONDS = 600.0
_BAD_SETTINGS_EXIT = 64
"""Of the program: its words are for the user, and nothing broke."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that its worker did not remove."""

    what: str
    name: str
    owner: str
    """Of the dead worker: pid, start, pid namespace."""
    label: str
    """'<run>.<rollout>.<attempt>' of its box, where that is known."""
    processes: int
    removed: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    left: tuple[Left, ...]
    living: int
    """Boxes of living workers: not touched."""
    problems: tuple[str, ...]


class ReapError(Exception):
    """There is no report; says why."""


def reap_host(root: Path, *, dry_run: bool) -> Report:
    """root: of the clone. Raises ReapError."""
    command = [sys.executable, "-m", "sandbox_worker.reaping", *(["--dry-run"] if dry_run else [])]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode == _BAD_SETTINGS_EXIT:
            raise ReapError(f"{done.stderr.decode('utf-8', 'replace').strip()}.")
        return msgspec.json.decode(done.stdout, type=Report)
    except subprocess.TimeoutExpired as error:
        raise ReapError(f"What is left on this host was not removed in {_SECONDS:.0f} s.") from error
    except msgspec.MsgspecError as error:
        said = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise ReapError(f"The search of this host broke (exit code {done.returncode}):\n{said}") from error


def as_table(report: Report, *, dry_run: bool) -> Table:
    table = Table(pad_edge=False, box=None)
    for head in ("What", "Name", "Of worker", "Box of", "Processes", ""):
        table.add_column(head, overflow="fold")
    for left in report.left:
        done = "would go" if dry_run else "removed" if left.removed else "still there"
        processes = str(left.processes) if left.processes else ""
        table.add_row(*map(Text, (left.what, left.name, left.owner.partition("-")[0], left.label, processes, done)))
    return table


def summary(report: Report, *, dry_run: bool) -> str:
    spared = f"Boxes of living workers, not touched: {report.living}."
    if not report.left:
        return f"Nothing is left on this host of workers that died. {spared}"
    if dry_run:
        return f"{len(report.left)} would be removed; run it without --dry-run. {spared}"
    return f"{sum(left.removed for left in report.left)} of {len(report.left)} removed. {spared}"
