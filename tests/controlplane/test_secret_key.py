"""The key that is made once."""

from pathlib import Path

from controlplane.secret_key import load_secret_key


def test_the_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    key = load_secret_key(tmp_path / "var")
    assert len(key) > 50
    assert load_secret_key(tmp_path / "var") == key
    assert (tmp_path / "var" / "secret-key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["secret-key"]
