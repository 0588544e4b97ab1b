"""Brings an image file into the store of this host under a name, and through the object store to every other."""

import hashlib
import json
import platform
import re
from pathlib import Path

from sandbox_worker.sandbox.images import folder as folders
from sandbox_worker.sandbox.images.archive_file import read_image_file
from sandbox_worker.sandbox.images.errors import BadImageError, UnsupportedImageError, WrongArchitectureError
from sandbox_worker.sandbox.images.merged import Merged
from sandbox_worker.sandbox.images.store import ImageStore, Layer, Record

NAME = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?", re.ASCII)
_MACHINES = {62: "x86_64", 183: "aarch64"}
"""As the header of a program names them."""
_TELLING = ("/bin/sh", "/bin/bash", "/bin/busybox", "/usr/bin/env", "/usr/bin/python3")


def bring_in(store: ImageStore, name: str, path: Path) -> tuple[str, Record]:
    """The image's digest. Raises BadImageError, UnsupportedImageError, WrongArchitectureError, OSError, StoreError."""
    check_name(name)
    place = folders.new_place(store.folder)
    try:
        image = read_image_file(path, place)
        if len(image.layers) > store.most_layers:
            raise UnsupportedImageError(
                f"the image has {len(image.layers)} layers, and at most {store.most_layers} fit"
            )
        layers = tuple(store.adopt(tar) for tar in image.layers)
    finally:
        folders.remove(place)
    record = Record("", layers, image.env, image.machine)
    machine = machine_of(Merged(store.layers(record), host_usr=False)) or image.machine or platform.machine()
    if machine != platform.machine():
        raise WrongArchitectureError(name, machine, platform.machine())
    record = Record("", layers, image.env, machine)
    digest = digest_of(layers, image.env)
    store.keep(digest, record)
    store.name(name, digest)
    return digest, record


def check_name(name: str) -> None:
    """Raises BadImageError."""
    if not NAME.fullmatch(name) or len(name) > 255:
        raise BadImageError(f"{name[:200]!r} is no name of an image: it is like library/debian:12, in small letters")


def digest_of(layers: tuple[Layer, ...], env: tuple[tuple[str, str], ...]) -> str:
    content = json.dumps([[layer.digest for layer in layers], [list(pair) for pair in env]])
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def machine_of(merged: Merged) -> str:
    """For which its programs are; empty where none tells."""
    for path in _TELLING:
        found = merged.find(path)
        if found is None or not found.is_file:
            continue
        with found.places[0].open("rb") as file:
            head = file.read(20)
        if head.startswith(b"\x7fELF"):
            number = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
            return _MACHINES.get(number, f"machine {number}")
    return ""
