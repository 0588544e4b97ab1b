"""The image of every arm's containers: the host's own Debian files, for lack of a registry, and a peer's server."""

import contextlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker

from benchmarks.boxes import environments

BASE = "assay-benchmark-base:latest"
IMAGE = "assay-benchmark:latest"
_PACKAGES = """
    base-files base-passwd bash coreutils dash debianutils diffutils findutils gawk grep gzip hostname libacl1
    libattr1 libbz2-1.0 libc-bin libc6 libcap2 libcrypt1 libdb5.3 libexpat1 libffi8 libgcc-s1 libgmp10 liblz4-1
    liblzma5 libmpfr6 libncursesw6 libpcre2-8-0 libproc2-0 libpython3.11-minimal libpython3.11-stdlib libreadline8
    libselinux1 libsigsegv2 libsqlite3-0 libssl3 libsystemd0 libtinfo6 libuuid1 libzstd1 mawk media-types procps
    python3-minimal python3.11 python3.11-minimal sed tar util-linux zlib1g
"""
_LEFT_OUT = (
    "/usr/share/doc/",
    "/usr/share/man/",
    "/usr/share/locale/",
    "/usr/share/lintian/",
    "/usr/share/info/",
    "/var/",
)
_FOLDERS = {"tmp": 0o1777, "var/tmp": 0o1777, "proc": 0o755, "sys": 0o755, "dev": 0o755, "root": 0o700, "app": 0o755}
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/bin/awk": "mawk"}
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/app:/bin/bash\n",
    "etc/group": "root:x:0:\nagent:x:1000:\n",
}
_DOCKERFILE = f"""FROM {BASE}
COPY swe-rex /opt/swe-rex
COPY swerex-remote /usr/local/bin/swerex-remote
RUN ldconfig && (python3 -m compileall -q /usr/lib/python3.11 /opt/swe-rex >/dev/null || true) \\
 && mkdir -p /sandbox/.sandbox-venv/bin && ln -s /usr/bin/python3 /sandbox/.sandbox-venv/bin/python \\
 && ln -s /usr/bin/python3 /usr/local/bin/python
WORKDIR /app
"""
"""Compiled, for a read-only container would compile again at each start. The two links are where llm-sandbox looks."""
_SERVER = """#!/usr/bin/python3
import sys
sys.path.insert(0, "/opt/swe-rex")
from swerex.server import main
main()
"""


def build(client: docker.DockerClient) -> str:
    """The image's name. A server that cannot be had is left out: its arm fails for the same reason."""
    import_base(client)
    with tempfile.TemporaryDirectory(prefix="assay-benchmark-image-") as place:
        folder = Path(place)
        (folder / "swe-rex").mkdir()
        with contextlib.suppress(environments.NotInstalledError):
            environments.install_into(folder / "swe-rex", "swe_rex")
        (folder / "swerex-remote").write_text(_SERVER)
        (folder / "swerex-remote").chmod(0o755)
        (folder / "Dockerfile").write_text(_DOCKERFILE)
        client.images.build(path=place, tag=IMAGE, rm=True)
    return IMAGE


def import_base(client: docker.DockerClient) -> None:
    with tempfile.NamedTemporaryFile(prefix="assay-benchmark-image-", suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            paths = {_merged(path): path for path in _files()}
            for name in sorted({str(folder) for path in paths for folder in Path(path).parents} - {"."}):
                _add(tar, name, tarfile.DIRTYPE, mode=0o755)
            for name, mode in _FOLDERS.items():
                _add(tar, name, tarfile.DIRTYPE, mode=mode)
            for name, target in _LINKS.items():
                _add(tar, name, tarfile.SYMTYPE, target=target)
            for name, text in _TEXTS.items():
                _add(tar, name, tarfile.REGTYPE, text=text)
            for name, path in paths.items():
                tar.add(path, arcname=name, recursive=False)
        file.flush()
        repository, _, tag = BASE.partition(":")
        client.api.import_image_from_file(file.name, repository=repository, tag=tag)


def _files() -> list[Path]:
    """Files and links of the packages that this host has. Raises FileNotFoundError where it is no Debian."""
    listed = subprocess.run(["dpkg", "-L", *_PACKAGES.split()], capture_output=True, text=True, check=False).stdout
    paths = {Path(line) for line in listed.splitlines() if line.startswith("/") and not line.startswith(_LEFT_OUT)}
    merged = {Path("/", name) for name in _LINKS}
    return sorted(path for path in paths - merged if path.is_symlink() or path.is_file())


def _merged(path: Path) -> str:
    """Below usr/, as in every Debian of today, where a package still says /bin or /lib."""
    first = path.parts[1]
    return str(path.relative_to("/")) if first == "usr" or first not in _LINKS else f"usr/{path.relative_to('/')}"


def _add(tar: tarfile.TarFile, name: str, kind: bytes, *, mode: int = 0o644, target: str = "", text: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname, info.size = kind, mode, target, len(text)
    tar.addfile(info, io.BytesIO(text.encode()))
