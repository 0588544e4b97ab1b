"""Checks 1 to 22 of 44: files into a box and out of it."""

import pytest

from sandbox_worker.sandbox.base import Backend, BoxFileError, MissingFileError
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, open_box, said, shell

TEXT = b"some # text\nof two lines"
NO_TEXT = b"\xff\xfe\x00\xc3("


def test_01_a_text_is_read_as_it_was_written(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("text", TEXT)
        assert box.read("text", limit=100) == TEXT


def test_02_a_text_beyond_ascii_is_read_as_it_was_written(backend: Backend) -> None:
    text = "žluťoučký 馬 🐎 \u202e".encode()
    with open_box(backend) as box:
        box.write("text", text)
        assert box.read("text", limit=100) == text


def test_03_bytes_that_are_no_text_are_read_as_they_were_written(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("bytes", NO_TEXT)
        assert box.read("bytes", limit=100) == NO_TEXT


def test_04_fifty_mebibytes_are_read_as_they_were_written(backend: Backend) -> None:
    large = bytes(range(250)) * (50 * MEGABYTE // 250)
    with open_box(backend, disk_bytes=64 * MEGABYTE, memory_bytes=256 * MEGABYTE) as box:
        box.write("large", large)
        assert box.read("large", limit=len(large)) == large


def test_05_a_file_in_a_folder_named_absolutely(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("/tmp/new/folder/file", TEXT)
        assert box.read("/tmp/new/folder/file", limit=100) == TEXT


def test_06_a_file_in_a_folder_below_the_working_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("new/folder/file", TEXT)
        assert box.read("new/folder/file", limit=100) == TEXT
        assert box.read("/app/new/folder/file", limit=100) == TEXT


def test_07_a_file_of_no_length_is_read(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "touch empty")
        assert box.read("empty", limit=0) == b""


def test_08_a_file_that_is_not_there_is_told_apart(backend: Backend) -> None:
    with open_box(backend) as box, pytest.raises(MissingFileError, match="nowhere"):
        box.read("nowhere", limit=100)


def test_09_a_file_that_may_not_be_read_is_refused(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "echo secret > sealed; chmod a-r sealed")
        with pytest.raises(BoxFileError, match="sealed: Permission denied"):
            box.read("sealed", limit=100)


def test_10_a_folder_is_not_read(backend: Backend) -> None:
    with open_box(backend) as box, pytest.raises(BoxFileError, match="/etc: no regular file"):
        box.read("/etc", limit=100)


def test_11_a_name_that_is_an_address_is_only_a_file_that_is_not_there(backend: Backend) -> None:
    with open_box(backend) as box, pytest.raises(MissingFileError, match="no-host"):
        box.read("https://no-host.invalid/%C5%82?a=b", limit=100)


def test_12_no_more_is_read_than_the_limit(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("text", b"a" * 2048)
        with pytest.raises(BoxFileError, match="larger than 1024 bytes"):
            box.read("text", limit=1024)
        assert len(box.read("text", limit=2048)) == 2048


def test_13_a_text_of_no_length_is_written(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("empty", b"")
        assert box.read("empty", limit=0) == b""


def test_14_a_text_is_written_under_a_name_with_a_space(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("a name with spaces ", TEXT)
        assert box.read("a name with spaces ", limit=100) == TEXT


def test_15_a_text_is_not_written_onto_a_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("folder/file", TEXT)
        with pytest.raises(BoxFileError, match="folder: Is a directory"):
            box.write("folder", TEXT)
        assert box.read("folder/file", limit=100) == TEXT


def test_16_a_text_is_not_written_where_that_is_forbidden(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "mkdir sealed; chmod a-w sealed")
        with pytest.raises(BoxFileError, match="sealed/file: Permission denied"):
            box.write("sealed/file", TEXT)


def test_17_a_text_replaces_a_text(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("text", b"a longer text than the next")
        box.write("text", TEXT)
        assert box.read("text", limit=100) == TEXT


def test_18_bytes_of_no_length_are_written(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("bytes", NO_TEXT)
        box.write("bytes", b"")
        assert box.read("bytes", limit=0) == b""


def test_19_bytes_are_written_under_a_name_with_a_space(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write(" a name", NO_TEXT)
        assert box.read(" a name", limit=100) == NO_TEXT


def test_20_bytes_are_not_written_onto_a_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("/tmp/folder/file", NO_TEXT)
        with pytest.raises(BoxFileError, match="/tmp/folder: Is a directory"):
            box.write("/tmp/folder", NO_TEXT)


def test_21_bytes_are_not_written_where_that_is_forbidden(backend: Backend) -> None:
    with open_box(backend) as box:
        with pytest.raises(BoxFileError, match="/etc/passwd"):
            box.write("/etc/passwd", NO_TEXT)
        assert said(shell(box, "head -c 4 /etc/passwd")) == "root"


def test_22_bytes_replace_bytes(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("bytes", b"\xff" * 1000)
        box.write("bytes", NO_TEXT)
        assert box.read("bytes", limit=100) == NO_TEXT
