"""Removes what workers left on this host that did not end in order: processes, then their control groups."""

from collections.abc import Iterator

from sandbox_worker.sandbox.cgroups import Cgroup, CgroupError, CgroupTree
from sandbox_worker.sandbox.owner import Owner


def reap(tree: CgroupTree) -> int:
    """The number of boxes removed. Raises CgroupError when all is tried, of what could not be."""
    removed, problems = 0, []
    for owner in dead_owners(tree):
        for group in tree.groups_of(owner):
            try:
                remove(group)
                removed += 1
            except (CgroupError, OSError) as error:
                problems.append(str(error))
        if not problems:
            tree.remove_owner(owner)
    if problems:
        raise CgroupError(" ".join(problems))
    return removed


def remove(group: Cgroup) -> None:
    """Its processes die first. Raises CgroupError."""
    group.kill()
    group.remove()


def dead_owners(tree: CgroupTree) -> Iterator[Owner]:
    """Of those that this host can tell: what lives in another pid namespace is not judged."""
    for owner in tree.owners():
        if owner.is_dead():
            yield owner
