"""manage.py doctor: a table for people, JSON for programs, an exit code for scripts; no database, no broker."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from rich.console import Console

from controlplane.doctor import as_advice, as_json, as_table
from wire.finding import Finding

OK = Finding(about="host", name="kernel", state="ok", found="Linux 6.12 on x86_64")
WEAKER = Finding(about="bubblewrap", name="cpu", state="weaker", found="no quota", mend="Run `it`.")
MISSING = Finding(about="bubblewrap", name="memory", state="missing", found="[red]no limit[/red]", mend="Run `it`.")


def doctor(data: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As an operator runs it, with nothing else of Assay on this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    away = {"ASSAY_DATA": str(data), "ASSAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}
    return subprocess.run(
        [sys.executable, "manage.py", "doctor", *arguments],
        cwd=settings.BASE_DIR,
        env={**kept, **away, "DJANGO_SETTINGS_MODULE": "controlplane.settings", **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.process
@pytest.mark.sandbox
def test_a_host_that_isolates_is_told_row_by_row(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "no colours where no terminal is"
    for words in ("user namespaces", "control groups", "killed at the limit of 48 MiB", str(tmp_path)):
        assert words in done.stdout
    assert done.returncode in (0, 1), "a host of tests may be short of room"
    assert "This host isolates" in done.stdout.splitlines()[-1]


@pytest.mark.process
@pytest.mark.sandbox
def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json")
    report = json.loads(done.stdout)
    assert report["exit"] == done.returncode
    assert {row["name"] for row in report["findings"]} >= {"starts", "memory", "processes", "cpu", "disk", "network"}


@pytest.mark.process
def test_boxes_that_cannot_be_made_are_exit_code_2(tmp_path: Path) -> None:
    nowhere = {"ASSAY_SANDBOX_BACKEND": "docker", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = doctor(tmp_path, **nowhere)
    assert done.returncode == 2
    assert "To mend Docker Engine (host), boxes (docker): Start it" in done.stdout
    assert done.stdout.splitlines()[-1] == "This host cannot isolate: see the rows that say missing."


@pytest.mark.process
def test_a_bad_setting_is_one_sentence(tmp_path: Path) -> None:
    done = doctor(tmp_path, ASSAY_SANDBOX_BACKEND="qemu")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line == "CommandError: ASSAY_SANDBOX_BACKEND must be one of auto, bubblewrap, docker, not 'qemu'."


@pytest.mark.process
def test_an_unknown_option_is_refused_as_by_every_command(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--nonsense")
    assert done.returncode == 2
    assert "unrecognized arguments: --nonsense" in done.stderr


@pytest.mark.parametrize(
    ("findings", "state", "code"), [([OK], "ok", 0), ([OK, WEAKER], "weaker", 1), ([MISSING, WEAKER], "missing", 2)]
)
def test_the_worst_row_is_the_exit_code(findings: list[Finding], state: str, code: int) -> None:
    report = json.loads(as_json(findings))
    assert (report["state"], report["exit"], len(report["findings"])) == (state, code, len(findings))


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    out = StringIO()
    Console(width=120, file=out).print(as_table([OK, MISSING]))
    shown = out.getvalue()
    assert "[red]no limit[/red]" in shown
    assert "bubblewrap" in shown


def test_a_command_to_run_stands_on_one_line_once() -> None:
    assert as_advice([OK, WEAKER, MISSING]) == ["To mend cpu (bubblewrap), memory (bubblewrap): Run `it`."]
