"""The key that is made once."""

from pathlib import Path

import pytest

from controlplane.environment import EnvironmentVariableError
from controlplane.secret_key import load_secret_key


def test_the_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    key = load_secret_key(tmp_path / "var")
    assert len(key) > 50
    assert load_secret_key(tmp_path / "var") == key
    assert (tmp_path / "var" / "secret-key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["secret-key"]


def test_a_data_folder_that_cannot_hold_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret-key").mkdir()
    with pytest.raises(EnvironmentVariableError, match=f"ASSAY_DATA is '{tmp_path}'.*Is a directory"):
        load_secret_key(tmp_path)
