"""What a Dockerfile makes, built in real boxes."""

import os
import time
from pathlib import Path

import pytest

from sandbox_worker.sandbox.images.errors import (
    BuildDiskFullError,
    BuildError,
    BuildFailedError,
    BuildOutOfMemoryError,
    BuildTimedOutError,
    MissingImageError,
    MissingProgramError,
    UnsupportedImageError,
    WorkspaceError,
)
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, processes_with, said, shell
from tests.sandbox_worker.sandbox.images.building import LIMITS, box_on, build, recipe

pytestmark = pytest.mark.sandbox


def test_what_a_command_leaves_is_there_in_the_boxes(images: ImageStore) -> None:
    image = build(images, "RUN mkdir /opt/tool && echo one >/opt/tool/list && ln -s list /opt/tool/link\n")
    with box_on(images, image) as box:
        assert said(shell(box, "cat /opt/tool/link; pwd; id -u; ls -A")) == "one\n/app\n1000"


def test_a_program_below_usr_is_found_and_those_of_the_host_still_are(images: ImageStore) -> None:
    line = "RUN printf '#!/bin/sh\\necho mine\\n' >/usr/local/bin/mine && chmod 4700 /usr/local/bin/mine\n"
    with box_on(images, build(images, line)) as box:
        assert said(shell(box, "mine; stat -c %a /usr/local/bin/mine; awk 'BEGIN {print 2}'")) == "mine\n755\n2"


def test_a_build_sees_what_the_lines_before_it_say(images: ImageStore) -> None:
    lines = "ENV A=1\nWORKDIR /srv/deep\nCOPY words.txt .\nRUN (pwd; echo $A $B; cat words.txt) >all\nENV B=2\n"
    image = build(images, lines, {"words.txt": b"words\n"}, workdir="/srv/deep")
    with box_on(images, image, "/srv/deep") as box:
        assert said(shell(box, "cat all")) == "/srv/deep\n1\nwords"


@pytest.mark.parametrize(("user", "uid"), [("root", "0"), ("1000", "1000")])
def test_a_build_runs_as_its_user_who_owns_everything(images: ImageStore, user: str, uid: str) -> None:
    lines = f"USER {user}\nRUN id -u >/opt/id && chown 0:0 /opt/id 2>/opt/said; echo $? >/opt/code\nRUN touch /opt/id\n"
    with box_on(images, build(images, lines)) as box:
        assert said(shell(box, "cat /opt/id")) == uid


def test_a_list_is_run_without_a_shell(images: ImageStore) -> None:
    with box_on(images, build(images, 'RUN ["touch", "/opt/$A b"]\n')) as box:
        assert said(shell(box, "ls /opt")) == "$A b"


def test_what_a_later_line_deletes_is_gone(images: ImageStore) -> None:
    lines = (
        "RUN mkdir /opt/a /opt/b && touch /opt/a/one /opt/b/one /opt/file\n"
        "RUN rm -r /opt/a /opt/file && mkdir /opt/a && touch /opt/a/two && rm /opt/b/one\n"
        "RUN rm /usr/bin/awk && rm -r /usr/share/perl5 && mkdir /usr/share/perl5\n"
    )
    with box_on(images, build(images, lines)) as box:
        assert said(shell(box, "cd /opt; echo *; echo a/* b/*; ls -A /usr/share/perl5; type awk")).splitlines()[:2] == [
            "a b",
            "a/two b/*",
        ]
        assert shell(box, "test -e /usr/bin/awk || ls -A /usr/share/perl5 | grep .").exit_code == 1


def test_a_file_of_the_host_may_be_replaced_and_the_host_keeps_its_own(images: ImageStore) -> None:
    before = Path("/usr/bin/ldd").read_bytes()
    with box_on(images, build(images, "RUN sed -i '2i # changed' /usr/bin/ldd\n")) as box:
        assert said(shell(box, "sed -n 2p /usr/bin/ldd")) == "# changed"
    assert Path("/usr/bin/ldd").read_bytes() == before


