"""manage.py reap: tells and removes what dead workers left on this host; no database, no broker."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from django.conf import settings

from controlplane.reap import Left, Report, summary
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.register import Entry

ME = Owner.this_process()
DEAD = replace(ME, ticks=1)


def reap(folder: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As an operator runs it, with nothing else of Assay on this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    places = {"ASSAY_BOXES_FOLDER": str(folder), "ASSAY_IMAGES": str(folder / "images")}
    away = {"ASSAY_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none", "ASSAY_SANDBOX_BACKEND": "bubblewrap"}
    # Groups of the host are hidden: they are other workers' business.
    hidden = ("unshare", "--mount", "bash", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "reap")
    return subprocess.run(
        [*hidden, sys.executable, "manage.py", "reap", *arguments],
        cwd=settings.BASE_DIR,
        env={**kept, **places, **away, "DJANGO_SETTINGS_MODULE": "controlplane.settings", **variables},
        capture_output=True,
        text=True,
    )


def record(folder: Path, owner: Owner) -> Path:
    path = folder / "boxes" / f"{owner.name}.json"
    path.parent.mkdir(exist_ok=True)
    box = asdict(Entry(name="1", kind="/app", label="7.8.1", started=time.time()))
    path.write_text(json.dumps({"renewed": time.time(), "boxes": [box]}))
    return path


@pytest.mark.process
def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path) -> None:
    left, living = record(tmp_path, DEAD), record(tmp_path, ME)
    done = reap(tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would go" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "1 would be removed; run it without --dry-run. Boxes of living workers, not touched: 1."
    )
    assert left.exists()
    assert living.exists()


@pytest.mark.process
def test_what_is_left_is_removed_and_what_lives_is_not(tmp_path: Path) -> None:
    left, living = record(tmp_path, DEAD), record(tmp_path, ME)
    half_made = tmp_path / "images" / "tmp" / f"{DEAD.name}.1"
    half_made.mkdir(parents=True)
    done = reap(tmp_path, "--json")
    report = json.loads(done.stdout)
    assert [(row["what"], row["owner"], row["removed"]) for row in report["left"]] == [
        ("record", DEAD.name, True),
        ("folder", DEAD.name, True),
    ]
    assert (report["living"], report["problems"], done.returncode) == (1, [], 0)
    assert not left.exists()
    assert not half_made.exists()
    assert living.exists()


@pytest.mark.process
def test_a_bad_setting_is_the_users_error(tmp_path: Path) -> None:
    done = reap(tmp_path, ASSAY_SANDBOX_BACKEND="chroot")
    assert done.returncode == 1
    assert "ASSAY_SANDBOX_BACKEND must be one of" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_could_not_be_removed_is_not_said_to_be_gone() -> None:
    rows = tuple(
        Left(what="control group", name=name, owner="1-1-1", label="", processes=1, removed=name == "1")
        for name in ("1", "2")
    )
    told = summary(Report(left=rows, living=3, problems=("2: busy",)), dry_run=False)
    assert told == "1 of 2 removed. Boxes of living workers, not touched: 3."
