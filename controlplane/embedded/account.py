"""The account that PostgreSQL runs as. PostgreSQL refuses to be root, so root hands it to a user of its own."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.folders import EmbeddedError

NAME = "pgserver"


@dataclass(frozen=True)
class Account:
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid)

    def can_reach(self, folder: Path) -> bool:
        """Whether it may pass through every folder down to this one, by owner and mode; access lists are not read."""
        return all(self._can_pass(step) for step in (folder, *folder.parents))

    def _can_pass(self, folder: Path) -> bool:
        found = folder.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        return bool(found.st_mode & (0o010 if found.st_gid == self.gid else 0o001))


def postgres_account() -> Account:
    """Ourselves, or, for root, the user that it makes for PostgreSQL on first use."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    return _find() or _make()


def _find() -> Account | None:
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def _make() -> Account:
    command = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if command is None:
        raise EmbeddedError(
            f"PostgreSQL does not run as root, and useradd is missing to make the user {NAME!r} for it. "
            f"Make that user by hand, run as another user than root, or set ASSAY_DATABASE_URL to a server of your own."
        )
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    done = subprocess.run([command, *options, "--shell", "/usr/sbin/nologin", NAME], capture_output=True, text=True)
    made = _find()  # asked again whatever useradd says: another process may have been first
    if made is None:
        raise EmbeddedError(f"The user {NAME!r} for PostgreSQL could not be made: {done.stderr.strip()}")
    return made
