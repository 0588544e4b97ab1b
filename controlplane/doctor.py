"""Asks the sandbox worker's own program what it finds of this host, and lays the answer out as a table."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from wire.finding import Finding, State, mends, worst

EXIT: dict[State, int] = {"ok": 0, "not needed": 0, "weaker": 1, "missing": 2}
VERDICTS: dict[State, str] = {
    "ok": "This host isolates.",
    "not needed": "This host isolates.",
    "weaker": "This host isolates less than it should: see the rows that say weaker.",
    "missing": "This host cannot isolate: see the rows that say missing.",
}
STYLES: dict[State, str] = {"ok": "green", "not needed": "dim", "weaker": "yellow", "missing": "bold red"}
_SECONDS = 300.0
"""Each of its probes has a limit of its own, far below."""


_BAD_SETTINGS_EXIT = 64
"""Of the program: its words are for the user, and nothing broke."""


class DoctorError(Exception):
    """There is no report; says why."""


def examine_host(root: Path, data: Path) -> tuple[Finding, ...]:
    """root: of the clone; data: the folder of Assay's data. Raises DoctorError."""
    command = [sys.executable, "-m", "sandbox_worker.sandbox.doctor", "--data", str(data)]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=_SECONDS, check=True)
        return msgspec.json.decode(done.stdout, type=tuple[Finding, ...])
    except subprocess.TimeoutExpired as error:
        raise DoctorError(f"The examination of this host did not end in {_SECONDS:.0f} s.") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()[-2000:]
        if error.returncode == _BAD_SETTINGS_EXIT:
            raise DoctorError(f"{said}.") from error
        raise DoctorError(f"The examination of this host broke (exit code {error.returncode}):\n{said}") from error
    except msgspec.MsgspecError as error:
        raise DoctorError(f"The examination of this host gave no report: {error}.") from error


def as_json(findings: Sequence[Finding]) -> str:
    state = worst(findings)
    return msgspec.json.encode({"state": state, "exit": EXIT[state], "findings": findings}).decode()


def as_table(findings: Sequence[Finding]) -> Table:
    """The words go in as plain text: what looks like markup in them is none."""
    table = Table(pad_edge=False, box=None)
    for head in ("Of", "Check", "State"):
        table.add_column(head, no_wrap=True)
    table.add_column("Found", overflow="fold")
    about = ""
    for finding in findings:
        new = finding.about != about
        if about and new:
            table.add_row()
        about = finding.about
        state = Text(finding.state, style=STYLES[finding.state])
        table.add_row(Text(about if new else ""), Text(finding.name), state, Text(finding.found))
    return table


def as_advice(findings: Sequence[Finding]) -> list[str]:
    """A line for each thing to do, whole, so that the commands in it can be copied."""
    return [
        f"To mend {', '.join(f'{row.name} ({row.about})' for row in rows)}: {mend}"
        for mend, rows in mends(findings).items()
    ]
