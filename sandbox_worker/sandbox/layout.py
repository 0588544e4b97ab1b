"""What a box looks like from inside: the words that tell bubblewrap so."""

import os
from dataclasses import dataclass
from pathlib import Path

from sandbox_worker.sandbox.base import BoxSpec, BoxStartError
from sandbox_worker.sandbox.image_root import ImageRoot

UID = 1000
PYTHON = "/usr/bin/python3"
SCRATCH = ("/tmp", "/logs", "/tests", "/solution")
"""Each as large as the working folder."""
LOGS = ("/logs/verifier", "/logs/agent", "/logs/artifacts")
SHARED_MEMORY = "/dev/shm"
LEASE_SECONDS = 120
"""A box whose worker has not been heard of for so long ends itself."""
_SHARED_MEMORY_BYTES = 8 * 2**20
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
TAKEN = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/dev", "/sys")
"""Where no working folder can be: /usr is the host's."""
_PROGRAMS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec")
TAKEN_OF_IMAGES = (*TAKEN[1:], *(f"/usr/{name}" for name in _PROGRAMS), *(f"/usr/local/{name}" for name in _PROGRAMS))
"""The same for an image that has a /usr of its own: below it only programs are not to be hidden."""
_WHOLE = ("/", "/usr", "/usr/local")

ETC = {
    "/etc/passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:{home}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "/etc/group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost box\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_HOST_ETC = ("/etc/ld.so.cache", "/etc/alternatives")


@dataclass(frozen=True)
class Inherited:
    """Descriptors that bubblewrap and the supervisor find open."""

    channel: int
    program: int
    """Of the supervisor."""
    seccomp: int
    etc: dict[str, int]

    @property
    def program_path(self) -> str:
        """In whichever process has inherited it."""
        return f"/proc/self/fd/{self.program}"

    def all(self) -> tuple[int, ...]:
        return (self.channel, self.program, self.seccomp, *self.etc.values())


def arguments(spec: BoxSpec, inherited: Inherited, root: ImageRoot | None = None) -> list[str]:
    """Raises BoxStartError for a working folder that no box can have."""
    if root and root.writable:
        return building(spec, inherited, root, as_root=root.writable.as_root)
    check_workdir(spec.workdir, TAKEN_OF_IMAGES if root and not root.usr else TAKEN)
    return [
        *isolation(),
        *(image_folders(root) if root else system_folders()),
        *own_folders(spec, inherited),
        *("--seccomp", str(inherited.seccomp)),
        *("--remount-ro", "/dev", "--remount-ro", "/"),  # else both are writable and without a limit
        *(root.sealed() if root else ()),
        *("--chdir", spec.workdir, "--", inherited.program_path),
        *supervisor_words(spec, inherited.channel, inherited.channel),
    ]


def supervisor_words(spec: BoxSpec, reads: int, writes: int) -> list[str]:
    """Its two descriptors, seconds to live, seconds of a lease, the folders with a quota, the folders to make."""
    return [str(reads), str(writes), *lifetime(spec), *quota_folders(spec), "--", *LOGS]


def lifetime(spec: BoxSpec) -> list[str]:
    return [f"{spec.limits.wall_seconds:.3f}", str(LEASE_SECONDS)]


def quota_folders(spec: BoxSpec) -> list[str]:
    return list(dict.fromkeys((spec.workdir, *SCRATCH, SHARED_MEMORY)))


def building(spec: BoxSpec, inherited: Inherited, root: ImageRoot, *, as_root: bool) -> list[str]:
    """A box that writes to its root: into folders of bounded size, of which the builder makes a layer."""
    return [
        *isolation(0 if as_root else UID),
        *image_folders(root),
        *("--seccomp", str(inherited.seccomp), "--remount-ro", "/dev"),
        *("--chdir", "/", "--", inherited.program_path),
        *(str(inherited.channel), str(inherited.channel), *lifetime(spec), "/", "--"),
    ]


def isolation(uid: int = UID) -> list[str]:
    return [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(uid), "--gid", str(uid)),
        *("--new-session", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
        *("--clearenv", "--setenv", "LANG", "C.UTF-8", "--hostname", "box"),
    ]


def system_folders() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            words += ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            words += ("--ro-bind", str(path), str(path))
    return [*words, *host_etc(), *kernel_folders()]


def image_folders(root: ImageRoot) -> list[str]:
    words = root.words()
    if root.usr:
        for path in (Path("/", name) for name in SYSTEM):
            if path.is_dir() and not path.is_symlink():
                words += ("--ro-bind", str(path), str(path))
        words += host_etc()
    return [*words, *kernel_folders()]


def host_etc() -> list[str]:
    return [word for name in _HOST_ETC for word in ("--ro-bind-try", name, name)]


def kernel_folders() -> list[str]:
    return ["--proc", "/proc", "--dev", "/dev", *tmpfs(SHARED_MEMORY, _SHARED_MEMORY_BYTES, mode="1777")]


def own_folders(spec: BoxSpec, inherited: Inherited) -> list[str]:
    size = spec.limits.disk_bytes
    words = tmpfs("/tmp", size, mode="1777")
    for path in SCRATCH[1:]:
        words += tmpfs(path, size)
    if spec.workdir not in SCRATCH:
        words += tmpfs(spec.workdir, size)
    for path, fd in inherited.etc.items():
        words += ("--perms", "0444", "--ro-bind-data", str(fd), path)
    return words


def tmpfs(path: str, size: int, *, mode: str = "0755") -> list[str]:
    return ["--perms", mode, "--size", str(size), "--tmpfs", path]


def check_workdir(path: str, taken: tuple[str, ...] = TAKEN) -> None:
    """Raises BoxStartError."""
    is_plain = path == os.path.normpath(path) and path.startswith("/") and "\0" not in path
    if not is_plain or path in _WHOLE or f"{path}/".startswith(tuple(f"{t}/" for t in taken)):
        raise BoxStartError(f"{path} cannot be the working folder of a box.")


def etc_text(path: str, workdir: str) -> bytes:
    return ETC[path].format(home=workdir).encode()
