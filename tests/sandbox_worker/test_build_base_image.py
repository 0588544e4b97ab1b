"""The bundled base image, really made of this host's packages, and used by both kinds of boxes."""

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox_worker.build_base_image import build as build_base
from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.images import base_tar
from sandbox_worker.sandbox.images.errors import ImageStoreError
from sandbox_worker.sandbox.images.store import ImageStore
from tests.engine import Engine
from tests.sandbox_worker.sandbox.boxes import said, shell
from tests.sandbox_worker.sandbox.images.building import box_on, build
from tests.servers import make_data_folder, remove_data_folder
from wire.store import FolderStore

TRY = "python3 -c 'import json, sqlite3, ssl; print(1)'; awk 'BEGIN {print 2}'; seq 3 | tail -1; test -e /etc/shadow"


@pytest.fixture(scope="module")
def base() -> Iterator[ImageStore]:
    folder = make_data_folder()
    store = ImageStore(folder / "images", FolderStore(folder / "objects"))
    build_base(store, "")
    yield store
    remove_data_folder(folder)


def tag(store: ImageStore) -> str:
    record = store.record(store.named("assay/base") or "")
    assert record is not None
    return f"assay/base:{record.layers[0].digest[:12]}"


@pytest.mark.sandbox
def test_a_box_on_the_base_has_programs_and_no_file_of_the_hosts_own(base: ImageStore) -> None:
    image = build(base, f"FROM {tag(base)}\nWORKDIR /app\nRUN python3 -c 'print(4)' >four && cp -a /usr/bin/env /opt\n")
    with box_on(base, image) as box:
        done = shell(box, f"{TRY}; cat four; ls /opt; ls /usr/local/bin")
    assert said(done) == "1\n2\n3\n4\nenv"


@pytest.mark.sandbox
def test_the_source_of_a_program_below_an_images_own_usr_can_be_the_working_folder(base: ImageStore) -> None:
    lines = f"FROM {tag(base)}\nWORKDIR /usr/src/app\nRUN echo one >a && ln -s a b\n"
    with box_on(base, build(base, lines, workdir="/usr/src/app"), "/usr/src/app") as box:
        assert said(shell(box, "pwd; cat b; touch c; echo * /usr/bin/env")) == "/usr/src/app\none\na b c /usr/bin/env"


@pytest.mark.sandbox
def test_the_same_packages_give_the_same_image(base: ImageStore) -> None:
    before = tag(base)
    build_base(base, "")
    assert tag(base) == before


@pytest.mark.docker
def test_an_engine_takes_the_base_under_its_tag(base: ImageStore, engine: Engine, tmp_path: Path) -> None:
    build_base(base, engine.url)
    client = docker.DockerClient(base_url=engine.url)
    try:
        container = client.containers.create(tag(base), ["bash", "-c", TRY], network_mode="none")
        container.start()
        assert container.wait()["StatusCode"] == 1
        assert container.logs() == b"1\n2\n3\n"
        container.remove()
    finally:
        client.close()


def test_an_engine_that_is_not_there_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=f"there is no Docker Engine: unix://{tmp_path}/none: No such file"):
        build_base(ImageStore(tmp_path / "images"), f"unix://{tmp_path}/none")
    assert not (tmp_path / "images").exists()


def test_a_host_that_is_no_debian_is_told_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ImageStoreError, match=r"no dpkg-query: build it on a Debian host, or .*manage\.py import_image"
    ):
        base_tar.write_base(tmp_path / "tar", tmp_path / "root")


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(ImageStoreError, match="apt install no-such-package"):
        base_tar.closure(["bash", "no-such-package"])
