"""Archives as hostile as they come: refused, or harmless once unpacked."""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from sandbox_worker.sandbox.images import unpack
from sandbox_worker.sandbox.images.errors import BadImageError
from sandbox_worker.sandbox.images.pack import TooLargeError, pack_layer
from sandbox_worker.sandbox.images.unpack import unpack_layer

Member = tuple[str, bytes, str]
"""A name, a type of tarfile, and a link's target or a file's content."""
FILE, LINK, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def tar_of(*members: Member, mode: int = 0o644) -> io.BytesIO:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, mode
            if kind in (LINK, HARD):
                member.linkname = text
            else:
                member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    target.seek(0)
    return target


def head_of(kind: bytes, size: int) -> io.BytesIO:
    """Of a member that does not follow."""
    head = tarfile.TarInfo("said")
    head.type, head.size = kind, size
    return io.BytesIO(head.tobuf(tarfile.GNU_FORMAT))


def unpacked(tmp_path: Path, *members: Member, mode: int = 0o644) -> Path:
    place = tmp_path / "layer"
    place.mkdir()
    unpack_layer(tar_of(*members, mode=mode), str(place), most=2**20)
    return place


@pytest.mark.parametrize(
    "members",
    [
        [("../out", FILE, "x")],
        [("a/../../out", FILE, "x")],
        [("/out", FILE, "x")],
        [("link", LINK, "/tmp"), ("link/out", FILE, "x")],
        [("link", LINK, ".."), ("link/out", FILE, "x")],
        [("a/link", LINK, "/etc"), ("a/link/deep/out", FOLDER, "")],
        [("hard", HARD, "/etc/passwd")],
        [("hard", HARD, "../../etc/passwd")],
        [("link", LINK, "/etc/passwd"), ("hard", HARD, "link")],
        [("link", LINK, "/etc"), ("hard", HARD, "link/passwd")],
        [("folder", FOLDER, ""), ("hard", HARD, "folder")],
        [("hard", HARD, "")],
        [("link", LINK, "")],
        [("disk", tarfile.BLKTYPE, "")],
        [("null", tarfile.CHRTYPE, "")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [("folder/in", FILE, "x"), ("folder", FILE, "x")],
        [("file", FILE, "x"), ("file/in", FILE, "x")],
        [(".wh.", FILE, "")],
        [(".wh..", FILE, "")],
        [(".wh..wh.aufs", FILE, "")],
        [("a/" * 200 + "b", FILE, "x")],
        [("x" * 300, FILE, "x")],
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(tmp_path: Path, members: list[Member]) -> None:
    (tmp_path / "outside").mkdir()
    with pytest.raises(BadImageError):
        unpacked(tmp_path / "outside", *members)
    assert {path.name for path in tmp_path.iterdir()} == {"outside"}
    assert {path.name for path in (tmp_path / "outside").iterdir()} == {"layer"}
    assert not Path("/tmp/out").exists()


def test_bits_that_give_rights_are_dropped_and_all_is_readable(tmp_path: Path) -> None:
    place = unpacked(tmp_path, ("tool", FILE, "x"), ("folder", FOLDER, ""), mode=0o6700)
    assert [stat.S_IMODE((place / name).stat().st_mode) for name in ("tool", "folder")] == [0o755, 0o755]


def test_what_every_box_has_of_its_own_is_left_out(tmp_path: Path) -> None:
    place = unpacked(tmp_path, ("dev/sda", tarfile.BLKTYPE, ""), ("proc/x", FILE, "x"), ("./sys/y", FILE, "y"))
    assert list(place.iterdir()) == []


def test_links_may_point_anywhere_since_no_one_follows_them(tmp_path: Path) -> None:
    place = unpacked(tmp_path, ("link", LINK, "/etc/passwd"), ("link", FILE, "mine"))
    assert (place / "link").read_text() == "mine"


def test_a_later_member_of_the_same_name_counts_and_writes_through_nothing(tmp_path: Path) -> None:
    place = unpacked(tmp_path, ("one", FILE, "first"), ("two", HARD, "one"), ("two", FILE, "second"))
    assert ((place / "one").read_text(), (place / "two").read_text()) == ("first", "second")


def test_an_archive_is_refused_where_it_is_larger_than_agreed(tmp_path: Path) -> None:
    with pytest.raises(BadImageError, match="larger than 1048576 bytes"):
        unpacked(tmp_path, ("big", FILE, "x" * 2**20))


def test_an_archive_is_refused_where_it_has_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MOST_MEMBERS", 3)
    with pytest.raises(BadImageError, match="more than 3 members"):
        unpacked(tmp_path, *((f"{number}", FILE, "") for number in range(4)))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_what_an_archive_says_of_a_member_is_not_read_where_it_is_long(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BadImageError, match="says more than 1048576 bytes"):
        unpack_layer(head_of(kind, 2**30), str(tmp_path), most=2**40)


def test_a_sparse_member_is_refused_before_its_map_is_read(tmp_path: Path) -> None:
    with pytest.raises(BadImageError, match="'said' is sparse"):
        unpack_layer(head_of(tarfile.GNUTYPE_SPARSE, 2**30), str(tmp_path), most=2**40)


@pytest.mark.parametrize("data", [b"", b"no tar at all" * 100, tar_of(("a", FILE, "x" * 5000)).getvalue()[:3000]])
def test_what_is_no_whole_tar_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadImageError):
        unpack_layer(io.BytesIO(data), str(tmp_path), most=2**20)


def test_a_layer_comes_out_as_it_was_packed(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "folder").mkdir(parents=True)
    (upper / "folder/file").write_bytes(b"text")
    os.link(upper / "folder/file", upper / "other")
    (upper / "link").symlink_to("folder")
    (upper / os.fsdecode(b"odd\xff\n")).touch()
    os.mknod(upper / "folder/gone", stat.S_IFCHR, 0)
    os.setxattr(upper / "folder", "user.overlay.opaque", b"y")
    os.mkfifo(upper / "pipe")
    (upper / "folder/file").chmod(0o4711)
    pack_layer([(upper, "")], tmp_path / "tar", 100)
    place = tmp_path / "place"
    place.mkdir()
    with (tmp_path / "tar").open("rb") as source:
        unpack_layer(source, str(place), most=2**20)
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*")) == [
        "folder",
        "folder/file",
        "folder/gone",
        "link",
        os.fsdecode(b"odd\xff\n"),
        "other",
    ]
    assert (place / "other").samefile(place / "folder/file")
    assert stat.S_ISCHR((place / "folder/gone").stat().st_mode)
    assert os.getxattr(place / "folder", "user.overlay.opaque") == b"y"
    assert stat.S_IMODE((place / "other").stat().st_mode) == 0o755


def test_holes_count_at_their_full_length(tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    upper.mkdir()
    with (upper / "hole").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(TooLargeError, match="more than 1048576 bytes"):
        pack_layer([(upper, "")], tmp_path / "tar", 2**20)
    assert (tmp_path / "tar").stat().st_size < 2**20
