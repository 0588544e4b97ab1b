"""The object store: a folder or an S3-compatible bucket behind the same few verbs, in every program.

An object is whole or absent and never changes its place. Only the control plane deletes.
"""

import hashlib
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlparse

import fsspec

PIECE_BYTES = 16 * 2**20


class StoreError(Exception):
    """The object store could not do what it was asked."""


class MissingObjectError(StoreError):
    def __init__(self, key: str) -> None:
        super().__init__(f"object store: there is no object {key!r}")
        self.key = key


class Store(ABC):
    """Objects by key. Keys are relative, use '/', and hold no '..'. What cannot be read or written is a StoreError."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write whole, replacing what was there."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write whole; False, and nothing written, if the key exists."""

    @abstractmethod
    def put_file(self, key: str, path: Path) -> None:
        """Move a finished local file into the store."""

    @abstractmethod
    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Raises MissingObjectError."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[str]:
        """Keys below a folder-like prefix, sorted. Unfinished objects are never listed."""

    @abstractmethod
    def local_folder(self, prefix: str, cache: Path) -> Path:
        """A local folder that holds all objects below prefix: the store's own, or a copy in cache."""

    @abstractmethod
    def drop_copies(self, cache: Path, keep: Collection[str]) -> None:
        """Delete what local_folder has copied into cache, but for what lies below the prefixes to keep."""

    @abstractmethod
    def size(self, prefix: str) -> int:
        """Bytes of all objects below a prefix."""

    @abstractmethod
    def delete(self, prefix: str) -> None:
        """Delete one object or all below a prefix; nothing there is no error."""

    def sha256(self, key: str) -> str:
        """Of what an object holds, read in pieces: weights are large."""
        found = hashlib.sha256()
        for start in range(0, self.size(key), PIECE_BYTES):
            found.update(self.get(key, start=start, length=PIECE_BYTES))
        return found.hexdigest()


def _checked(key: str) -> str:
    if not key or key.startswith("/") or ".." in key.split("/") or "\0" in key:
        raise StoreError(f"object store: {key!r} is no valid key")
    return key


_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


@contextmanager
def _named(verb: str, key: str) -> Iterator[None]:
    """Whatever the file system or a bucket's client raises is the store's own error, which says what was asked."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # each client has its own
        if verb == "read" and isinstance(error, _ABSENT):
            raise MissingObjectError(key) from error
        raise StoreError(f"object store: cannot {verb} {key!r}: {type(error).__name__}: {error}") from error


class FolderStore(Store):
    """Objects as files of one folder. Whole by write-beside, fsync, link."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self.root / _checked(key)

    def _write_beside(self, target: Path, data: bytes) -> Path:
        _make_folder(target.parent)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        return beside

    def put(self, key: str, data: bytes) -> None:
        target = self._path(key)
        with _named("write", key):
            os.replace(self._write_beside(target, data), target)
            _sync_folder(target.parent)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        target = self._path(key)
        with _named("write", key):
            beside = self._write_beside(target, data)
            try:
                os.link(beside, target)
            except FileExistsError:
                return False
            finally:
                beside.unlink()
            _sync_folder(target.parent)
        return True

    def put_file(self, key: str, path: Path) -> None:
        target = self._path(key)
        with _named("write", key):
            _make_folder(target.parent)
            with path.open("rb") as file:
                os.fsync(file.fileno())
            try:
                os.replace(path, target)
            except OSError:  # another file system
                os.replace(self._copy_beside(target, path), target)
                path.unlink()
            _sync_folder(target.parent)

    def _copy_beside(self, target: Path, path: Path) -> Path:
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            shutil.copyfile(path, beside)
            with beside.open("rb") as file:
                os.fsync(file.fileno())
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        return beside

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        with _named("read", key), self._path(key).open("rb") as file:
            file.seek(start)
            return file.read() if length is None else file.read(length)

    def list(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix.rstrip("/"))
        base = len(os.fspath(self.root)) + 1
        with _named("list", prefix):
            if top.is_file():
                yield prefix.rstrip("/")
                return
            found = [os.path.join(folder, name) for folder, _, names in _walk(top) for name in names]
        yield from sorted(path[base:] for path in found if not path.endswith(".tmp"))

    def local_folder(self, prefix: str, cache: Path) -> Path:
        folder = self._path(prefix.rstrip("/"))
        with _named("read", prefix):
            if not folder.is_dir():
                raise MissingObjectError(prefix)
        return folder

    def drop_copies(self, cache: Path, keep: Collection[str]) -> None:
        """It makes none."""

    def size(self, prefix: str) -> int:
        with _named("read", prefix):
            return sum(self._path(key).stat().st_size for key in self.list(prefix))

    def delete(self, prefix: str) -> None:
        target = self._path(prefix.rstrip("/"))
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)


