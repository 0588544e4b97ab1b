"""Files into and out of a real box."""

import io
import tarfile

import pytest

from sandbox_worker.sandbox.base import Backend, BoxFileError, BoxSpentError, MissingFileError
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, open_box, said, shell

pytestmark = pytest.mark.sandbox


def names(content: bytes) -> dict[str, int]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {member.name: member.mode for member in tar}


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


def test_what_is_written_is_read(backend: Backend) -> None:
    data = bytes(range(256)) * 4096
    with open_box(backend) as box:
        box.write("/app/a/b/c.bin", data, mode=0o640)
        box.write("relative.txt", b"")
        assert box.read("/app/a/b/c.bin", limit=len(data)) == data
        assert box.read("relative.txt", limit=0) == b""
        assert said(shell(box, "stat -c '%a %u' a/b/c.bin")) == "640 1000"


@pytest.mark.parametrize("path", ["/tests/test.sh", "/solution/solve.sh", "/logs/verifier/reward.txt", "/tmp/x"])
def test_every_folder_of_the_box_can_be_written(backend: Backend, path: str) -> None:
    with open_box(backend) as box:
        box.write(path, b"echo ran", mode=0o755)
        assert shell(box, path).output == b"ran\n"


def test_writing_replaces_a_link_and_not_what_it_points_to(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "echo kept > target; ln -s target link; ln target hard; chmod 0 target")
        box.write("link", b"new")
        box.write("hard", b"new")
        assert said(shell(box, "chmod 644 target; cat target link hard")) == "kept\nnewnew"


@pytest.mark.parametrize(
    "path", ["/usr/bin/x", "/x", "/etc/passwd", "/app/../usr/x", "/app", "/app/link/x", "a\0b", "a\ud800b"]
)
def test_writing_elsewhere_is_refused(backend: Backend, path: str) -> None:
    with open_box(backend) as box:
        shell(box, "ln -s /tmp link")
        with pytest.raises(BoxFileError):
            box.write(path, b"x")
        assert said(shell(box, "ls /tmp; echo alive")) == "alive"


def test_writing_more_than_fits_is_refused_and_leaves_nothing(backend: Backend) -> None:
    with open_box(backend, disk_bytes=MEGABYTE) as box:
        with pytest.raises(BoxFileError, match="No space"):
            box.write("large", bytes(2 * MEGABYTE))
        assert said(shell(box, "ls; echo alive")) == "alive"


def test_a_missing_file_is_told_apart(backend: Backend) -> None:
    with open_box(backend) as box, pytest.raises(MissingFileError):
        box.read("none", limit=10)


@pytest.mark.parametrize(
    "make",
    ["ln -s /etc/passwd it", "ln -s /proc/1/environ it", "mkfifo it", "mkdir it", "ln -s /dev/zero it",
     "python3 -c \"import socket; socket.socket(1).bind('it')\"", "head -c 11 /dev/zero > it",
     "truncate -s 30M it"],
)  # fmt: skip
def test_links_special_files_and_large_files_are_not_read(backend: Backend, make: str) -> None:
    with open_box(backend) as box:
        shell(box, make)
        with pytest.raises(BoxFileError) as raised:
            box.read("it", limit=10)
        assert not isinstance(raised.value, MissingFileError)
        assert said(shell(box, "echo alive")) == "alive"


@pytest.mark.parametrize(
    "path", ["/dev/zero", "/proc/1/environ", "/proc/1/mem", "/app/inner/passwd", "/app/../etc/passwd"]
)
def test_no_way_around_leads_to_a_file(backend: Backend, path: str) -> None:
    with open_box(backend) as box:
        shell(box, "ln -s /etc inner")
        with pytest.raises(BoxFileError):
            box.read(path, limit=10_000)


def test_a_snapshot_restores_to_the_same(backend: Backend) -> None:
    make = (
        "mkdir -p a/b empty sealed; echo one > a/b/one; head -c 700000 /dev/urandom > a/two; chmod 755 a/two;"
        "echo x > sealed/x; chmod 0 sealed/x; chmod 500 sealed; printf 'n' > $'odd\\xff \\n name';"
        "ln -s /etc/passwd link; mkfifo fifo"
    )
    look = (
        "chmod u+r sealed/x; find . -type f -print0 | sort -z | xargs -0 sha256sum; find . -printf '%y %m %p\\n' | sort"
    )
    with open_box(backend) as box, open_box(backend) as other:
        shell(box, make)
        content = box.snapshot(limit=2 * MEGABYTE)
        other.restore(content)
        shell(box, "rm link fifo")
        assert shell(box, look).output == shell(other, look).output
        assert other.snapshot(limit=2 * MEGABYTE) == box.snapshot(limit=2 * MEGABYTE)
        assert {"a/b/one", "empty", "sealed/x"} <= names(content).keys()
        assert not {"link", "fifo"} & names(content).keys()