def test_files_are_copied_to_where_the_links_of_the_image_lead(images: ImageStore) -> None:
    lines = "COPY tool.sh /bin/tool\nCOPY a b /opt/in/\nCOPY a /opt\nCOPY . /opt/all\n"
    image = build(images, lines, {"tool.sh": b"#!/bin/sh\necho tool\n", "a": b"a\n", "b": b"b\n"})
    with box_on(images, image) as box:
        assert said(shell(box, "tool; ls /usr/bin/tool; cat /opt/in/* /opt/a; ls /opt/all")) == (
            "tool\n/usr/bin/tool\na\nb\na\na\nb\ntool.sh"
        )


def test_the_working_folder_of_an_image_is_given_to_its_boxes_writable(images: ImageStore) -> None:
    image = build(
        images,
        "WORKDIR /app\nCOPY . /app/\nRUN mkdir out && wc -l <words >out/count && rm words\n",
        {"words": b"1\n2\n"},
    )
    with box_on(images, image) as box:
        assert (
            said(shell(box, "find . -type f; cat out/count; echo more >>out/count; wc -l <out/count"))
            == "./out/count\n2\n2"
        )


def test_links_in_the_working_folder_are_kept_as_they_are(images: ImageStore) -> None:
    image = build(
        images, "WORKDIR /app\nRUN echo one >a && ln -s a b && ln -s /etc/shadow c && ln -s none d && ln a e\n"
    )
    with box_on(images, image) as box:
        assert said(shell(box, "cat b e; readlink b c d; test ! -L e; cat c")).startswith(
            "one\none\na\n/etc/shadow\nnone\n"
        )


def test_no_working_folder_is_below_the_usr_of_the_host(images: ImageStore) -> None:
    with pytest.raises(WorkspaceError, match="/usr/src/app cannot be the working folder of a box"):
        build(images, "WORKDIR /usr/src/app\nRUN echo one >a\n", workdir="/usr/src/app")


