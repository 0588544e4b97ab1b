"""The whole report, of this host and by the program that prints it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_worker.sandbox import room
from sandbox_worker.sandbox.choose import Wanted
from sandbox_worker.sandbox.examine import bubblewrap, examine
from sandbox_worker.sandbox.findings import State, worst
from tests.sandbox_worker.sandbox.boxes import groups_of
from tests.sandbox_worker.sandbox.users import PYTHON, readable_package

pytestmark = pytest.mark.sandbox

COMMAND = ["-m", "sandbox_worker.sandbox.doctor"]
ROOT = Path(__file__).parents[3]


def test_the_report_has_host_and_boxes_and_leaves_nothing(tmp_path: Path) -> None:
    rows = examine(tmp_path, Wanted(kind="bubblewrap"))
    assert [row.about for row in rows] == sorted((row.about for row in rows), reverse=True), "host, then boxes"
    assert worst(rows) in (State.OK, State.WEAKER), "a host of tests may be short of room"
    assert {row.name for row in rows if row.about == "bubblewrap"} >= {"memory", "processes", "cpu", "disk", "network"}
    assert {row.name for row in rows if row.about == "host"} >= {"bubblewrap", "Docker Engine", "gVisor", "disk"}
    assert groups_of(os.getpid()) == []


def test_a_program_prints_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *COMMAND, "--data", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = json.loads(done.stdout)
    assert done.stderr == ""
    assert {"about", "name", "state", "found", "mend"} == set(rows[0])
    assert any(str(tmp_path) in row["found"] for row in rows)


@pytest.mark.parametrize(("allowed", "states"), [("", {"missing"}), ("1", {"weaker"})])
def test_a_user_without_groups_is_told_what_is_missing_or_weaker(allowed: str, states: set[str]) -> None:
    rows = told_to_a_user(ASSAY_SANDBOX_BACKEND="bubblewrap", ASSAY_ALLOW_WEAKER_BOXES=allowed)
    bad = [row for row in rows if row["state"] in ("missing", "weaker")]
    assert {row["state"] for row in bad if row["name"] != "disk"} == states
    assert {row["name"] for row in bad} >= {"control groups"}
    assert all(row["mend"] for row in bad)


def test_a_back_end_that_was_asked_and_passed_over_is_not_needed() -> None:
    rows = told_to_a_user(ASSAY_ALLOW_WEAKER_BOXES="1")
    (docker,) = [row for row in rows if row["about"] == "docker"]
    assert (docker["state"], docker["mend"]) == ("not needed", "")
    assert "missing" not in {row["state"] for row in rows}


def test_what_bubblewrap_alone_needs_is_not_needed_where_docker_is_asked_for() -> None:
    states = {row["name"]: row["state"] for row in told_to_a_user(ASSAY_SANDBOX_BACKEND="docker")}
    assert (states["control groups"], states["Docker Engine"]) == ("not needed", "missing")


def told_to_a_user(**variables: str) -> list[dict[str, str]]:
    """The report to one without control groups, on a host without Docker."""
    environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nowhere/docker.sock", **variables}
    with readable_package() as package:
        done = subprocess.run(
            [PYTHON, "-B", *COMMAND, "--data", "/tmp"], env=environment, user=65534, group=65534, extra_groups=[],
            cwd=package, capture_output=True, text=True, check=True,
        )  # fmt: skip
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return rows


def test_a_system_without_bubblewrap_uses_the_bundled_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    row = bubblewrap()
    assert row.state is State.OK
    assert row.found.endswith("which is used; the system has none")


def test_an_old_bubblewrap_is_named_and_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"which is used; the system's is 0.4.1 at {old}" in bubblewrap().found


def test_little_room_is_weaker_and_says_how_much_is_wanted(tmp_path: Path) -> None:
    row = room.disk("disk", tmp_path / "not" / "yet", least=2**60)
    assert (row.state, row.name) == (State.WEAKER, "disk")
    assert f"free at {tmp_path}/not/yet" in row.found
    assert "1073741824.0 GiB are wanted" in row.mend
    assert room.disk("disk", tmp_path, least=0).state is State.OK


def test_little_memory_is_weaker() -> None:
    row = room.memory(least=2**60)
    assert row.state is State.WEAKER
    assert "ASSAY_SANDBOX_SLOTS" in row.mend
    assert room.memory(least=0).state is State.OK
