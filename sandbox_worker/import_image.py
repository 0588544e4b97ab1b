"""Brings an image file in: python -m sandbox_worker.import_image NAME FILE. The control plane's command runs it."""

import sys
from argparse import ArgumentParser
from pathlib import Path

from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.images.bringing import bring_in
from sandbox_worker.sandbox.images.store import ImageStore
from sandbox_worker.settings import images_folder, store_url
from wire.store import StoreError, open_store


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(prog="import_image", description="Bring in an image: of docker save or export, or OCI.")
    parser.add_argument("name", help="as a Dockerfile says it after FROM, such as debian:12")
    parser.add_argument("file", type=Path)
    asked = parser.parse_args(arguments)
    try:
        digest, record = bring_in(ImageStore(images_folder(), open_store(store_url())), asked.name, asked.file)
    except (SandboxError, StoreError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{asked.name} is {digest}: {len(record.layers)} layers, {record.size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