def test_a_file_without_a_command_needs_no_image(images: ImageStore) -> None:
    assert build(images, "WORKDIR /\nENV A=1\n").digest == ""


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ("RUN echo why; exit 7", BuildFailedError, "line 3 (RUN echo why; exit 7): exit 7; it said last:\nwhy"),
        ("RUN no-such-program", BuildFailedError, "exit 127"),
        ('RUN ["/no/such", "program"]', MissingProgramError, "the image has no /no/such"),
        ("RUN kill -9 $$", BuildFailedError, "exit 137"),
        ("RUN head -c 60000000 /dev/zero >/opt/big", BuildDiskFullError, "no space was left"),
        ("RUN head -c 60000000 /dev/zero >/app/big", BuildDiskFullError, "no space was left"),
        ("RUN for i in 1 2 3; do truncate -s 4M /opt/$i; done", BuildDiskFullError, "the files take more than"),
        ("RUN python3 -c 'x = bytearray(2**29)'", BuildOutOfMemoryError, "took more than 134217728 bytes of memory"),
        ("RUN for i in $(seq 99); do sleep 3 & done", BuildError, "wanted more processes than a box has"),
        ("COPY a /opt/\nCOPY a /opt/a/b", BuildError, "needs the folder /opt/a, where a file stands"),
        ("COPY a /usr/bin/awk\nCOPY a /proc/a", BuildError, "reaches into /proc/a"),
        ("COPY a /proc/1/a", BuildError, "reaches into /proc/1/a"),
        ("RUN mkdir /opt/a\nCOPY a /opt/", BuildError, "cannot put a file in place of the folder /opt/a"),
        ("RUN cd / && rmdir /app\nRUN true", BuildError, "line 4 (RUN true): cannot be started: folder"),
        ("RUN touch /opt/.wh.passwd", BuildDiskFullError, "begins with .wh."),
        ("RUN rm /usr/bin/bash /usr/bin/mkdir", MissingProgramError, "the image has no bash"),
        ("RUN rm /usr/bin/mkdir", MissingProgramError, "the image has no mkdir"),
        ("RUN rm /bin/sh\nRUN true", MissingProgramError, "the image has no /bin/sh"),
    ],
)
def test_each_way_to_fail_has_an_error_of_its_own(
    images: ImageStore, lines: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as caught:
        build(images, f"WORKDIR /app\n{lines}\n", {"a": b"a"})
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert list((images.folder / "tmp").iterdir()) == []


def test_a_build_that_runs_for_ever_is_ended_with_all_its_processes(images: ImageStore) -> None:
    mark = f"sleep 98765{os.getpid()}"
    began = time.monotonic()
    with pytest.raises(BuildTimedOutError, match=r"did not end within 2 s; it said last:\nbegan"):
        build(images, f"RUN trap '' TERM; echo began; setsid {mark} & {mark}\n", seconds=2.0)
    assert time.monotonic() - began < 30
    assert processes_with(mark.replace(" ", "\0")) == []


def test_the_time_is_for_the_whole_build(images: ImageStore) -> None:
    with pytest.raises(BuildTimedOutError, match="line 3"):
        build(images, "RUN sleep 2\nRUN sleep 60\n", seconds=4.0)


def test_a_fork_bomb_fails_and_the_next_build_works(images: ImageStore) -> None:
    with pytest.raises(BuildError):
        build(images, "RUN f() { f & f; }; f; sleep 2; exit 9\n", seconds=5.0)
    with box_on(images, build(images, "RUN touch /opt/next\n")) as box:
        assert said(shell(box, "ls /opt")) == "next"


def test_a_build_has_no_network_no_capability_and_no_way_to_mount(images: ImageStore) -> None:
    lines = (
        "RUN grep -E 'CapEff|NoNewPrivs' /proc/self/status >/opt/said; ls /sys/class/net >>/opt/said 2>&1; "
        "mount -t tmpfs none /mnt 2>/dev/null || echo no mount >>/opt/said; "
        "unshare -Ur true 2>/dev/null || echo no namespace >>/opt/said; "
        "cat /etc/shadow 2>/dev/null || echo no shadow >>/opt/said\n"
    )
    with box_on(images, build(images, lines)) as box:
        found = said(shell(box, "cat /opt/said"))
    assert "CapEff:\t0000000000000000\nNoNewPrivs:\t1" in found
    assert found.endswith("no mount\nno namespace\nno shadow")


def test_the_root_of_a_box_on_an_image_is_read_only_and_its_folders_are_bounded(images: ImageStore) -> None:
    with box_on(images, build(images, "RUN touch /opt/one && chmod 777 /opt /opt/one\n")) as box:
        for place in ("/", "/opt", "/usr/local/bin", "/etc", "/dev"):
            assert shell(box, f"touch {place}/new").exit_code == 1, place
        assert shell(box, "echo x >>/opt/one").exit_code != 0
        assert shell(box, f"head -c {9 * MEGABYTE} /dev/zero >big").exit_code != 0
        flags = said(shell(box, "grep -E '^overlay (/|/usr) ' /proc/mounts | cut -d' ' -f4 | cut -d, -f1-3"))
        assert flags == "ro,nosuid,nodev\nro,nosuid,nodev"


def test_an_image_may_have_as_many_layers_as_can_be_mounted_and_no_more(images: ImageStore) -> None:
    lines = "".join(f"COPY a /usr/local/lib/deep/{number}\n" for number in range(images.most_layers))
    with box_on(images, build(images, lines, {"a": b"a"})) as box:
        assert said(shell(box, "ls /usr/local/lib/deep | wc -l")) == str(images.most_layers)
    with pytest.raises(UnsupportedImageError, match=rf"needs Docker: .* more than {images.most_layers} layers"):
        build(images, f"{lines}COPY a /opt/more\n", {"a": b"a"})


def test_a_base_that_nobody_brought_in_is_missing(images: ImageStore) -> None:
    with pytest.raises(MissingImageError, match=r"no image 'debian:12': bring it in with manage.py import_image"):
        build(images, "FROM debian:12\nRUN true\n")


def test_a_build_that_nobody_wants_any_more_is_given_up(images: ImageStore) -> None:
    mark = f"sleep 87654{os.getpid()}"
    until = time.monotonic() + 3

    def check() -> None:
        if time.monotonic() > until:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        LayeredBuilder(images).build(recipe(f"RUN {mark}\n"), LIMITS, check)
    assert processes_with(mark.replace(" ", "\0")) == []
