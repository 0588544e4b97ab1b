import hashlib
import io
import tarfile

import pytest

from sandbox_worker.task_archive import TaskArchiveError, TaskFile, check_digest, content_digest, pack, read_archive
from tests.sandbox_worker.factories import tar_of, task_files


def tar_with(entry: tarfile.TarInfo, data: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "..", "x" * 2000])
def test_a_name_outside_the_folder_is_refused(name: str) -> None:
    with pytest.raises(TaskArchiveError, match="unsafe name"):
        read_archive(tar_with(entry(name)))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_anything_but_files_and_folders_is_refused(kind: bytes) -> None:
    with pytest.raises(TaskArchiveError, match="neither a regular file nor a folder"):
        read_archive(tar_with(entry("tests/x", kind, "/etc/passwd")))


def test_a_file_twice_is_refused() -> None:
    twice = tar_of({"./a": "1", "a": "2"})
    with pytest.raises(TaskArchiveError, match="twice"):
        read_archive(twice)


@pytest.mark.parametrize("data", [b"nonsense", b"\x1f\x8b" + b"0" * 100, tar_of({"a": "x" * 5000})[:2000]])
def test_what_is_no_whole_plain_tar_is_refused(data: bytes) -> None:
    with pytest.raises(TaskArchiveError):
        read_archive(data)


def test_too_many_members_are_refused() -> None:
    with pytest.raises(TaskArchiveError, match="more than 5000 members"):
        read_archive(tar_of({f"f{number}": "" for number in range(5001)}))


def test_a_changed_task_does_not_match_its_digest() -> None:
    files = read_archive(tar_of(task_files()))
    check_digest(files, content_digest(files))
    with pytest.raises(TaskArchiveError, match="does not match"):
        check_digest(read_archive(tar_of(task_files() | {"tests/test.sh": "echo 1"})), content_digest(files))


def test_the_content_digest_is_harbors() -> None:
    record = b"task.toml\0" + hashlib.sha256(b"x").hexdigest().encode() + b"\n"
    files = read_archive(tar_of({"task.toml": "x", "notes.txt": "not counted"}))
    assert content_digest(files) == hashlib.sha256(record).hexdigest()


def test_a_packed_folder_holds_its_files_and_modes() -> None:
    packed = pack([TaskFile("a/b/run", b"x", executable=True)])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = {member.name: (member.isdir(), member.mode) for member in archive}
    assert found == {"a": (True, 0o755), "a/b": (True, 0o755), "a/b/run": (False, 0o755)}
