"""Removes what workers left on this host that did not end in order: processes, then their control groups."""

from collections.abc import Callable, Iterator
from functools import partial

from sandbox_worker.sandbox.cgroups import Cgroup, CgroupError, CgroupTree
from sandbox_worker.sandbox.owner import Owner


def reap(tree: CgroupTree) -> int:
    """The number of boxes removed. Raises CgroupError when all is tried, of what could not be."""
    removed, problems = 0, []
    for owner in dead_owners(tree):
        steps: list[Callable[[], None]] = [partial(remove, group) for group in tree.groups_of(owner)]
        failed = [why for step in steps if (why := problem_of(step))]
        removed += len(steps) - len(failed)
        if not failed and (why := problem_of(partial(tree.remove_owner, owner))):
            failed.append(why)
        problems += failed
    if problems:
        raise CgroupError(" ".join(problems))
    return removed


def problem_of(step: Callable[[], None]) -> str:
    """Empty where there was none: what stays of one dead worker keeps nothing of another."""
    try:
        step()
    except (CgroupError, OSError) as error:
        return str(error)
    return ""


def remove(group: Cgroup) -> None:
    """Its processes die first. Raises CgroupError."""
    group.kill()
    group.remove()


def dead_owners(tree: CgroupTree) -> Iterator[Owner]:
    """Of those that this host can tell: what lives in another pid namespace is not judged."""
    for owner in tree.owners():
        if owner.is_dead():
            yield owner
