"""Where the workers of a host meet, or do not."""

import os
from pathlib import Path

import pytest

from sandbox_worker.sandbox.meeting import RECORDS, STARTS, make_meeting_folder, meeting_folder


def test_root_meets_below_run_and_a_user_in_its_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert meeting_folder({}) == Path("/run/assay/boxes")
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert meeting_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "assay-boxes"
    assert meeting_folder({}) == Path("/tmp/assay-boxes-1234")
    assert meeting_folder({"ASSAY_BOXES_FOLDER": "/srv/here"}) == Path("/srv/here")


def test_the_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "boxes"
    assert make_meeting_folder(folder) == folder
    assert make_meeting_folder(folder) == folder
    assert {path.name for path in folder.iterdir()} == {RECORDS, STARTS}
    assert folder.stat().st_mode & 0o077 == 0


def test_a_link_or_a_file_in_its_place_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").touch()
    assert make_meeting_folder(tmp_path / "link") is None
    assert make_meeting_folder(tmp_path / "file") is None
    assert make_meeting_folder(tmp_path / "file" / "below") is None
    assert caplog.text.count("cannot meet in") == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "boxes"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    assert make_meeting_folder(folder) is None
