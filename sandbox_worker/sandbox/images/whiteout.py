"""How overlays and tars say that something of a lower layer is gone, as the kernel and the OCI image format have it."""

import os
import stat
from pathlib import Path

PREFIX = ".wh."
OPAQUE = ".wh..wh..opq"
_XATTR = "user.overlay.opaque"


def is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def is_opaque(folder: int | Path) -> bool:
    """Whether nothing of the same folder in lower layers is seen."""
    try:
        return os.getxattr(folder, _XATTR) == b"y"
    except OSError:
        return False


def make_whiteout(name: str, folder: int) -> None:
    os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)


def make_opaque(folder: int) -> None:
    os.setxattr(folder, _XATTR, b"y")
