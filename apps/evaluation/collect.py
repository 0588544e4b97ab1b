"""Read the tries of an evaluation from the records, as plain values for the statistics."""

from dataclasses import dataclass
from typing import Literal

from django.db.models import Count, Q

from apps.evaluation.statistics.denominators import EndedTry
from apps.evaluation.statistics.rounds import RoundsTry
from apps.evaluation.statistics.tries import TaskTries, Try, tries_by_task
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.trajectories.models import Grade


@dataclass(frozen=True)
class EvaluationTry:
    """One try of an evaluation, with its last attempt."""

    task: str
    family: str
    round_limit: int
    """Of the task."""
    verdict: str
    stopped_early: bool
    rounds: int
    attempts: int
    broken: int

    @property
    def two_rounds(self) -> bool:
        """The task allows more than one."""
        return self.round_limit > 1

    def ended(self) -> EndedTry:
        return EndedTry(
            task=self.task,
            family=self.family,
            verdict="solved" if self.verdict == "solved" else "unsolved" if self.verdict == "unsolved" else "none",
            attempts=self.attempts,
            broken=self.broken,
        )

    def rounds_try(self) -> RoundsTry:
        end: Literal["solved", "unsolved", "stopped_early", "infra"] = "unsolved"
        if self.verdict == "none":
            end = "infra"
        elif self.verdict == "solved":
            end = "solved"
        elif self.stopped_early:
            end = "stopped_early"
        # A success took a round; what infra ended before its first one was never at risk of one.
        rounds = max(1, self.rounds) if end == "solved" else self.rounds
        return RoundsTry(task=self.task, family=self.family, rounds=rounds, end=end)


def evaluation_tries(run: Run, version: int, suite: str) -> list[EvaluationTry]:
    """Every ended try (recorded, or parked: verdict none), in a fixed order."""
    rollouts = (
        Rollout.objects.of(run)
        .filter(group__purpose="evaluation", group__pinned_version=version, group__suite=suite)
        .filter(state__in=[rollout_states.RECORDED, rollout_states.PARKED])
        .annotate(
            executed=Count("attempts"),
            broken=Count("attempts", filter=Q(attempts__ending_kind="infra") | Q(attempts__state="lost")),
        )
        .select_related("group__task_version__task")
        .order_by("id")
    )
    grades = {
        grade.trajectory.rollout_id: grade
        for grade in Grade.objects.filter(
            trajectory__counts=True,
            trajectory__rollout__group__purpose="evaluation",
            trajectory__rollout__group__pinned_version=version,
            trajectory__rollout__group__suite=suite,
            trajectory__run=run,
        ).select_related("trajectory")
    }
    return [_try(rollout, grades.get(rollout.pk)) for rollout in rollouts]


def _try(rollout: Rollout, grade: Grade | None) -> EvaluationTry:
    task = rollout.group.task_version
    return EvaluationTry(
        task=f"{task.task.name}@{task.number}",
        family=task.task.family,
        round_limit=task.round_limit,
        verdict=grade.verdict if grade else "none",
        stopped_early=grade is not None and grade.trajectory.ending_kind == "stopped_early",
        rounds=grade.trajectory.rounds if grade else 0,
        attempts=rollout.executed,  # type: ignore[attr-defined]  # annotated above
        broken=rollout.broken,  # type: ignore[attr-defined]
    )


def by_task(tries: list[EvaluationTry]) -> tuple[TaskTries, ...]:
    """Completion of all tries started, per task: 1 where solved, else 0."""
    return tries_by_task(Try(one.task, one.family, float(one.verdict == "solved")) for one in tries)
