"""What a Dockerfile makes on a Docker Engine, built in real boxes."""

import os
import time

import pytest

from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images import engine_step
from sandbox_worker.sandbox.images.errors import (
    BadImageError,
    BuildDiskFullError,
    BuildError,
    BuildFailedError,
    BuildOutOfMemoryError,
    BuildTimedOutError,
    MissingProgramError,
    WorkspaceError,
)
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.boxes import processes_with, said, shell
from tests.sandbox_worker.sandbox.images.building import LIMITS, recipe
from tests.sandbox_worker.sandbox.images.docker_building import Host

pytestmark = pytest.mark.docker


@pytest.fixture
def host(docker_boxes: DockerBackend, images: ImageStore) -> Host:
    return Host(docker_boxes, images)


def test_what_a_command_leaves_is_there_in_the_boxes(host: Host) -> None:
    image = host.build("RUN mkdir /opt/tool && echo one >/opt/tool/list && ln -s list /opt/tool/link\n")
    with host.box(image) as box:
        assert said(shell(box, "cat /opt/tool/link; pwd; id -u; ls -A")) == "one\n/app\n1000"
    assert host.left() == ([], [])


def test_a_build_sees_what_the_lines_before_it_say(host: Host) -> None:
    lines = "ENV A=1\nWORKDIR /srv/deep\nCOPY words.txt .\nRUN (pwd; echo $A $B; cat words.txt) >all\nENV B=2\n"
    image = host.build(lines, {"words.txt": b"words\n"}, workdir="/srv/deep")
    with host.box(image, "/srv/deep") as box:
        assert said(shell(box, "cat all")) == "/srv/deep\n1\nwords"


def test_files_are_copied_to_where_the_links_of_the_image_lead(host: Host) -> None:
    lines = "COPY tool.sh /bin/tool\nCOPY a b /opt/in/\nCOPY a /opt\nCOPY . /opt/all\n"
    image = host.build(lines, {"tool.sh": b"#!/bin/sh\necho tool\n", "a": b"a\n", "b": b"b\n"})
    with host.box(image) as box:
        assert said(shell(box, "tool; ls /usr/bin/tool; cat /opt/in/* /opt/a; ls /opt/all")) == (
            "tool\n/usr/bin/tool\na\nb\na\na\nb\ntool.sh"
        )


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ("RUN echo why; exit 7", BuildFailedError, "line 3 (RUN echo why; exit 7): exit 7; it said last:\nwhy"),
        ("RUN no-such-program", BuildFailedError, "exit 127"),
        ('RUN ["/no/such", "program"]', MissingProgramError, "the image has no /no/such"),
        ("RUN kill -9 $$", BuildFailedError, "exit 137"),
        ("RUN head -c 60000000 /dev/zero >/opt/big", BuildDiskFullError, "the files take 9"),
        ("RUN for i in 1 2 3; do truncate -s 4M /opt/$i; done", BuildDiskFullError, "the files take 12582912 bytes"),
        (
            "RUN i=0; while true; do i=$((i + 1)); head -c 1000000 /dev/zero >/opt/$i; sleep 0.05; done",
            BuildDiskFullError,
            "(a box has 8388608 bytes)",
        ),
        ("RUN python3 -c 'x = bytearray(2**29)'", BuildOutOfMemoryError, "took more than 134217728 bytes of memory"),
        ("COPY a /opt/\nCOPY a /opt/a/b", BuildError, "needs the folder /opt/a, where a file stands"),
        ("COPY a /proc/1/a", BuildError, "reaches into /proc/1/a"),
        ("RUN mkdir /opt/a\nCOPY a /opt/", BuildError, "cannot put a file in place of the folder /opt/a"),
        ("RUN ln -s loop /opt/loop\nCOPY a /opt/loop/", BadImageError, "/opt/loop of the image cannot be looked at"),
        ("RUN rmdir /app && ln -s /srv /app", WorkspaceError, "links lead from /app to /srv in the image"),
        ("RUN mkfifo pipe", WorkspaceError, "/app/pipe of the image is neither a file, nor a folder, nor a link"),
        ("RUN head -c 9m /dev/zero >/app/all", BuildDiskFullError, "the files take"),
        (
            "RUN for i in $(seq 3000); do echo >$i; done",
            WorkspaceError,
            "the files in /app of the image take more than",
        ),
        ("RUN cd / && rmdir /app && echo >/app", WorkspaceError, "/app of the image is no folder"),
        ("RUN rm /usr/bin/bash /usr/bin/mkdir", MissingProgramError, "the image has no bash"),
        ("RUN rm /usr/bin/mkdir", MissingProgramError, "the image has no mkdir"),
        ("RUN rm /bin/sh\nRUN true", MissingProgramError, "the image has no /bin/sh"),
        ("RUN cd / && rmdir /app\nRUN true", BuildError, "cannot be started: folder"),
    ],
)
def test_each_way_to_fail_has_an_error_of_its_own(host: Host, lines: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        host.build(f"WORKDIR /app\n{lines}\n", {"a": b"a"})
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert host.left() == ([], [])


def test_files_without_content_are_counted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_step, "_MOST_FILES", 2000)
    with pytest.raises(BuildDiskFullError, match="there are more than 2000 files"):
        host.build("RUN mkdir /opt/m; cd /opt/m; seq 2500 | xargs touch; sleep 30\n")
    assert host.left() == ([], [])


