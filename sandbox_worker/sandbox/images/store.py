"""Images of this host: layers unpacked once, in the object store for other hosts, the least used let go of.

A digest says what an image was made from; its record says of which layers it is. A record appears after its layers.
"""

import hashlib
import logging
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import msgspec

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.image_root import ImageRoot, with_usr
from sandbox_worker.sandbox.images import folder as folders
from sandbox_worker.sandbox.images import host_base, locks
from sandbox_worker.sandbox.images.errors import ImageStoreError, MissingImageError
from sandbox_worker.sandbox.images.unpack import unpack_layer
from sandbox_worker.sandbox.uids import image_uid
from wire.store import PIECE_BYTES, MissingObjectError, Store

log = logging.getLogger(__name__)

MOST_BYTES = 20 * 2**30
MOST_LAYER_BYTES = 4 * 2**30
_IDLE_SECONDS = 600.0
"""An image that was asked for so recently is about to be used."""
_PREFIX = "sha256:"
_NAME = 32
"""Of a layer's folder: so much of its digest, for the options of a mount have to fit on one page."""
_OPTIONS_BYTES = 4096 - 512


@dataclass(frozen=True)
class Layer:
    digest: str
    """SHA-256 of its tar, in hexadecimal."""
    size: int
    """Bytes of its tar."""


@dataclass(frozen=True)
class Record:
    base: str
    """Of the host's programs, if they lie below the layers; else empty."""
    layers: tuple[Layer, ...] = ()
    """From the lowest to the highest."""
    env: tuple[tuple[str, str], ...] = ()
    machine: str = ""

    @property
    def size(self) -> int:
        return sum(layer.size for layer in self.layers)


