"""A place of bounded size in a mount namespace of one's own: gone with the process, whatever happens to it.

Call it in a process that has one thread and ends soon: there is no way back.
"""

import ctypes
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MOST_FILES = 200_000
_MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV = 1 << 14, 1 << 18, 2, 4


def enter() -> None:
    """From here on this process mounts for itself alone. Raises OSError."""
    if os.geteuid() == 0:
        _call("unshare", _CLONE_NEWNS)
    else:
        _become_owner_of_a_namespace()
    _mount(b"none", Path("/"), None, _MS_REC | _MS_PRIVATE, b"")


def mount_room(place: Path, size: int) -> None:
    """An empty file system over a folder, as large as that. Raises OSError."""
    _mount(b"tmpfs", place, b"tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},nr_inodes={_MOST_FILES},mode=0711".encode())


def _become_owner_of_a_namespace() -> None:
    """The same user as before, who may mount in it."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount(source: bytes, target: Path, kind: bytes | None, flags: int, options: bytes) -> None:
    _call("mount", source, os.fsencode(target), kind, ctypes.c_ulong(flags), options)


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
