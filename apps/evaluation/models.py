"""Evaluations: one suite of tasks, tried K times each by one pinned policy version."""

from datetime import datetime
from typing import Any, Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.utils import timezone

from apps.accounts.models import User
from apps.evaluation import states
from apps.lifecycle.machine import Stateful, one_of, states_constraint
from apps.runs.models import Run


class EvaluationQuerySet(models.QuerySet["Evaluation"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(run__in=Run.objects.visible_to(user))

    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def open(self) -> Self:
        return self.filter(state__in=states.OPEN)

    def finished(self) -> Self:
        return self.filter(state=states.FINISHED)


class Evaluation(Stateful):
    """The measure of one policy version on one suite."""

    EDGES = states.EDGES
    SUBJECT = "evaluation"

    run = models.ForeignKey(Run, models.CASCADE, related_name="evaluations")
    version = models.IntegerField()
    suite = models.CharField(max_length=10)
    tries = models.IntegerField()
    """K, for each task."""
    why = models.CharField(max_length=20)
    """first, warm, interim or last."""
    state = models.CharField(max_length=12, default=states.PLANNED)
    planned_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    tasks = models.IntegerField(default=0)
    started = models.IntegerField(default=0)
    """Tries."""
    reached_verdict = models.IntegerField(default=0)
    solved = models.IntegerField(default=0)
    attempts = models.IntegerField(default=0)
    infra = models.IntegerField(default=0)
    """Attempts that we broke."""
    estimate = models.FloatField(null=True, blank=True)
    """Completion of all tries started, each task counting once."""
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    result = models.JSONField(default=dict)
    """by_family, rounds (solved within k), valid, infra: with intervals."""

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("evaluation_state", states.STATES),
            one_of("evaluation_suite", "suite", states.SUITES),
            models.UniqueConstraint(fields=["run", "version", "suite"], name="evaluation_once"),
        ]

    def __str__(self) -> str:
        return f"{self.suite} at version {self.version} of run {self.run_id}"

    def stream(self) -> str:
        return self.run.stream()

    def begin(self, now: datetime) -> bool:
        if not self.move(states.RUNNING):
            return False
        self.started_at = now
        self.save(update_fields=["started_at"])
        return True

    def revive(self, *, tries: int, why: str, planned_at: datetime) -> None:
        """Queue it again after it was superseded."""
        if self.move(states.PLANNED, reason=why):
            self.tries, self.why, self.planned_at = tries, why, planned_at
            self.save(update_fields=["tries", "why", "planned_at"])

    def extend(self, *, tries: int, why: str) -> None:
        """It takes more tries than it was planned with."""
        self.tries, self.why = tries, why
        self.save(update_fields=["tries", "why"])

    def keep_result(self, values: dict[str, Any], now: datetime) -> None:
        """The numbers; after more tries, the new ones."""
        for name, value in values.items():
            setattr(self, name, value)
        self.finished_at = now
        self.save(update_fields=[*values, "finished_at"])