class BucketStore(Store):
    """Objects in any fsspec file system that writes an object whole, such as S3."""

    def __init__(self, url: str) -> None:
        self.fs, self.root = fsspec.core.url_to_fs(url)

    def _path(self, key: str) -> str:
        return f"{self.root.rstrip('/')}/{_checked(key)}"

    def put(self, key: str, data: bytes) -> None:
        with _named("write", key):
            self.fs.pipe_file(self._path(key), data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with _named("write", key):
            try:
                self.fs.pipe_file(self._path(key), data, mode="create")
            except FileExistsError:
                return False
        return True

    def put_file(self, key: str, path: Path) -> None:
        with _named("write", key):
            self.fs.put_file(str(path), self._path(key))
        path.unlink()

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else start + length
        with _named("read", key):
            return bytes(self.fs.cat_file(self._path(key), start=start, end=end))

    def list(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix.rstrip("/"))
        base = len(self.root.rstrip("/")) + 1
        with _named("list", prefix):
            found = self.fs.find(top)
        yield from sorted(path[base:] for path in found)

    def local_folder(self, prefix: str, cache: Path) -> Path:
        keys = list(self.list(prefix))
        if not keys:
            raise MissingObjectError(prefix)
        for key in keys:
            target = cache / key
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
                with _named("read", key):
                    self.fs.get_file(self._path(key), str(beside))
                os.replace(beside, target)
        return cache / prefix.rstrip("/")

    def drop_copies(self, cache: Path, keep: Collection[str]) -> None:
        kept = [cache / prefix.rstrip("/") for prefix in keep]
        for folder, _, names in os.walk(cache, topdown=False):
            here = Path(folder)
            if any(here.is_relative_to(one) for one in kept):
                continue
            for name in names:
                (here / name).unlink(missing_ok=True)
            if here != cache and not any(here.iterdir()):
                here.rmdir()

    def size(self, prefix: str) -> int:
        with _named("read", prefix):
            return sum(int(self.fs.size(self._path(key))) for key in self.list(prefix))

    def delete(self, prefix: str) -> None:
        with _named("delete", prefix):
            for key in list(self.list(prefix)):
                with suppress(FileNotFoundError):  # another was faster
                    self.fs.rm_file(self._path(key))


def _walk(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As os.walk, which by itself leaves out without a word what it cannot read. What is not there holds nothing."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, _ABSENT):
            raise error

    return os.walk(top, onerror=refuse)


def _make_folder(folder: Path) -> None:
    """With every folder above it, each on disk before anything is said to be in it."""
    missing = [folder, *folder.parents]
    missing = missing[: next(i for i, above in enumerate(missing) if above.is_dir())]
    for made in reversed(missing):
        made.mkdir(exist_ok=True)
        _sync_folder(made.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_store(url: str) -> Store:
    """A folder path or file:// address, or any bucket address that fsspec knows (s3://bucket/prefix)."""
    parsed = urlparse(url)
    if parsed.scheme in ("", "file"):
        return FolderStore(Path(parsed.path))
    return BucketStore(url)
