"""How a run's commands ended, and what of its attempts broke on us: counts with what they are counts of."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count

from apps.evaluation.statistics.interval import Interval
from apps.evaluation.statistics.proportion import wilson
from apps.rollouts.models import BROKE_AT_TASK, BROKE_ON_US, Attempt, AttemptQuerySet
from apps.rollouts.states import ATTEMPT_LOST
from apps.runs.models import Run
from apps.trajectories.models import CommandEnds

COMMANDS = {
    "exited": ("Ended by themselves", "with whatever exit code"),
    "timed_out": ("Ran out of time", "stopped at the time limit of a command"),
    "signalled": ("Killed by a signal", "their own, not ours"),
    "out_of_memory": ("Ran out of memory", "killed at the limit of their box"),
    "disk_full": ("Filled the disk", "at the quota of their box"),
    "pid_limit": ("Ran out of processes", "at the limit of their box"),
    "output_limit": ("Printed without end", "stopped at the most that one may print"),
    "cancelled": ("Cancelled", "with their attempt"),
    "sandbox_dead": ("Lost their box", "it died under them"),
    "infra": ("Broke on us", "no telling how they would have ended"),
}
LOST = "lost"
BOUNDARIES = {
    "box": ("Box", "it did not start, died or did not answer"),
    "policy": ("Policy server", "it did not answer, or not in words that can be used"),
    "grader": ("Grader", "the fresh box of the grade broke"),
    "worker": ("Worker", "the store, a deadline, or an error of ours"),
    LOST: ("Lost with their worker", "it went away, or their deadline passed"),
}


@dataclass(frozen=True)
class EndLine:
    name: str
    note: str
    count: int
    share: Interval


@dataclass(frozen=True)
class Endings:
    commands: list[EndLine]
    commands_total: int
    broken: list[EndLine]
    """Every boundary, also those at which nothing broke."""
    attempts: int
    """Ended, without those that broke at their task: what the shares of the broken are of."""
    at_task: int

    @property
    def broken_total(self) -> int:
        return sum(line.count for line in self.broken)


def endings(run: Run) -> Endings:
    commands = dict(CommandEnds.objects.filter(run=run).values_list("end", "count"))
    total = sum(commands.values())
    ended = Attempt.objects.of(run).ended()
    attempts = ended.playable().count()
    return Endings(
        commands=[line for line in _lines(COMMANDS, commands, total) if line.count],
        commands_total=total,
        broken=_lines(BOUNDARIES, _broken(ended), attempts),
        attempts=attempts,
        at_task=ended.filter(BROKE_AT_TASK).count(),
    )


def _broken(ended: AttemptQuerySet) -> dict[str, int]:
    """By boundary."""
    rows = ended.playable().filter(BROKE_ON_US).values_list("state", "ending_detail").annotate(n=Count("pk"))
    counted: Counter[str] = Counter()
    for state, detail, many in rows.order_by("state", "ending_detail"):
        counted[LOST if state == ATTEMPT_LOST else detail] += many
    return counted


def _lines(words: dict[str, tuple[str, str]], counted: dict[str, int], total: int) -> list[EndLine]:
    """In the order of the words; what has none, under its own name, last."""
    names = [*words, *sorted(set(counted) - set(words))]
    counts = [(words.get(name, (name, "")), counted.get(name, 0)) for name in names]
    return [EndLine(*said, count, wilson(count, total)) for said, count in counts]
