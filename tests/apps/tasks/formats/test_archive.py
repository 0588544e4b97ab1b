import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.tasks.formats.archive import MAX_TAR_BYTES, members, pack, unpack
from apps.tasks.formats.errors import TaskFormatError
from apps.tasks.formats.harbor import read_archive, read_folder
from tests.apps.tasks.folders import MINIMAL, task_folder


def tar_of(*entries: tarfile.TarInfo, content: bytes = b"x") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for entry in entries:
            entry.size = len(content) if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(content) if entry.isreg() else None)
    return target.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def zip_of(*names: str, mode: int = 0o100644, text: str = "x") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text)
    return target.getvalue()


def zip_task(top: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in MINIMAL.items():
            archive.writestr(f"{top}{path}", text)
    return target.getvalue()


def test_the_same_files_pack_to_the_same_bytes_whatever_their_times_and_modes(tmp_path: Path) -> None:
    one, two = task_folder(tmp_path / "one"), task_folder(tmp_path / "two")
    os.utime(two / "task.toml", (1, 1))
    (two / "instruction.md").chmod(0o600)
    (two / "notes.md").write_text("does not belong")
    assert pack(one) == pack(two)


def test_what_was_packed_unpacks_to_the_same_task(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    (folder / "tests" / "test.sh").chmod(0o777)
    data = pack(folder)
    unpack(data, tmp_path / "again")
    assert pack(tmp_path / "again") == data
    assert (tmp_path / "again/tests/test.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "again/instruction.md").stat().st_mode & 0o777 == 0o644
    assert read_archive(data) == read_folder(folder) == read_archive(gzip.compress(data))


@pytest.mark.parametrize("top", ["", "./", "greet/", "./greet/"])
def test_a_zip_reads_like_its_folder_also_below_one_folder(top: str, tmp_path: Path) -> None:
    assert read_archive(zip_task(top)).digest == read_folder(task_folder(tmp_path)).digest


@pytest.mark.parametrize(
    "name", ["../out", "/abs", "a/../../out", "a//b", "a\\b", "a\nb", "..", "", "a/./../b", "d/" * 25 + "f", "n" * 300]
)
def test_a_name_that_leads_astray_is_refused(name: str, tmp_path: Path) -> None:
    for data in (tar_of(entry("fine"), entry(name)), zip_of("fine", name) if name and "\\" not in name else b""):
        with pytest.raises(TaskFormatError):
            unpack(data, tmp_path / "in")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_links_and_special_files_are_refused(kind: bytes, tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="links and special files"):
        unpack(tar_of(entry("fine"), entry("a", kind, "/etc/passwd")), tmp_path / "in")
    assert not list(tmp_path.iterdir())


def test_a_link_in_a_zip_is_refused() -> None:
    with pytest.raises(TaskFormatError, match="links and special files"):
        members(zip_of("a", mode=0o120777, text="/etc/passwd"))


@pytest.mark.parametrize("names", [("a", "a"), ("a", "./a"), ("a", "a/b"), ("a/b", "a")])
def test_a_name_that_comes_twice_is_refused(names: tuple[str, str]) -> None:
    with pytest.raises(TaskFormatError, match=r"twice|both a file and a folder"):
        members(tar_of(*map(entry, names)))


def test_a_file_that_unpacks_too_large_is_refused_before_it_is_read() -> None:
    header = entry("big")
    header.size = 2**40
    with pytest.raises(TaskFormatError, match="too large"):
        members(header.tobuf() + b"\0" * 1024)
    with pytest.raises(TaskFormatError, match="too large"):
        members(zip_of("big", text="0" * (17 * 2**20)))


def test_a_gzip_bomb_is_refused_at_the_cap() -> None:
    bomb = gzip.compress(b"\0" * (MAX_TAR_BYTES + 1), compresslevel=1)
    assert len(bomb) < 2**20
    with pytest.raises(TaskFormatError, match="unpacks to more"):
        members(bomb)


def test_too_many_members_are_refused() -> None:
    with pytest.raises(TaskFormatError, match="members"):
        members(tar_of(*(entry(f"d{number}", tarfile.DIRTYPE) for number in range(4_001))))


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04", b"\x1f\x8b", b"BZh9", gzip.compress(b"no tar")])
def test_what_is_no_archive_is_refused_with_a_way_out(data: bytes) -> None:
    with pytest.raises(TaskFormatError) as caught:
        members(data)
    assert caught.value.way_out


@pytest.mark.parametrize("cut", [100, 600, 1100])
def test_an_archive_cut_short_is_refused(cut: int) -> None:
    whole = tar_of(entry("a"), content=b"y" * 900)
    for data in (whole[:cut], gzip.compress(whole)[:-9], zip_of("a")[:60]):
        with pytest.raises(TaskFormatError):
            members(data)


def test_an_encrypted_zip_is_refused() -> None:
    data = bytearray(zip_of("a"))
    central = data.index(b"PK\x01\x02")
    data[6] |= 1
    data[central + 8] |= 1
    with pytest.raises(TaskFormatError, match="encrypted"):
        members(bytes(data))


def test_a_folder_with_something_in_it_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(TaskFormatError, match="not an empty folder"):
        unpack(tar_of(entry("a")), tmp_path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_broken_archive_is_an_error_of_ours_or_reads(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([tar_of(entry("a"), entry("b/c")), zip_of("a", "b/c")])))
    for position, value in data.draw(st.lists(st.tuples(st.integers(0, 1535), st.integers(0, 255)), max_size=6)):
        whole[position % len(whole)] = value
    try:
        found = members(bytes(whole))
    except TaskFormatError:
        return
    assert all(not member.path.startswith("/") and ".." not in member.path.split("/") for member in found)
