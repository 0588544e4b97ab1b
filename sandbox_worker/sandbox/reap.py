"""Removes what workers left on this host that did not end in order: processes, then their control groups."""

from sandbox_worker.sandbox.cgroups import CgroupTree


def reap(tree: CgroupTree) -> int:
    """The number of boxes removed. Raises CgroupError."""
    removed = 0
    for owner in tree.owners():
        if owner.is_dead():
            for group in tree.groups_of(owner):
                group.kill()
                group.remove()
                removed += 1
            tree.remove_owner(owner)
    return removed
