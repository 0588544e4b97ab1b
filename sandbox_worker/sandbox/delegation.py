"""Says in exact commands how the user of this process gets control groups on this host."""

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sandbox_worker.sandbox.hierarchies import CONTROLLERS, NEEDED, own_groups, user_folder, v1_mounts, v2_mounts

SYSTEMD = Path("/run/systemd/system")
_WEAKER = "To go on with weaker boxes, allow them explicitly (ASSAY_ALLOW_WEAKER_BOXES=1)."
_CONTAINER = (
    "In a container, run it privileged, or with its own control groups writable (docker run --cgroupns=private)."
)
_CPU_TOO = (
    "If cpu is not among the controllers then, let systemd hand it down first: `sudo mkdir -p"
    " /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo tee"
    " /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload`, then log in again."
)


@dataclass(frozen=True)
class Place:
    """What of control groups there is on a host, and who asks for them."""

    user: str
    uid: int
    v1: dict[str, Path]
    """Where each controller is mounted."""
    v2: list[Path]
    own: dict[str, str]
    """The group of this process by controller; version 2 under the empty name."""
    systemd: bool

    @classmethod
    def here(cls) -> "Place":
        return cls(user_name(), os.geteuid(), v1_mounts(), v2_mounts(), own_groups(), SYSTEMD.is_dir())

    @property
    def words(self) -> str:
        """What was found, for a row of the report."""
        found = [f"version 1 with {', '.join(self.v1)} at {braced(self.v1.values())}"] if self.v1 else []
        found += [f"version 2 at {mount} with {controllers(mount) or 'no controllers'}" for mount in self.v2]
        return "; ".join(found) or "no control groups are mounted"


def mend_groups(place: Place) -> str:
    """The commands that let this user have groups with limits, or where that needs more, what it needs."""
    usable_v2 = [mount for mount in place.v2 if NEEDED.issubset(controllers(mount).split(", "))]
    if place.uid == 0:
        return f"Root can make none: the control groups are mounted read-only, or not at all. {_CONTAINER}"
    if NEEDED.issubset(place.v1):
        return f"Give {place.user} a group in each hierarchy: `{v1_command(place)}`. Then start again."
    if usable_v2 and place.systemd:
        start = "systemd-run --user --scope -p Delegate=yes <the command that starts the worker>"
        return f"As {place.user}, start the worker in a scope of its own: `{start}`. {_CPU_TOO}"
    if usable_v2:
        return f"Give {place.user} a group and start the worker in it: `{v2_command(place, usable_v2[0])}`."
    return f"Run the worker as root, on a host whose control groups have memory and pids. {_CONTAINER}"


def or_weaker(mend: str) -> str:
    """Where boxes are refused, there is this way out too."""
    return f"{mend} {_WEAKER}"


def v1_command(place: Place) -> str:
    """One folder for each mount: cpu and cpuacct often share theirs."""
    mounts = " ".join(sorted({str(mount) for mount in place.v1.values()}))
    folder = user_folder(Path("$top"), place.uid)
    return f"for top in {mounts}; do sudo install -d -o {place.uid} {folder}; done"


def v2_command(place: Place, mount: Path) -> str:
    """A process may only be moved into the group by who may write the groups of both, which is root."""
    folder = user_folder(mount, place.uid)
    hand_down = f"echo +memory +pids +cpu | sudo tee {mount}/cgroup.subtree_control"
    return (
        f"{hand_down} && sudo mkdir -p {folder} && sudo chown -R {place.uid} {folder}"
        f" && echo $$ | sudo tee {folder}/cgroup.procs"
    )


def controllers(mount: Path) -> str:
    """Of those that boxes have limits by, the ones that version 2 has there."""
    try:
        found = (mount / "cgroup.controllers").read_text().split()
    except OSError:
        return ""
    return ", ".join(name for name in CONTROLLERS if name in found)


def braced(folders: Iterable[Path]) -> str:
    """As a shell would take them: /sys/fs/cgroup/{cpu,memory}."""
    each = sorted(set(folders))
    if len(each) == 1:
        return str(each[0])
    common = Path(os.path.commonpath(each))
    return f"{common}/{{{','.join(str(folder.relative_to(common)) for folder in each)}}}"


def user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"the user {os.geteuid()}"
