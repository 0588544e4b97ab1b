"""Where the embedded servers keep their sockets: a pure function of the data folder.

So every program that knows ASSAY_DATA finds them, and a socket's path stays under the kernel's 107 bytes.
"""

import hashlib
import os
import stat
from pathlib import Path

DATABASE = "assay"


class EmbeddedError(Exception):
    """An embedded server cannot be used; says why and what to do."""


def run_folder(data: Path) -> Path:
    """Below /run for root, else below the user's own run folder, else below /tmp."""
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:10]
    if os.geteuid() == 0:
        return Path("/run/assay") / name
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if session and len(os.fsencode(session)) < 60 and os.access(session, os.W_OK):
        return Path(session) / f"assay-{name}"
    return Path("/tmp") / f"assay-{os.geteuid()}-{name}"


def postgres_sockets(data: Path) -> Path:
    return run_folder(data) / "pg"


def valkey_socket(data: Path) -> Path:
    return run_folder(data) / "valkey.sock"


def database_url(data: Path) -> str:
    return f"postgresql:///{DATABASE}?host={postgres_sockets(data)}&user={DATABASE}"


def broker_url(data: Path) -> str:
    return f"redis+socket://{valkey_socket(data)}?virtual_host=0"


def channels_url(data: Path) -> str:
    return f"unix://{valkey_socket(data)}?db=1"


def make_run_folder(data: Path) -> Path:
    """Only its owner can list or write it. The name can be guessed, so one that somebody else made is refused."""
    folder = run_folder(data)
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.mkdir(mode=0o711, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EmbeddedError(f"{folder} belongs to another user. Remove it, or set ASSAY_DATA to another folder.")
    folder.chmod(0o711)
    return folder
