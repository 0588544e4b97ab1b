"""Images on a Docker Engine: by what names they are found, built once a host, let go of, and left by nobody."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.base import HostCannotIsolateError
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images import engine_images
from sandbox_worker.sandbox.images.errors import (
    BadImageError,
    BuildFailedError,
    ImageStoreError,
    MissingImageError,
    MissingProgramError,
    WrongArchitectureError,
)
from sandbox_worker.sandbox.images.store import ImageStore
from tests.engine import Engine
from tests.sandbox_worker.docker_host import BASE, client_of, docker_backend
from tests.sandbox_worker.sandbox.boxes import processes_with, said, shell
from tests.sandbox_worker.sandbox.images.docker_building import OTHER_MACHINE, Host, load, program

pytestmark = pytest.mark.docker

BUILDER = """
import sys
from pathlib import Path
from sandbox_worker.sandbox.docker import DockerBackend
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.docker_host import BASE, client_of, docker_backend
from tests.sandbox_worker.sandbox.images.docker_building import Host
url, folder, lines = sys.argv[1:]
backend = DockerBackend(url, image=BASE)
image = Host(backend, ImageStore(Path(folder))).build(lines)
backend.close()
print(image.digest, bool(image.log))
"""


@pytest.fixture
def host(docker_boxes: DockerBackend, images: ImageStore) -> Host:
    return Host(docker_boxes, images)


def builder(engine: Engine, images: ImageStore, lines: str) -> "subprocess.Popen[str]":
    """Another process of the host that builds it."""
    command = [sys.executable, "-c", BUILDER, engine.url, str(images.folder), lines]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4])


def test_what_was_built_is_found_again_after_a_restart(host: Host, images: ImageStore) -> None:
    lines = f"RUN echo {os.getpid()} >/opt/restart\n"
    first = host.build(lines)
    again = Host(host.backend, images).build(lines)
    assert (bool(first.log), again.log, again.digest) == (True, "", first.digest)
    assert first.size > 0


def test_a_step_that_another_build_has_made_is_not_made_again(host: Host) -> None:
    line = f"RUN date +%N >/opt/when-{os.getpid()}\n"
    host.build(line)
    image = host.build(f"{line}RUN touch /opt/more\n")
    assert image.log.startswith("environment/Dockerfile, line 3 (RUN touch /opt/more)")


def test_two_processes_that_build_at_once_build_once(host: Host, engine: Engine, images: ImageStore) -> None:
    lines = f"RUN echo {os.getpid()} >/opt/at-once; sleep 1; date +%N >/opt/when\n"
    both = [builder(engine, images, lines) for _ in range(2)]
    (one, one_said), (other, other_said) = (process.communicate(timeout=120)[0].split() for process in both)
    assert one == other
    assert {one_said, other_said} == {"True", "False"}


def test_a_builder_that_was_killed_leaves_nothing_after_a_reap(host: Host, engine: Engine, images: ImageStore) -> None:
    mark = f"sleep 76543{os.getpid()}"
    before = len(host.backend.api.images(all=True))
    process = builder(engine, images, f"RUN touch /opt/{os.getpid()}\nRUN touch /opt/killed\nRUN {mark}\n")
    until = time.monotonic() + 60
    while not processes_with(mark.replace(" ", "\0")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(host.backend.api.images(all=True)) == before + 2
    assert host.backend.reap() == 1
    assert host.left() == ([], [])
    assert len(host.backend.api.images(all=True)) == before
    assert processes_with(mark.replace(" ", "\0")) == []


def test_what_a_living_builder_has_under_way_is_not_reaped(host: Host, engine: Engine, images: ImageStore) -> None:
    process = builder(engine, images, f"RUN touch /opt/living-{os.getpid()}\nRUN sleep 3\n")
    while len(host.left()[1]) != 1:
        assert process.poll() is None
        time.sleep(0.05)
    host.backend.reap()
    assert process.communicate(timeout=60)[0].endswith("True\n")


def test_a_build_that_failed_a_moment_ago_is_not_tried_again(host: Host) -> None:
    lines = f"RUN date +%N; exit 1 # {os.getpid()}\n"
    with pytest.raises(BuildFailedError) as first:
        host.build(lines)
    with pytest.raises(BuildFailedError) as again:
        host.build(lines)
    assert str(again.value) == str(first.value)


def test_the_longest_unused_images_are_let_go_of_and_none_that_a_box_has(
    host: Host, images: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_images, "_IDLE_SECONDS", 0.0)
    small = Host(host.backend, images, most_bytes=3_000_000)
    names = [f"RUN head -c 1000000 /dev/zero >/opt/{os.getpid()}-{number}\n" for number in range(4)]
    held, unused = small.build(names[0]), small.build(names[1])
    with small.box(held):
        for name in names[2:]:
            small.build(name)
        assert small.build(names[0]).log == ""
    again = small.build(names[1])
    assert again.log
    assert again.digest != unused.digest
    assert host.left() == ([], [])


def test_an_image_of_the_engine_is_found_by_its_name(host: Host) -> None:
    (repository, tag) = ("lab/named", "1")
    host.backend.api.tag(BASE, repository, tag)
    assert host.builder.knows("lab/named:1")
    with host.box(host.build("FROM lab/named:1\nRUN touch /opt/named\n")) as box:
        assert said(shell(box, "ls /opt")) == "named"


def test_an_image_without_steps_is_the_engines_own(host: Host) -> None:
    host.backend.api.tag(BASE, "lab/plain", "1")
    image = host.build("FROM lab/plain:1\nENV A=1\n")
    assert image.digest == host.backend.api.inspect_image(BASE)["Id"]  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "name", ["debian:12", "no/such@sha256:" + "0" * 64, "../containers/json", "Not//Right", "a b", "x" * 600]
)
def test_a_base_that_the_engine_does_not_have_is_missing(host: Host, name: str) -> None:
    with pytest.raises(MissingImageError, match="docker load it or docker pull it on this host"):
        host.builder.base(name)


def test_programs_for_other_machines_are_refused(host: Host) -> None:
    load(host.backend.api, "lab/other:1", program("bin/bash"), machine=OTHER_MACHINE)
    with pytest.raises(WrongArchitectureError, match="'lab/other:1' is for"):
        host.build("FROM lab/other:1\nRUN true\n")


def test_an_image_with_volumes_is_refused_for_nothing_bounds_them(host: Host) -> None:
    load(host.backend.api, "lab/volumes:1", program("bin/bash"), Volumes={"/data": {}})
    with pytest.raises(BadImageError, match="volumes, which boxes have not: /data"):
        host.build("FROM lab/volumes:1\nWORKDIR /app\n")


@pytest.mark.parametrize(("programs", "missing"), [(["bin/sh"], "bash"), (["bin/sh", "bin/bash"], "mkdir")])
def test_an_image_without_the_programs_that_boxes_need_is_refused(
    host: Host, programs: list[str], missing: str
) -> None:
    load(host.backend.api, f"lab/without-{missing}:1", *map(program, programs))
    with pytest.raises(MissingProgramError, match=f"the image has no {missing}"):
        host.build(f"FROM lab/without-{missing}:1\nWORKDIR /app\n")
    assert host.left() == ([], [])


def test_the_environment_of_an_image_is_told(host: Host) -> None:
    load(host.backend.api, "lab/env:1", program("bin/bash"), program("bin/mkdir"), Env=["A=1", "B=two words"])
    assert host.build("FROM lab/env:1\nENV C=3\n").env == (("A", "1"), ("B", "two words"))


def test_containers_that_others_make_of_an_image_are_not_ours(host: Host) -> None:
    image = host.build(f"RUN touch /opt/theirs-{os.getpid()}\n")
    made = host.backend.api.create_container(image.digest, ["true"])
    try:
        host.backend.reap()
        assert [found["Id"] for found in host.left()[0]] == [made["Id"]]
        assert host.left()[0][0]["Labels"][containers.OWNER] == ""
    finally:
        host.backend.api.remove_container(made["Id"])


def test_an_engine_without_the_base_is_refused_with_the_way_to_make_it(engine: Engine) -> None:
    with pytest.raises(HostCannotIsolateError, match=r"no image 'assay/none' .*build_base_image --docker unix://"):
        DockerBackend(engine.url, image="assay/none")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_is_gone_is_our_failure(images: ImageStore) -> None:
    engine = Engine()
    try:
        engine.start()
        with client_of(engine) as client:
            load(client, "lab/tiny:1", program("bin/bash"))
        with docker_backend(engine, image="lab/tiny:1") as backend:
            host = Host(backend, images)
            engine.stop()
            with pytest.raises(ImageStoreError, match="the Docker Engine did not build"):
                host.build("RUN true\n")
        gc.collect()  # Docker's client leaves its socket open where nobody listens
    finally:
        engine.remove()
