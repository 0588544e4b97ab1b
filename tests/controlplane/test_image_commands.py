"""manage.py build_base_image and import_image hand their work to the worker's own programs, and say what was wrong."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from tests.servers import make_data_folder, remove_data_folder


@pytest.fixture
def images(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where they go: the object store's folder below it."""
    folder = make_data_folder()
    settings.ASSAY_STORE_URL = str(folder / "store")
    monkeypatch.setenv("ASSAY_IMAGES", str(folder / "images"))
    yield folder / "store/images"
    remove_data_folder(folder)


def test_an_image_is_brought_in_under_its_name(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("empty"), io.BytesIO())
    call_command("import_image", "small:1", str(tmp_path / "root.tar"))
    assert capsys.readouterr().out.startswith("small:1 is sha256:")
    assert [path.name for path in (images / "names").iterdir()] == ["small%3A1"]


def test_a_file_that_is_no_image_is_named(images: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"No such file or directory: '{tmp_path}/none'"):
        call_command("import_image", "small:1", str(tmp_path / "none"))


def test_an_engine_that_does_not_answer_is_named(images: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"^there is no Docker Engine: unix://{tmp_path}/none: No such file"):
        call_command("build_base_image", docker=f"unix://{tmp_path}/none")
