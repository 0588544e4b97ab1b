"""Removes what has no live lease on this host, and prints it as JSON: python -m sandbox_worker.reaping [--dry-run].

It needs no database and no broker; the control plane's command runs it. Boxes of living workers are not touched.
"""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from sandbox_worker.sandbox import register
from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.choose import Wanted, WantedError, wanted
from sandbox_worker.sandbox.daemon import EngineAbsentError, ask_engine
from sandbox_worker.sandbox.findings import BUBBLEWRAP, DOCKER
from sandbox_worker.sandbox.hierarchies import present_trees
from sandbox_worker.sandbox.leftovers import Leftover, left_on_host
from sandbox_worker.sandbox.meeting import RECORDS, meeting_folder
from sandbox_worker.settings import images_folder

BAD_SETTINGS_EXIT = 64
CONTAINER = "container"


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(prog="reaping")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    asked = parser.parse_args(arguments)
    try:
        boxes = wanted(os.environ)
    except WantedError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS_EXIT
    problems: list[str] = []
    records = meeting_folder() / RECORDS
    found = [*left_on_host(present_trees(), records, images_folder()), *left_in_engine(boxes, problems)]
    rows = [row(one, removed=not asked.dry_run and gone(one, problems)) for one in found]
    report = {"left": rows, "living": living(records), "problems": problems}
    sys.stdout.write(json.dumps(report) + "\n")
    return 1 if problems else 0


def gone(leftover: Leftover, problems: list[str]) -> bool:
    try:
        leftover.remove()
    except (SandboxError, OSError) as error:
        problems.append(f"{leftover.what} {leftover.name}: {error}")
        return False
    return True


def row(leftover: Leftover, *, removed: bool) -> dict[str, object]:
    return {
        "what": leftover.what,
        "name": leftover.name,
        "owner": leftover.owner,
        "label": leftover.label,
        "processes": leftover.processes,
        "removed": removed,
    }


def living(records: Path) -> int:
    """Boxes of workers that are not dead, as they record them."""
    return sum(len(found.boxes) for found in register.records(records) if not found.owner.is_dead())


def left_in_engine(boxes: Wanted, problems: list[str]) -> Iterator[Leftover]:
    """Where there is an Engine; that none answers is a problem only where it was asked for by name."""
    if boxes.kind == BUBBLEWRAP:
        return
    try:
        ask_engine(boxes.docker_url)
        yield from containers_of(boxes.docker_url)
    except (EngineAbsentError, SandboxError, ModuleNotFoundError) as error:
        if boxes.kind == DOCKER:
            problems.append(f"The Docker Engine was not searched: {error}")


def containers_of(url: str) -> Iterable[Leftover]:
    """Raises SandboxError, and ModuleNotFoundError where the client is not installed."""
    from sandbox_worker.sandbox import containers, docker  # noqa: PLC0415 (optional: bubblewrap needs no package)

    with closing(docker.connect(url)) as api, docker.engine_errors():
        found = [one for one in docker.our_containers(api) if docker.is_left(one)]
    for one in found:
        owner, label = (one["Labels"].get(name, "") for name in (containers.OWNER, containers.LABEL))
        yield Leftover(CONTAINER, one["Id"][:12], owner, label, 0, partial(remove_container, url, one["Id"]))


def remove_container(url: str, container: str) -> None:
    from sandbox_worker.sandbox import docker  # noqa: PLC0415 (as above)

    with closing(docker.connect(url)) as api, docker.engine_errors():
        docker.remove(api, container)


if __name__ == "__main__":
    sys.exit(main())
