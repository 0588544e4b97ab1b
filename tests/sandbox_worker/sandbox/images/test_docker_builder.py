"""What a Dockerfile makes on a Docker Engine, built in real boxes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.base import Box, BoxSpec
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images.docker_builder import DockerBuilder
from sandbox_worker.sandbox.images.errors import (
    BuildDiskFullError,
    BuildError,
    BuildFailedError,
    BuildOutOfMemoryError,
    MissingProgramError,
)
from sandbox_worker.sandbox.images.recipe import BuiltImage
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.boxes import said, shell
from tests.sandbox_worker.sandbox.images.building import LIMITS, recipe

pytestmark = pytest.mark.docker


class Host:
    """An Engine's boxes and the builder of their images."""

    def __init__(self, backend: DockerBackend, images: ImageStore) -> None:
        self.backend = backend
        self.builder = DockerBuilder(backend, images)

    def build(
        self, lines: str, files: dict[str, bytes] | None = None, seconds: float = 60.0, workdir: str = "/app"
    ) -> BuiltImage:
        return self.builder.build(recipe(lines, files, seconds, workdir), LIMITS, lambda: None)

    @contextmanager
    def box(self, image: BuiltImage, workdir: str = "/app") -> Iterator[Box]:
        box = self.backend.start(BoxSpec(limits=LIMITS, workdir=workdir, image=image.digest))
        try:
            box.restore(image.workspace, links=True)
            yield box
        finally:
            box.stop()

    def left(self) -> tuple[list[Any], list[Any]]:
        """Containers, and images that were not finished."""
        unfinished = self.backend.api.images(filters={"label": containers.BUILDER, "dangling": True})
        return self.backend.api.containers(all=True), unfinished


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
