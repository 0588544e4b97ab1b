"""Whose box is whose stands in a file, which nothing depends on."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import BoxSpec, Limits
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.register import Register, dead_records, records, words
from tests.sandbox_worker.sandbox.idle_boxes import IdleBox
from tests.sandbox_worker.sandbox.test_starts import until

KIND = BoxSpec()
DEAD = replace(Owner.this_process(), ticks=1)


@contextmanager
def register_of(folder: Path, *, seconds: float = 60.0) -> Iterator[Register]:
    register = Register(folder, seconds=seconds)
    try:
        yield register
    finally:
        register.close()


def labels(folder: Path) -> list[str]:
    return [box.label for record in records(folder) for box in record.boxes]


def test_a_box_is_recorded_from_its_start_to_its_end(tmp_path: Path) -> None:
    box = IdleBox(KIND, "12")
    with register_of(tmp_path) as register:
        register.enter(box, KIND)
        until(lambda: labels(tmp_path) == [""])
        register.give(box, "7.8.1")
        until(lambda: labels(tmp_path) == ["7.8.1"])
        (record,) = records(tmp_path)
        assert (record.owner, record.boxes[0].name) == (Owner.this_process(), "12")
        assert record.boxes[0].kind == words(KIND)
        register.strike(box)
        until(lambda: labels(tmp_path) == [])
    assert list(tmp_path.iterdir()) == []


def test_the_lease_is_renewed_while_boxes_live(tmp_path: Path) -> None:
    with register_of(tmp_path, seconds=0.05) as register:
        register.enter(IdleBox(KIND, "1"), KIND)
        until(lambda: list(records(tmp_path)))
        first = next(records(tmp_path)).renewed
        until(lambda: next(records(tmp_path)).renewed > first)


def test_records_of_dead_workers_are_removed_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / f"{DEAD.name}.json").write_text("{}")
    (tmp_path / f"{DEAD.name}.new").write_text("half wri")
    (tmp_path / "notes.txt").write_text("not ours")
    with register_of(tmp_path) as register:
        register.enter(IdleBox(KIND, "1"), KIND)
        until(lambda: labels(tmp_path) == [""])
        assert len(dead_records(tmp_path)) == 2
        register.clear()
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"{Owner.this_process().name}.json", "notes.txt"]


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    for number, text in enumerate(
        ("", "[]", '{"boxes": 5}', '{"boxes": []}', json.dumps({"renewed": 1, "boxes": [{"odd": 1}]}))
    ):
        (tmp_path / f"{number + 1}-1-1.json").write_text(text)
    assert list(records(tmp_path)) == []
    assert list(records(tmp_path / "not there")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_what_another_user_put_there_is_neither_read_nor_removed(tmp_path: Path) -> None:
    trap = tmp_path / f"{DEAD.name}.json"
    os.mkfifo(trap)
    os.chown(tmp_path, 12345, 12345)
    assert (list(records(tmp_path)), dead_records(tmp_path)) == ([], [])


def test_a_folder_that_is_gone_keeps_no_box_from_its_work(tmp_path: Path) -> None:
    with register_of(tmp_path / "gone", seconds=0.01) as register:
        box = IdleBox(KIND, "1")
        register.enter(box, KIND)
        register.give(box, "1.1.1")
        register.clear()
        register.strike(box)


def test_a_kind_is_told_in_words() -> None:
    kind = BoxSpec(limits=Limits(cpus=0.5, memory_bytes=2**29), workdir="/srv", image="sha256:" + "ab" * 32)
    assert words(kind) == "/srv, 0.5 cpu, 512 MiB, 64 pids, image abababababab"
