"""The base named assay/base on bubblewrap: the programs of the host, seen as they are in a box without an image."""

import hashlib
import os
import platform
from pathlib import Path

from sandbox_worker.sandbox import layout

_PACKAGES = Path("/var/lib/dpkg/status")
_MACHINE_ID = Path("/etc/machine-id")
_OPEN_TO_ALL = 0o1777
FOLDERS = ("etc", "usr", "proc", "dev", "tmp", "var", "var/tmp", "opt", "srv", "root", "home", "run", "mnt", "logs")
_WRITABLE = ("tmp", "var/tmp")


def digest() -> str:
    """The same for hosts that have the same packages; a host of which none can tell shares with nobody."""
    known = _PACKAGES if _PACKAGES.exists() else _MACHINE_ID
    content = known.read_bytes() if known.exists() else os.uname().nodename.encode()
    return f"host:{platform.machine()}:{hashlib.sha256(content).hexdigest()}"


def fill(folder: Path) -> None:
    """The lowest layer: what is not below /usr."""
    fill_plain(folder)
    for name in layout.SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            (folder / name).symlink_to(path.readlink())
        elif path.is_dir():
            (folder / name).mkdir()
    for path_name in layout.ETC:
        (folder / path_name.lstrip("/")).write_bytes(layout.etc_text(path_name, "/root"))
    (folder / "etc/alternatives").mkdir()
    (folder / "etc/ld.so.cache").touch()


def fill_plain(folder: Path) -> None:
    """Places to mount on, for a base that may lack them."""
    for name in FOLDERS:
        (folder / name).mkdir(mode=0o755, exist_ok=True)
    for name in _WRITABLE:
        (folder / name).chmod(_OPEN_TO_ALL)


def copy_folders(target: Path) -> None:
    """The folders below /usr, without their files: a build may not change the host's, but write beside its files."""
    for top, _, _ in os.walk("/usr"):
        (target / os.path.relpath(top, "/usr")).mkdir(mode=0o755, parents=True, exist_ok=True)