def test_the_same_folder_gives_the_same_bytes(backend: Backend) -> None:
    with open_box(backend) as box, open_box(backend) as other:
        shell(box, "echo 1 > b; sleep 0.01; echo 2 > a")
        shell(other, "echo 2 > a; echo 1 > b")
        assert box.snapshot(limit=MEGABYTE) == other.snapshot(limit=MEGABYTE)


@pytest.mark.parametrize(
    "make",
    ["head -c 200000 /dev/zero > large", "truncate -s 20M sparse",
     "d=.; for i in $(seq 100); do d=$d/d; done; mkdir -p $d",
     "for i in $(seq 40); do echo x > $i; done",
     "mkdir a; seq -f a/%g 15000 | xargs touch; seq 15000 | xargs touch",
     "n=$(head -c 250 /dev/zero | tr '\\0' n); mkdir -p $n/$n/$n/$n; cd $n/$n/$n/$n; seq 5000 | xargs touch"],
)  # fmt: skip
def test_a_snapshot_over_its_limit_is_refused(backend: Backend, make: str) -> None:
    with open_box(backend) as box:
        shell(box, make)
        with pytest.raises(BoxFileError):
            box.snapshot(limit=100_000)
        assert said(shell(box, "echo alive")) == "alive"


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
    ],
    ids=lambda bad: f"{bad.name} {bad.type!r}",
)
def test_a_malicious_archive_is_refused_whole(backend: Backend, bad: tarfile.TarInfo) -> None:
    with open_box(backend) as box:
        with pytest.raises(BoxFileError):
            box.restore(tar_of(member("good"), bad))
        assert said(shell(box, "ls /app /tmp; echo alive")).endswith("alive")
        assert "good" not in said(shell(box, "ls /app"))


def test_a_restore_follows_no_link_that_is_there(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "ln -s /tmp a; echo kept > /tmp/kept; ln -s /tmp/kept f")
        box.restore(tar_of(member("a/x"), member("f")))
        assert said(shell(box, "ls -F . /tmp; cat /tmp/kept f a/x")) == ".:\na/\nf\n\n/tmp:\nkept\nkept\nxx"


def test_a_restore_leaves_nothing_of_what_was_there(backend: Backend) -> None:
    with open_box(backend) as box:
        before = box.snapshot(limit=MEGABYTE)
        shell(box, "mkdir -p a/b .hidden; touch a/b/c .hidden/x -- -rf; mkfifo pipe; chmod 0 a; ln -s / root")
        box.restore(before)
        assert box.snapshot(limit=MEGABYTE) == before
        assert said(shell(box, "ls -A; ls /usr | wc -l")) != "0"


@pytest.mark.parametrize("content", [b"no tar at all", tar_of(member("a"))[:520]])
def test_what_is_no_whole_archive_is_refused(backend: Backend, content: bytes) -> None:
    with open_box(backend) as box, pytest.raises(BoxFileError):
        box.restore(content)


@pytest.mark.parametrize(
    "make", ["head -c 4194304 /dev/urandom > whole", "for i in $(seq 1000); do echo $i > $i; done; mkdir d; touch d/e"]
)
def test_what_fills_the_disk_fits_into_another_box(backend: Backend, make: str) -> None:
    with open_box(backend, disk_bytes=4 * MEGABYTE) as box, open_box(backend, disk_bytes=4 * MEGABYTE) as other:
        assert said(shell(box, f"{make} && echo made")) == "made"
        content = box.snapshot(limit=4 * MEGABYTE)
        other.restore(content)
        assert other.snapshot(limit=4 * MEGABYTE) == content


def test_files_that_leave_no_memory_to_serve_them_with_are_not_our_failure(backend: Backend) -> None:
    large = member("large")
    large.size = 96 * MEGABYTE
    with open_box(backend, memory_bytes=48 * MEGABYTE, disk_bytes=128 * MEGABYTE) as box:
        with pytest.raises(BoxSpentError):
            box.restore(tar_of(large))
        assert box.spent == "memory"


@pytest.mark.parametrize("make", ["truncate -s 3M a b", "head -c 3000000 /dev/zero > a; ln a b"])
def test_files_count_at_their_full_length(backend: Backend, make: str) -> None:
    with open_box(backend, disk_bytes=4 * MEGABYTE) as box:
        shell(box, make)
        with pytest.raises(BoxFileError, match="more than"):
            box.snapshot(limit=4 * MEGABYTE)