class ImageStore:
    """Safe for many threads and processes."""

    def __init__(self, folder: Path, objects: Store | None = None, *, most_bytes: int = MOST_BYTES) -> None:
        """The folder is made by the first who needs an image."""
        self._place = folder
        self.owner = image_uid() if os.geteuid() == 0 else None
        self._objects = objects
        self._most_bytes = most_bytes

    @cached_property
    def folder(self) -> Path:
        """Raises ImageStoreError."""
        return folders.open_folder(self._place)

    @cached_property
    def most_layers(self) -> int:
        """That one image may have here: each is named by its path when it is mounted."""
        return _OPTIONS_BYTES // len(f"/oldroot{self.folder}/layers/{'x' * _NAME}/usr:")

    def record(self, digest: str) -> Record | None:
        """With all its layers on this host; None where nobody has made it. Raises ImageStoreError, StoreError."""
        path = self._record_path(digest)
        data = _read(path)
        if data is None and self._objects is not None:
            try:
                data = self._objects.get(f"images/records/{path.name}")
            except MissingObjectError:
                return None
        if data is None:
            return None
        found = decode(data)
        for layer in found.layers:
            self._load(layer)
        if not path.exists():
            folders.write_whole(self.folder, path, data)
        os.utime(path)
        return found

    def keep(self, digest: str, record: Record) -> None:
        """Its layers have been adopted before."""
        data = msgspec.json.encode(record)
        path = self._record_path(digest)
        if self._objects is not None:
            self._objects.put_if_absent(f"images/records/{path.name}", data)
        folders.write_whole(self.folder, path, data)
        self.evict()

    def adopt(self, tar: Path) -> Layer:
        """Unpack a layer's tar and hand it to the object store; the file is gone then. Raises BadImageError."""
        layer = Layer(_sha256(tar), tar.stat().st_size)
        self._unpack(layer, tar)
        if self._objects is not None:
            self._objects.put_file(f"images/layers/{layer.digest}.tar", tar)
        tar.unlink(missing_ok=True)
        return layer

    def name(self, name: str, digest: str) -> None:
        data = digest.encode()
        if self._objects is not None:
            self._objects.put(f"images/names/{quote(name, safe='')}", data)
        folders.write_whole(self.folder, self.folder / "names" / quote(name, safe=""), data)

    def named(self, name: str) -> str | None:
        if self._objects is None:
            data = _read(self._place / "names" / quote(name, safe=""))
            return None if data is None else data.decode()
        try:
            return self._objects.get(f"images/names/{quote(name, safe='')}").decode()
        except MissingObjectError:
            return None

    def lease(self, digest: str, workdir: str, release: ExitStack) -> ImageRoot:
        """For one box, until release is closed. Raises MissingImageError, ImageStoreError, StoreError."""
        descriptor = locks.try_hold(self.lock_path(digest, "use"), shared=True)
        if descriptor is None:  # it is being let go of
            raise MissingImageError(digest)
        release.callback(os.close, descriptor)
        record = self.record(digest)
        if record is None:
            raise MissingImageError(digest)
        layers = (*self.layers(record), str(self._seal(workdir, is_host=bool(record.base))))
        return ImageRoot(layers, with_usr(layers[:-1]) if record.base else ())

    def layers(self, record: Record) -> tuple[str, ...]:
        """Folders, the lowest first."""
        return (str(self._bottom(record.base)), *(str(self._layer_path(layer)) for layer in record.layers))

    def lock_path(self, digest: str, purpose: str) -> Path:
        return self.folder / "locks" / f"{_plain(digest)}.{purpose}"

    def evict(self) -> None:
        """Let go of images, the longest unused first, until the rest is small enough; never of one in use."""
        with locks.held(self.folder / "locks" / "evict"):
            kept = {path: decode(path.read_bytes()) for path in (self.folder / "records").iterdir()}
            for path in sorted(kept, key=lambda path: path.stat().st_mtime):
                if _total(list(kept.values())) <= self._most_bytes:
                    break
                if self._let_go(path):
                    del kept[path]
            self._remove_layers({layer.digest[:_NAME] for record in kept.values() for layer in record.layers})

    def _let_go(self, record: Path) -> bool:
        if time.time() - record.stat().st_mtime < _IDLE_SECONDS:
            return False
        descriptor = locks.try_hold(self.lock_path(_PREFIX + record.stem, "use"))
        if descriptor is None:
            return False
        record.unlink()
        os.close(descriptor)
        log.info("the image %s was let go of", record.stem)
        return True

    def _remove_layers(self, wanted: set[str]) -> None:
        """A new one stands before its record does."""
        for path in (self.folder / "layers").iterdir():
            if path.name not in wanted and time.time() - path.stat().st_ctime > _IDLE_SECONDS:
                folders.remove(path)

    def _load(self, layer: Layer) -> None:
        if self._layer_path(layer).exists():
            return
        if self._objects is None:
            raise ImageStoreError(f"the layer {layer.digest} is gone from {self.folder}")
        place = folders.new_place(self.folder)
        try:
            log.info("loading a layer of %d bytes: %s", layer.size, layer.digest)
            tar = place / "layer.tar"
            with tar.open("wb") as file:
                for start in range(0, layer.size, PIECE_BYTES):
                    file.write(self._objects.get(f"images/layers/{layer.digest}.tar", start=start, length=PIECE_BYTES))
            if _sha256(tar) != layer.digest:
                raise ImageStoreError(f"the layer in the object store is not the one of its digest {layer.digest}")
            self._unpack(layer, tar)
        finally:
            folders.remove(place)

    def _unpack(self, layer: Layer, tar: Path) -> None:
        target = self._layer_path(layer)
        with locks.held(self.folder / "locks" / f"{layer.digest}.layer"):
            if target.exists():
                os.utime(target)
                return
            with folders.made_beside(self.folder, target) as place, tar.open("rb") as source:
                unpack_layer(source, str(place), most=MOST_LAYER_BYTES, owner=self.owner)

    def _bottom(self, base: str) -> Path:
        """Below the layers: what every box's root must have, and for the host's programs the way to them."""
        target = self.folder / "hosts" / (hashlib.sha256(base.encode()).hexdigest() if base else "none")
        if not target.exists():
            with folders.made_beside(self.folder, target) as place:
                (host_base.fill if base else host_base.fill_plain)(place)
                give(place, self.owner)
        return target

    def _seal(self, workdir: str, *, is_host: bool) -> Path:
        """Over the layers: places to mount on, whatever an image has there."""
        layout.check_workdir(workdir, layout.TAKEN if is_host else layout.TAKEN_OF_IMAGES)
        target = self.folder / "seals" / hashlib.sha256(f"{is_host}{workdir}".encode()).hexdigest()
        if not target.exists():
            with folders.made_beside(self.folder, target) as place:
                fill_seal(place, workdir, is_host=is_host)
        return target

    def _record_path(self, digest: str) -> Path:
        return self.folder / "records" / f"{_plain(digest)}.json"

    def _layer_path(self, layer: Layer) -> Path:
        return self.folder / "layers" / layer.digest[:_NAME]


def fill_seal(place: Path, workdir: str, *, is_host: bool) -> None:
    names = ("proc", "dev", "etc", *layout.SCRATCH, *(("usr", "etc/alternatives") if is_host else ()), workdir)
    for name in names:
        (place / name.lstrip("/")).mkdir(mode=0o755, parents=True, exist_ok=True)
    for path in (*layout.ETC, *(("/etc/ld.so.cache",) if is_host else ())):
        (place / path.lstrip("/")).touch()


def give(place: Path, owner: int | None) -> None:
    if owner is not None:
        for top, folder_names, names in os.walk(place):
            for name in (".", *folder_names, *names):
                os.chown(os.path.join(top, name), owner, owner, follow_symlinks=False)


def decode(data: bytes) -> Record:
    """Raises ImageStoreError."""
    try:
        return msgspec.json.decode(data, type=Record)
    except msgspec.MsgspecError as error:
        raise ImageStoreError(f"a record of an image cannot be read: {error}") from error


def _total(records: list[Record]) -> int:
    return sum({layer.digest: layer.size for record in records for layer in record.layers}.values())


def _plain(digest: str) -> str:
    plain = digest.removeprefix(_PREFIX)
    if len(plain) != 64 or not set(plain) <= set("0123456789abcdef"):
        raise MissingImageError(digest)
    return plain


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
