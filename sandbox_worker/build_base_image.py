"""Makes the bundled base image: python -m sandbox_worker.build_base_image. The control plane's command runs it."""

import sys
from argparse import ArgumentParser
from pathlib import Path

import docker
from docker.errors import DockerException

from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.daemon import EngineAbsentError, ask_engine
from sandbox_worker.sandbox.images import folder as folders
from sandbox_worker.sandbox.images.base_tar import write_base
from sandbox_worker.sandbox.images.bringing import bring_in
from sandbox_worker.sandbox.images.store import ImageStore
from sandbox_worker.settings import images_folder, store_url
from wire.dockerfile import BASE
from wire.store import StoreError, open_store


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(prog="build_base_image", description=f"Make {BASE} of this host's Debian packages.")
    parser.add_argument(
        "--docker", default="", metavar="URL", help="of an Engine that gets it too: unix:///…/docker.sock"
    )
    asked = parser.parse_args(arguments)
    try:
        build(ImageStore(images_folder(), open_store(store_url())), asked.docker)
    except (SandboxError, StoreError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def build(store: ImageStore, docker_url: str) -> str:
    """Its digest; in the store it has the name of the base, with and without a tag. Raises as bring_in does."""
    if docker_url:
        require_engine(docker_url)
    place = folders.new_place(store.folder)
    try:
        (place / "root").mkdir()
        tar = place / "base.tar"
        write_base(tar, place / "root")
        digest, record = bring_in(store, BASE, tar)
        tag = f"{BASE}:{record.layers[0].digest[:12]}"
        store.name(tag, digest)
        sys.stdout.write(f"{tag} is {digest}: {record.size:,} bytes\n")
        if docker_url:
            sys.stdout.write(f"The Engine has it as {import_into(docker_url, tar, tag)}\n")
    finally:
        folders.remove(place)
    return digest


def import_into(url: str, tar: Path, name: str) -> str:
    """Under this name and as the latest. Raises SandboxError."""
    repository, _, tag = name.partition(":")
    try:
        client = docker.DockerClient(base_url=url)
        try:
            client.api.import_image_from_file(str(tar), repository=repository, tag=tag)
            image = client.images.get(name)
            image.tag(repository, "latest")
            return str(image.id)
        finally:
            client.close()
    except DockerException as error:
        raise SandboxError(f"the Engine at {url} does not take the image: {error}") from error


def require_engine(url: str) -> None:
    """Raises SandboxError."""
    try:
        ask_engine(url)
    except EngineAbsentError as error:
        raise SandboxError(f"there is no Docker Engine: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
