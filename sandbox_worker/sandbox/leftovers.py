"""What has no live lease on this host, thing by thing: found without changing anything, removed one by one.

The lease of a thing is its owner's life; of what lives in another pid namespace nothing is said.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sandbox_worker.sandbox import reap, register
from sandbox_worker.sandbox.cgroups import CgroupTree
from sandbox_worker.sandbox.images import folder as folders
from sandbox_worker.sandbox.owner import Owner

GROUP, WORKER, RECORD, FOLDER = "control group", "worker's group", "record", "folder"


@dataclass(frozen=True)
class Leftover:
    what: str
    name: str
    owner: str
    """Of the dead worker: pid, start, pid namespace."""
    label: str
    """'<run>.<rollout>.<attempt>' of the box, where that is known."""
    processes: int
    remove: Callable[[], None] = field(compare=False)
    """Raises SandboxError, OSError."""


def left_on_host(trees: Iterable[CgroupTree], meeting: Path, images: Path) -> Iterator[Leftover]:
    """In the order in which they must be removed. meeting: of the records; images: of the host's images."""
    labels = {(found.owner, box.name): box.label for found in register.records(meeting) for box in found.boxes}
    for tree in trees:
        for owner in reap.dead_owners(tree):
            yield from _groups(tree, owner, labels)
    for path in register.dead_records(meeting):
        yield Leftover(RECORD, str(path), path.stem, "", 0, partial(register.remove, path))
    if (images / "tmp").is_dir():
        for path in folders.left_half_made(images):
            yield Leftover(FOLDER, str(path), path.name.partition(".")[0], "", 0, partial(folders.remove, path))


def _groups(tree: CgroupTree, owner: Owner, labels: dict[tuple[Owner, str], str]) -> Iterator[Leftover]:
    for group in list(tree.groups_of(owner)):
        name = group.folders[0].name
        label = labels.get((owner, name)) or name.partition("-")[2]
        yield Leftover(GROUP, name, owner.name, label, len(group.pids()), partial(reap.remove, group))
    yield Leftover(WORKER, owner.name, owner.name, "", 0, partial(tree.remove_owner, owner))
