"""The bundled base image: a tar of files of the host's own Debian packages, so that no registry is needed.

The same packages give the same bytes: what is in it is sorted, belongs to root, and bears no time.
"""

import os
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from sandbox_worker.sandbox.images.errors import ImageStoreError

PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep", "gzip", "hostname"),
    *("libc-bin", "mawk", "procps", "python3", "sed", "tar", "util-linux"),
)
_NOT_NEEDED = frozenset({"debconf", "dpkg", "init-system-helpers", "perl-base", "tzdata", "media-types", "mailcap"})
"""Only what installs packages depends on them."""
_LEFT_OUT = re.compile(r"/(usr/share/(doc|man|locale|lintian|info|bash-completion|bug|menu|zsh)|var|boot|run|etc)(/|$)")
_MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)/")
_LINKS = {
    "bin": "usr/bin",
    "sbin": "usr/sbin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "usr/bin/awk": "mawk",
    "usr/bin/sh": "dash",
    "usr/bin/python": "python3",
    "etc/os-release": "../usr/lib/os-release",
}
_FOLDERS = ("etc", "proc", "sys", "dev", "root", "home", "opt", "srv", "run", "mnt", "var", "usr/local/bin")
_OPEN_FOLDERS = ("tmp", "var/tmp")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/app:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_MEND = "build it on a Debian host, or bring a base in with manage.py import_image"


def write_base(target: Path, place: Path) -> None:
    """place is an empty folder to work in. Raises ImageStoreError where this host is no Debian."""
    if shutil.which("dpkg-query") is None:
        raise ImageStoreError(f"the base image is made of Debian packages, and this host has no dpkg-query: {_MEND}")
    for path in files_of(closure(PACKAGES)):
        _copy(Path(path), place / _MERGED.sub(r"/usr/\1/", path).lstrip("/"))
    _fill(place)
    _compile(place)
    _pack(place, target)


def closure(wanted: Iterable[str]) -> list[str]:
    """The packages and what they depend on, as far as it is installed."""
    needs = _installed()
    found: set[str] = set()
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name in needs and name not in found and name not in _NOT_NEEDED:
            found.add(name)
            todo += needs[name]
    if missing := [name for name in wanted if name not in found]:
        raise ImageStoreError(f"the base image needs packages that are not installed: apt install {' '.join(missing)}")
    return sorted(found)


def _installed() -> dict[str, list[str]]:
    """By name, the names in what each depends on: of alternatives, all that are installed."""
    lines = _said("dpkg-query", "-W", "-f", "${db:Status-Status}\t${Package}\t${Pre-Depends}, ${Depends}\n")
    rows = [line.split("\t") for line in lines]
    return {row[1]: re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", row[2]) for row in rows if row[0] == "installed"}


def files_of(packages: list[str]) -> list[str]:
    """Files and links, without what a box has no use for."""
    paths = {line for line in _said("dpkg-query", "-L", *packages) if line.startswith("/")}
    kept = [path for path in sorted(paths) if not _LEFT_OUT.match(path)]
    return [path for path in kept if os.path.islink(path) or os.path.isfile(path)]


def _said(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"})
    if done.returncode != 0:
        raise ImageStoreError(f"{command[0]} does not work ({done.stderr.strip()[-500:]}): {_MEND}")
    return done.stdout.splitlines()


def _copy(source: Path, target: Path) -> None:
    if target.is_symlink() or target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644)


def _fill(place: Path) -> None:
    for name in (*_FOLDERS, *_OPEN_FOLDERS):
        (place / name).mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (place / name).write_text(text)
    for name, link in _LINKS.items():
        path = place / name
        if not path.is_symlink() and not path.exists() and (path.parent / link).exists():
            path.symlink_to(link)


def _compile(place: Path) -> None:
    """By the image's own Python, which could not keep it on a read-only root: it would start half as fast."""
    command = ["/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(place)]
    folders = [str(found) for found in sorted((place / "usr/lib").glob("python3*"))]
    subprocess.run([*command, "-p", "/", *folders], env={"PATH": os.defpath, "PYTHONHASHSEED": "0"}, check=False)


def _pack(place: Path, target: Path) -> None:
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(place.rglob("*")):
            member = tar.gettarinfo(path, str(path.relative_to(place)))
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mtime = 0
            if member.isdir():
                member.mode = 0o1777 if member.name in _OPEN_FOLDERS else 0o755
            if member.isreg():
                with path.open("rb") as file:
                    tar.addfile(member, file)
            else:
                tar.addfile(member)
