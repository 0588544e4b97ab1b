"""Hostile files on their way into a box and out of it: no link is followed, and nothing special is opened."""

import io
import tarfile

import pytest

from sandbox_worker.sandbox.base import Backend, Box, BoxFileError, MissingFileError
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, open_box, python, said, shell

NAMES = (
    *("n" * 255, "a\nb", "-rf", "--", "'\"`", "$(id)", "trail ", " lead", "\u202egpj.exe", "🐎", "a\tb", "*", "\\"),
    *("\udcff\udcfe", "\x7f\x1b[2J"),
)


def tar_of(*members: tarfile.TarInfo) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return target.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, 1 if kind == tarfile.REGTYPE else 0
    return made


def test_a_file_has_its_mode_and_its_owner(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("a/b/file", b"", mode=0o640)
        box.write("run", b"#!/bin/sh\necho ran", mode=0o6755)
        assert said(shell(box, "stat -c '%a %u' a/b/file run; ./run")) == "640 1000\n755 1000\nran"


def test_every_folder_of_the_box_can_be_written(backend: Backend) -> None:
    with open_box(backend) as box:
        for path in ("/tests/test.sh", "/solution/solve.sh", "/logs/verifier/reward.txt", "/tmp/x", "/app/x"):
            box.write(path, b"echo ran", mode=0o755)
            assert shell(box, path).output == b"ran\n", path


def test_writing_replaces_a_link_and_not_what_it_points_to(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "echo kept > target; ln -s target link; ln target hard; chmod 0 target")
        box.write("link", b"new")
        box.write("hard", b"new")
        assert said(shell(box, "chmod 644 target; cat target link hard")) == "kept\nnewnew"


def test_writing_elsewhere_is_refused(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "ln -s /tmp link")
        for path in ("/usr/bin/x", "/x", "/etc/passwd", "/app/../usr/x", "/app", "/app/link/x", "a\0b", "a\ud800b", ""):
            with pytest.raises(BoxFileError):
                box.write(path, b"x")
        assert said(shell(box, "ls /tmp; echo alive")) == "alive"


def test_writing_more_than_fits_is_refused_and_leaves_nothing(backend: Backend) -> None:
    with open_box(backend, disk_bytes=MEGABYTE) as box:
        with pytest.raises(BoxFileError, match="No space"):
            box.write("large", bytes(2 * MEGABYTE))
        assert said(shell(box, "ls; echo alive")) == "alive"


def test_r6_a_file_of_a_tebibyte_that_takes_no_room_is_not_brought_out(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "truncate -s 1T sparse").exit_code != 0
        assert shell(box, "truncate -s 30M sparse").exit_code == 0
        with pytest.raises(BoxFileError, match="larger than"):
            box.read("sparse", limit=MEGABYTE)
        with pytest.raises(BoxFileError):
            box.snapshot(limit=MEGABYTE)


def test_r37_a_link_is_not_followed_out_of_the_box(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "ln -s /etc/shadow a; ln -s /proc/1/environ b; ln -s /etc inner; ln -s . self; ln -s loop loop")
        for path in (
            "a",
            "b",
            "inner/passwd",
            "self/a",
            "loop",
            "loop/x",
            "/app/../etc/passwd",
            "/proc/self/root/etc/passwd",
        ):
            with pytest.raises(BoxFileError) as raised:
                box.read(path, limit=10_000)
            assert not isinstance(raised.value, MissingFileError), path
        with tarfile.open(fileobj=io.BytesIO(box.snapshot(limit=MEGABYTE))) as tar:
            assert tar.getnames() == []


def test_r39_what_is_no_regular_file_is_not_read(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "mkfifo fifo; mkdir folder; mkfifo '|fifo'")
        python(box, "import socket; socket.socket(1).bind('socket')")
        for path in (
            "fifo",
            "folder",
            "socket",
            "/dev/zero",
            "/dev/full",
            "/dev/tty",
            "/proc/kcore",
            "/proc/1/mem",
            "/",
        ):
            with pytest.raises(BoxFileError):
                box.read(path, limit=10_000)
        assert said(shell(box, "echo alive")) == "alive"


def test_r39_a_file_that_says_nothing_of_its_length_is_read_to_the_limit(backend: Backend) -> None:
    with open_box(backend) as box:
        assert box.read("/proc/version", limit=10_000).startswith(b"Linux")
        with pytest.raises(BoxFileError, match="larger than 10 bytes"):
            box.read("/proc/version", limit=10)


@pytest.mark.parametrize(
    "bad",
    [
        member("../x"),
        member("/tmp/x"),
        member("a/../../x"),
        member("l", tarfile.SYMTYPE, "/etc"),
        member("l", tarfile.LNKTYPE, "/etc/passwd"),
        member("f", tarfile.FIFOTYPE),
        member("d", tarfile.CHRTYPE),
        member("b", tarfile.BLKTYPE),
        member("s", tarfile.GNUTYPE_SPARSE),
    ],
    ids=lambda bad: f"r40 {bad.name} {bad.type!r}",
)
def test_an_archive_with_one_hostile_member_is_refused_whole(backend: Backend, bad: tarfile.TarInfo) -> None:
    with open_box(backend) as box:
        with pytest.raises(BoxFileError):
            box.restore(tar_of(member("good"), bad))
        assert said(shell(box, "find /app /tmp -type f; echo alive")) == "alive"


def test_r40_a_link_is_not_written_through(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "ln -s /tmp a; echo kept > /tmp/kept; ln -s /tmp/kept f")
        box.restore(tar_of(member("a/x"), member("f")))
        assert said(shell(box, "ls -F . /tmp; cat /tmp/kept f a/x")) == ".:\na/\nf\n\n/tmp:\nkept\nkept\nxx"


def test_r40_of_two_members_of_one_name_the_last_stays(backend: Backend) -> None:
    last = member("twice")
    last.size = 2
    with open_box(backend) as box:
        box.restore(tar_of(member("twice"), member("folder/x"), last))
        assert said(shell(box, "cat twice; find . -type f | wc -l")) == "xx2"


def test_r40_what_is_more_than_fits_is_refused(backend: Backend) -> None:
    large = member("large")
    large.size = 2 * MEGABYTE
    with open_box(backend, disk_bytes=MEGABYTE) as box:
        with pytest.raises(BoxFileError, match="No space"):
            box.restore(tar_of(large))
        assert said(shell(box, "echo alive")) == "alive"


def test_r40_an_archive_of_more_names_than_a_box_takes_is_refused(backend: Backend) -> None:
    crowd = member("d" * 99, tarfile.DIRTYPE).tobuf() * 1_000_000
    with open_box(backend) as box:
        with pytest.raises(BoxFileError, match="more than 100000"):
            box.restore(crowd)
        assert said(shell(box, "ls; echo alive")) == "alive"


@pytest.mark.parametrize("content", [b"no tar at all", tar_of(member("a"))[:520], b"\x1f\x8b\x08\0" + bytes(600)])
def test_r40_what_is_no_whole_archive_is_refused(backend: Backend, content: bytes) -> None:
    with open_box(backend) as box, pytest.raises(BoxFileError):
        box.restore(content)


def test_r42_a_name_is_only_a_name(backend: Backend) -> None:
    with open_box(backend) as box:
        for number, name in enumerate(NAMES):
            box.write(name, b"%d" % number)
            box.write(f"{name}-folder/{name}" if len(name) < 100 else f"folder/{name}", b"")
        for number, name in enumerate(NAMES):
            assert box.read(name, limit=10) == b"%d" % number
        assert int(said(shell(box, "find . -mindepth 1 -print0 | tr -dc '\\0' | wc -c"))) == 3 * len(NAMES)
        content = box.snapshot(limit=MEGABYTE)
        box.restore(content)
        assert box.snapshot(limit=MEGABYTE) == content


def test_r42_a_name_that_no_file_can_have_is_refused(backend: Backend) -> None:
    with open_box(backend) as box:
        for path in ("n" * 256, "a/" + "n" * 256, "/", "a\0b", "a\ud800b", ".", ".."):
            with pytest.raises(BoxFileError):
                box.write(path, b"")
            with pytest.raises(BoxFileError):
                box.read(path, limit=1)


def test_r42_a_path_of_more_than_four_thousand_bytes_is_reached(backend: Backend) -> None:
    path = "/".join(["n" * 250] * 20) + "/file"
    with open_box(backend) as box:
        box.write(path, b"deep")
        assert box.read(path, limit=10) == b"deep"
        content = box.snapshot(limit=MEGABYTE)
        box.restore(content)
        assert box.read(path, limit=10) == b"deep"


def test_r43_a_file_that_grows_is_read_to_the_limit_or_refused(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        session.run("touch growing; (while :; do head -c 64k /dev/zero >> growing; done) &", timeout=20)
        with pytest.raises(BoxFileError, match="larger than"):
            read_on(box)
        session.close()
        assert said(shell(box, "echo alive")) == "alive"


def read_on(box: Box) -> None:
    while True:
        assert len(box.read("growing", limit=4 * MEGABYTE)) <= 4 * MEGABYTE
