"""The folder in which the workers of one host meet: locks for the starts of boxes, and a record of whose box is whose.

Nothing in it is needed for a box to start or stop: where it cannot be made or written, its worker does without.
"""

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

STARTS, RECORDS = "starts", "boxes"


def meeting_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """One for the host where this process is root, one for the user where it is not."""
    if named := environment.get("ASSAY_BOXES_FOLDER", ""):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/run/assay/boxes")
    session = environment.get("XDG_RUNTIME_DIR", "")
    if session and os.access(session, os.W_OK):
        return Path(session) / "assay-boxes"
    return Path("/tmp") / f"assay-boxes-{os.geteuid()}"


def is_own(folder: Path) -> bool:
    """There, a folder and no link to one, and this user's: what another has put there is not even read."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def make_meeting_folder(folder: Path) -> Path | None:
    """None, and a line in the log, where there can be none. Its name can be guessed: another user's is not used."""
    try:
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        for part in (folder, folder / STARTS, folder / RECORDS):
            part.mkdir(mode=0o700, exist_ok=True)
            if not is_own(part):
                raise PermissionError(f"{part} belongs to another user")
    except OSError as error:
        log.warning("workers of this host cannot meet in %s (%s): each limits its own starts only", folder, error)
        return None
    return folder
