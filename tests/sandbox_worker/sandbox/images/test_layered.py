"""What a Dockerfile makes, built in real boxes."""

import pytest

from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.boxes import said, shell
from tests.sandbox_worker.sandbox.images.building import box_on, build

pytestmark = pytest.mark.sandbox


def test_what_a_command_leaves_is_there_in_the_boxes(images: ImageStore) -> None:
    image = build(images, "RUN mkdir /opt/tool && echo one >/opt/tool/list && ln -s list /opt/tool/link\n")
    with box_on(images, image) as box:
        assert said(shell(box, "cat /opt/tool/link; pwd; id -u; ls -A")) == "one\n/app\n1000"


def test_a_program_below_usr_is_found_and_those_of_the_host_still_are(images: ImageStore) -> None:
    image = build(
        images, "RUN printf '#!/bin/sh\\necho mine\\n' >/usr/local/bin/mine && chmod 4700 /usr/local/bin/mine\n"
    )
    with box_on(images, image) as box:
        assert said(
            shell(box, "mine; ls -l /usr/local/bin/mine | cut -c1-10; python3 -c 'print(1)'; awk 'BEGIN {print 2}'")
        ) == ("mine\n-rwxr-xr-x\n1\n2")
