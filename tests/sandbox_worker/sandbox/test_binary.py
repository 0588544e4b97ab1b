"""Which bubblewrap is run."""

import os
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.binary import bundled_bubblewrap, find_bubblewrap, verify


def program(folder: Path, says: str) -> str:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(folder)


def test_a_new_enough_system_bubblewrap_is_preferred(tmp_path: Path) -> None:
    found = find_bubblewrap(program(tmp_path, "bubblewrap 0.9.1"))
    assert (found.version, found.path, found.folders) == ("0.9.1", str(tmp_path / "bwrap"), ())


@pytest.mark.parametrize("says", ["bubblewrap 0.7.0", "something else", ""])
def test_an_old_or_strange_one_gives_way_to_the_wheels(tmp_path: Path, says: str) -> None:
    found = find_bubblewrap(program(tmp_path, says))
    found.close()
    assert found.version == "0.11.0"


def test_the_wheels_is_reached_through_open_folders() -> None:
    found = bundled_bubblewrap()
    assert found.env["LD_LIBRARY_PATH"] == found.library_path
    assert Path(found.path).is_file()
    assert all(not os.get_inheritable(fd) for fd in found.folders)
    found.close()


def test_a_changed_file_of_the_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_bytes(b"other")
    with pytest.raises(HostCannotIsolateError, match="not the file that was reviewed"):
        verify(tmp_path, {"bwrap": "0" * 64})
    with pytest.raises(HostCannotIsolateError, match="absent"):
        verify(tmp_path, {"absent": "0" * 64})


def test_a_machine_without_a_reviewed_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostCannotIsolateError, match="not known for this machine"):
        verify(tmp_path, {})