def test_a_link_that_leads_nowhere_is_not_replaced_by_a_folder(host: Host) -> None:
    with host.box(host.build("RUN ln -s /opt/none /opt/link\nCOPY a /opt/link/\n", {"a": b"a"})) as box:
        assert said(shell(box, "cat /opt/none/a; readlink /opt/link")) == "a/opt/none"


@pytest.mark.parametrize(("user", "uid"), [("root", "0"), ("1000", "1000")])
def test_a_build_runs_as_its_user(host: Host, user: str, uid: str) -> None:
    image = host.build(f"USER {user}\nRUN id -u >/tmp/id && cp /tmp/id /var/tmp/id\n")
    with host.box(image) as box:
        assert said(shell(box, "cat /var/tmp/id")) == uid


def test_what_a_later_line_deletes_is_gone(host: Host) -> None:
    lines = (
        "RUN mkdir /opt/a /opt/b && touch /opt/a/one /opt/b/one /opt/file\n"
        "RUN rm -r /opt/a /opt/file && mkdir /opt/a && touch /opt/a/two && rm /opt/b/one\n"
    )
    with host.box(host.build(lines)) as box:
        assert said(shell(box, "cd /opt; echo *; echo a/* b/*")) == "a b\na/two b/*"


def test_folders_on_the_way_of_a_copy_keep_their_modes(host: Host) -> None:
    lines = "RUN mkdir -m 700 /opt/own\nCOPY a /opt/own/deep/\nRUN stat -c '%a %u' /opt/own /opt/own/deep >/opt/said\n"
    with host.box(host.build(lines, {"a": b"a"})) as box:
        assert said(shell(box, "cat /opt/said")) == "700 0\n755 0"


def test_a_build_that_runs_for_ever_is_ended_with_all_its_processes(host: Host) -> None:
    mark = f"sleep 98765{os.getpid()}"
    with pytest.raises(BuildTimedOutError, match=r"did not end within 2 s; it said last:\nbegan"):
        host.build(f"RUN trap '' TERM; echo began; setsid {mark} & {mark}\n", seconds=2.0)
    assert processes_with(mark.replace(" ", "\0")) == []
    assert host.left() == ([], [])


def test_the_time_is_for_the_whole_build(host: Host) -> None:
    with pytest.raises(BuildTimedOutError, match="line 3"):
        host.build("RUN sleep 2\nRUN sleep 60\n", seconds=4.0)
    assert host.left() == ([], [])


def test_a_fork_bomb_fails_and_the_next_build_works(host: Host) -> None:
    with pytest.raises(BuildError):
        host.build("RUN f() { f & f; }; f; sleep 2; exit 9\n", seconds=5.0)
    with host.box(host.build("RUN touch /opt/next\n")) as box:
        assert said(shell(box, "ls /opt")) == "next"
    assert host.left() == ([], [])


def test_a_build_has_no_network_no_capability_and_no_way_to_mount(host: Host) -> None:
    lines = (
        "RUN grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status >/opt/said; ls /sys/class/net >>/opt/said 2>&1; "
        "mount -t tmpfs none /mnt 2>/dev/null || echo no mount >>/opt/said; "
        "unshare -Ur true 2>/dev/null || echo no namespace >>/opt/said; "
        "cat /etc/shadow 2>/dev/null || echo no shadow >>/opt/said\n"
    )
    with host.box(host.build(lines)) as box:
        found = said(shell(box, "cat /opt/said"))
    assert found == ("CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nlo\nno mount\nno namespace\nno shadow")


def test_the_root_of_a_box_on_an_image_is_read_only(host: Host) -> None:
    with host.box(host.build("RUN touch /opt/one && chmod 777 /opt /opt/one\n")) as box:
        for place in ("/", "/opt", "/usr/local/bin", "/etc"):
            assert shell(box, f"touch {place}/new").exit_code == 1, place
        assert shell(box, "echo x >>/opt/one").exit_code != 0


def test_a_build_that_nobody_wants_any_more_is_given_up(host: Host) -> None:
    mark = f"sleep 87654{os.getpid()}"
    until = time.monotonic() + 4

    def check() -> None:
        if time.monotonic() > until:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        host.builder.build(recipe(f"RUN touch /opt/first\nRUN {mark}\n"), LIMITS, check)
    assert processes_with(mark.replace(" ", "\0")) == []
    assert host.left() == ([], [])


def test_the_working_folder_of_an_image_is_given_to_its_boxes_writable(host: Host) -> None:
    lines = (
        "WORKDIR /app\nCOPY . /app/\nRUN mkdir out && wc -l <words >out/count; ln -s out/count link; ln words more\n"
    )
    with host.box(host.build(lines, {"words": b"1\n2\n"})) as box:
        assert said(shell(box, "cat link more; readlink link; echo 3 >>words; cat more")) == "2\n1\n2\nout/count\n1\n2"


def test_the_source_of_a_program_below_usr_can_be_the_working_folder(host: Host) -> None:
    image = host.build("WORKDIR /usr/src/app\nRUN echo one >a\n", workdir="/usr/src/app")
    with host.box(image, "/usr/src/app") as box:
        assert said(shell(box, "pwd; cat a; touch b; echo *")) == "/usr/src/app\none\na b"


@pytest.mark.parametrize("workdir", ["/usr/bin", "/usr", "/etc/app", "/proc/app"])
def test_no_working_folder_hides_programs_or_what_is_the_boxes_own(host: Host, workdir: str) -> None:
    with pytest.raises(WorkspaceError, match=f"{workdir} cannot be the working folder"):
        host.build("RUN true\n", workdir=workdir)
