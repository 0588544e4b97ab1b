"""Tars are read with suspicion."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_worker.sandbox.archive import checked, pack, unpack
from sandbox_worker.sandbox.base import BoxFileError
from sandbox_worker.sandbox.channel import Reply


def test_what_is_packed_is_unpacked() -> None:
    reply = Reply(["ok", "d", "448", "0", "a", "f", "420", "3", "a/b"], b"one")
    entries = unpack(pack(reply))
    assert [(entry.name, entry.mode, entry.data, entry.kind) for entry in entries] == [
        ("a", 0o700, b"", "d"),
        ("a/b", 0o644, b"one", "f"),
    ]


def test_privileged_modes_are_dropped() -> None:
    (entry,) = unpack(pack(Reply(["ok", "f", str(0o6755), "0", "a"], b"")))
    assert entry.mode == 0o755


def test_an_answer_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(BoxFileError):
        pack(Reply(["ok", "f", "420", "1", "a"], b"two"))


@pytest.mark.parametrize("name", ["", ".", "/", "/a", "..", "a/..", "../a", "a/../../b"])
def test_names_outside_are_refused(name: str) -> None:
    with pytest.raises(BoxFileError):
        checked(name)


@given(st.binary(max_size=2000))
def test_no_bytes_break_the_reader(content: bytes) -> None:
    try:
        entries = unpack(content)
    except BoxFileError:
        return
    assert all(".." not in entry.name.split("/") for entry in entries)


@given(st.integers(0, 1535), st.integers(0, 255))
def test_no_changed_byte_breaks_the_reader(place: int, value: int) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        member = tarfile.TarInfo("a")
        member.size = 10
        tar.addfile(member, io.BytesIO(b"0123456789"))
    content = bytearray(target.getvalue())
    content[place] = value
    try:
        unpack(bytes(content))
    except BoxFileError:
        return
