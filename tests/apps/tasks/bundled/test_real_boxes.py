"""The bundled families in the product's own boxes: what passes in a plain namespace passes there, and as fast."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.tasks.bundled.families import FAMILIES, make_instance, write_instance
from apps.tasks.formats.harbor import read_folder
from sandbox_worker.sandbox.base import Backend, BoxSpec
from sandbox_worker.sandbox.choose import Wanted, open_backend

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    opened = open_backend(Wanted(allow_weaker=True))
    yield opened
    opened.close()


def acted(backend: Backend, task: Path, commands: tuple[str, ...]) -> bytes:
    """The working folder after these commands."""
    box = backend.start(BoxSpec())
    try:
        for file in read_folder(task).workspace:
            box.write(f"/app/{file.path}", (task / file.source).read_bytes())
        for command in commands:
            box.run(["bash", "-c", command], timeout=10)
        return box.snapshot(limit=2**20)
    finally:
        box.stop()


def graded(backend: Backend, task: Path, snapshot: bytes) -> bytes:
    box = backend.start(BoxSpec())
    try:
        box.restore(snapshot)
        for path in (task / "tests").iterdir():
            box.write(f"/tests/{path.name}", path.read_bytes())
        box.run(["bash", "/tests/test.sh"], timeout=30)
        return box.read("/logs/verifier/reward.txt", limit=100)
    finally:
        box.stop()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_passes_and_nothing_fails(family: str, backend: Backend, tmp_path: Path) -> None:
    task = tmp_path / "task"
    write_instance(family, 10_000, task)
    rounds = make_instance(family, 10_000).rounds
    assert graded(backend, task, acted(backend, task, rounds)) == b"1\n"
    assert graded(backend, task, acted(backend, task, rounds[:-1])) == b"0\n"
