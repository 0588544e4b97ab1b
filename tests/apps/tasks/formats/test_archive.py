import os
from pathlib import Path

from apps.tasks.formats.archive import pack
from tests.apps.tasks.folders import task_folder


def test_the_same_files_pack_to_the_same_bytes_whatever_their_times_and_modes(tmp_path: Path) -> None:
    one, two = task_folder(tmp_path / "one"), task_folder(tmp_path / "two")
    os.utime(two / "task.toml", (1, 1))
    (two / "instruction.md").chmod(0o600)
    (two / "notes.md").write_text("does not belong")
    assert pack(one) == pack(two)


def test_whether_a_file_may_be_run_is_packed_and_no_more_of_its_mode(tmp_path: Path) -> None:
    one, two, three = (task_folder(tmp_path / name) for name in ("one", "two", "three"))
    (two / "tests" / "test.sh").chmod(0o700)
    (three / "tests" / "test.sh").chmod(0o777)
    assert pack(one) != pack(two) == pack(three)
