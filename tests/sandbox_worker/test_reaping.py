"""The program that removes what is left on a host: what it finds in a real Engine, and what it says."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.docker import connect
from sandbox_worker.sandbox.owner import Owner
from tests.engine import Engine

ROOT = Path(__file__).parents[2]
DEAD = replace(Owner.this_process(), ticks=1)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    started = Engine()
    try:
        started.start()
        yield started
    finally:
        started.remove()


def reaping(folder: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """With groups of the host left out: other workers look after those."""
    hidden = ("unshare", "--mount", "bash", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "reaping")
    places = {"ASSAY_BOXES_FOLDER": str(folder / "boxes"), "ASSAY_IMAGES": str(folder / "images")}
    return subprocess.run(
        [*hidden, sys.executable, "-m", "sandbox_worker.reaping", *arguments],
        cwd=ROOT,
        env={**os.environ, **places, **variables},
        capture_output=True,
        text=True,
    )


def report(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def make_container(engine: Engine, owner: Owner) -> str:
    nothing = io.BytesIO()
    tarfile.open(fileobj=nothing, mode="w").close()
    with closing(connect(engine.url)) as api:
        api.import_image_from_data(nothing.getvalue(), repository="nothing")
        labels = {containers.OWNER: owner.name, containers.LABEL: "7.8.1"}
        return str(api.create_container("nothing", command=["/none"], labels=labels)["Id"])[:12]


@pytest.mark.docker
@pytest.mark.process
def test_containers_of_dead_workers_are_removed_and_those_of_living_ones_are_not(
    engine: Engine, tmp_path: Path
) -> None:
    left, kept = make_container(engine, DEAD), make_container(engine, Owner.this_process())
    row = {"what": "container", "name": left, "owner": DEAD.name, "label": "7.8.1", "processes": 0}
    variables = {"DOCKER_HOST": engine.url, "ASSAY_SANDBOX_BACKEND": "docker"}
    for _ in range(2):
        tried = reaping(tmp_path, "--dry-run", **variables)
        assert report(tried)["left"] == [row | {"removed": False}]
    done = reaping(tmp_path, **variables)
    assert (done.returncode, report(done)["left"]) == (0, [row | {"removed": True}])
    with closing(connect(engine.url)) as api:
        assert [one["Id"][:12] for one in api.containers(all=True)] == [kept]


@pytest.mark.process
def test_an_engine_that_was_asked_for_and_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    away = {"DOCKER_HOST": f"unix://{tmp_path}/none", "ASSAY_SANDBOX_BACKEND": "docker"}
    done = reaping(tmp_path, **away)
    assert done.returncode == 1
    assert report(done)["problems"][0].startswith("The Docker Engine was not searched: ")
    done = reaping(tmp_path, **away | {"ASSAY_SANDBOX_BACKEND": "auto"})
    assert (done.returncode, report(done)) == (0, {"left": [], "living": 0, "problems": []})


@pytest.mark.process
def test_a_back_end_that_there_is_not_is_named(tmp_path: Path) -> None:
    done = reaping(tmp_path, ASSAY_SANDBOX_BACKEND="chroot")
    assert (done.returncode, done.stdout) == (64, "")
    assert "ASSAY_SANDBOX_BACKEND must be one of" in done.stderr
