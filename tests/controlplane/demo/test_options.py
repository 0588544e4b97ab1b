from pathlib import Path

import pytest

from controlplane.demo.options import DemoOptions
from controlplane.demo.supplies import DemoError

GIVEN: dict[str, object] = {
    "preset": "warm-grpo", "seed": 0, "quick": False, "json": None, "exit": False, "again": False,
}  # fmt: skip


def test_quick_runs_and_presets_have_names_of_their_own() -> None:
    names = {
        DemoOptions(preset, quick=quick).run_name for preset in ("warm-grpo", "control") for quick in (False, True)
    }
    assert names == {"demo", "demo (quick)", "demo control", "demo control (quick)"}


def test_a_file_that_can_be_written_is_not_made_yet(tmp_path: Path) -> None:
    assert DemoOptions.of(GIVEN | {"json": tmp_path / "out.json"}).json == tmp_path / "out.json"
    assert not (tmp_path / "out.json").exists()


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("earlier")
    DemoOptions.of(GIVEN | {"json": tmp_path / "out.json"})
    assert (tmp_path / "out.json").read_text() == "earlier"


def test_a_missing_folder_is_refused_at_once_and_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=f"there is no folder {tmp_path}/absent"):
        DemoOptions.of(GIVEN | {"json": tmp_path / "absent" / "out.json"})


def test_a_place_that_cannot_be_written_is_refused_at_once_and_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=f"--json {tmp_path} cannot be written"):
        DemoOptions.of(GIVEN | {"json": tmp_path})
