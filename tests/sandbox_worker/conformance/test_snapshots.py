"""A folder taken out of a box and put back: regular files, folders and their modes, equal to the byte."""

import io
import tarfile

import pytest

from sandbox_worker.sandbox.base import Backend, BoxFileError
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, open_box, said, shell


def names(content: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return set(tar.getnames())


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
        assert {"a/b/one", "empty", "sealed/x"} <= names(content)
        assert not {"link", "fifo"} & names(content)


def test_the_same_folder_gives_the_same_bytes(backend: Backend) -> None:
    with open_box(backend) as box, open_box(backend) as other:
        shell(box, "echo 1 > b; sleep 0.01; echo 2 > a")
        shell(other, "echo 2 > a; echo 1 > b")
        assert box.snapshot(limit=MEGABYTE) == other.snapshot(limit=MEGABYTE)


def test_another_folder_than_the_working_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "mkdir -p sub/a; echo 1 > sub/a/b; echo 2 > beside; echo 3 > /tmp/c")
        content = box.snapshot(limit=MEGABYTE, folder="sub")
        assert names(content) == {"a", "a/b"}
        box.restore(content, folder="/tmp")
        assert said(shell(box, "cd /tmp; find . -type f; cat /app/beside")) == "./a/b\n2"


@pytest.mark.parametrize("folder", ["nowhere", "file", "link", "/app/..", "fifo"])
def test_what_is_no_folder_is_neither_taken_nor_filled(backend: Backend, folder: str) -> None:
    with open_box(backend) as box:
        shell(box, "touch file; ln -s /tmp link; mkfifo fifo; echo kept > /tmp/kept")
        content = box.snapshot(limit=MEGABYTE)
        with pytest.raises(BoxFileError):
            box.snapshot(limit=MEGABYTE, folder=folder)
        with pytest.raises(BoxFileError):
            box.restore(content, folder=folder)
        assert said(shell(box, "cat /tmp/kept")) == "kept"


def test_r56_open_files_sockets_and_jobs_do_not_change_what_is_taken(backend: Backend) -> None:
    make = "head -c 32M /dev/urandom > large; exec 9>>large; (sleep 60 9>&- &) ; sleep 60 < large & "
    bind = "python3 -c 'import socket, time; s = socket.socket(1); s.bind(\"socket\"); s.listen(); time.sleep(60)' &"
    with (
        open_box(backend, disk_bytes=48 * MEGABYTE) as box,
        open_box(backend, disk_bytes=48 * MEGABYTE) as other,
    ):
        session = box.open_session()
        session.run(f"{make} {bind} sleep 1", timeout=60)
        content = box.snapshot(limit=40 * MEGABYTE)
        other.restore(content)
        assert other.snapshot(limit=40 * MEGABYTE) == content
        digest = session.run("sha256sum large", timeout=60).completed.output
        assert shell(other, "sha256sum large").output == digest
        assert names(content) == {"large"}
        session.close()


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


def test_a_restore_leaves_nothing_of_what_was_there(backend: Backend) -> None:
    with open_box(backend) as box:
        before = box.snapshot(limit=MEGABYTE)
        shell(box, "mkdir -p a/b .hidden; touch a/b/c .hidden/x -- -rf; mkfifo pipe; chmod 0 a; ln -s / root")
        box.restore(before)
        assert box.snapshot(limit=MEGABYTE) == before
        assert said(shell(box, "ls -A; ls /usr | wc -l")) != "0"


@pytest.mark.parametrize(
    "make", ["head -c 4194304 /dev/urandom > whole", "for i in $(seq 1000); do echo $i > $i; done; mkdir d; touch d/e"]
)
def test_what_fills_the_disk_fits_into_another_box(backend: Backend, make: str) -> None:
    with open_box(backend, disk_bytes=4 * MEGABYTE) as box, open_box(backend, disk_bytes=4 * MEGABYTE) as other:
        assert said(shell(box, f"{make} && echo made")) == "made"
        content = box.snapshot(limit=4 * MEGABYTE)
        other.restore(content)
        assert other.snapshot(limit=4 * MEGABYTE) == content


@pytest.mark.parametrize("make", ["truncate -s 3M a b", "head -c 3000000 /dev/zero > a; ln a b"])
def test_files_count_at_their_full_length(backend: Backend, make: str) -> None:
    with open_box(backend, disk_bytes=4 * MEGABYTE) as box:
        shell(box, make)
        with pytest.raises(BoxFileError, match="more than"):
            box.snapshot(limit=4 * MEGABYTE)
