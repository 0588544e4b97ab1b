"""Trajectories and grades. The rows hold what is counted and filtered; the whole record is a line of a segment.

"Recorded" is a fact of this database: a segment in the object store becomes rows once.
"""

from typing import Self

import msgspec
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.lifecycle.machine import one_of
from apps.rollouts.models import Attempt, Rollout
from apps.runs.models import Run
from sandbox_worker.messages import Outcome
from wire.store import Store

ENDINGS = ("submitted", "gave_up", "limit", "stopped_early", "infra")
VERDICTS = ("solved", "unsolved", "none")


class Segment(models.Model):
    """One object of finished outcomes that became rows."""

    key = models.CharField(max_length=200, primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="segments")
    sha256 = models.CharField(max_length=64)
    outcomes = models.IntegerField()
    recorded = models.IntegerField()
    """Of these outcomes; the others were late or repeated."""
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.key


class TrajectoryQuerySet(models.QuerySet["Trajectory"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(run__in=Run.objects.visible_to(user))

    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def with_verdict(self) -> Self:
        """The last attempt of its rollout; every ending but infra."""
        return self.filter(counts=True)

    def sampled(self) -> Self:
        """By a policy: reference traces are scripts."""
        return self.exclude(rollout__group__purpose="reference")


class Trajectory(models.Model):
    """The record of one attempt."""

    attempt = models.OneToOneField(Attempt, models.CASCADE, related_name="trajectory", primary_key=True)
    rollout = models.ForeignKey(Rollout, models.CASCADE, related_name="trajectories")
    run = models.ForeignKey(Run, models.CASCADE, related_name="trajectories")
    segment = models.ForeignKey(Segment, models.CASCADE, related_name="trajectories", db_index=False)
    offset = models.BigIntegerField()
    length = models.IntegerField()
    counts = models.BooleanField()
    """False for an infra failure: no verdict, never a reward."""
    ending_kind = models.CharField(max_length=14)
    ending_detail = models.CharField(max_length=40, blank=True)
    rounds = models.IntegerField()
    prompt_tokens = models.IntegerField()
    sampled_tokens = models.IntegerField()
    oldest_version = models.IntegerField(null=True, blank=True)
    newest_version = models.IntegerField(null=True, blank=True)
    splits = models.IntegerField(default=0)
    waited_seconds = models.FloatField()
    start_seconds = models.FloatField()
    agent_seconds = models.FloatField()
    grade_seconds = models.FloatField()
    sandbox_seconds = models.FloatField()
    boxes_started = models.IntegerField()
    box_failures = models.IntegerField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField()
    recorded_at = models.DateTimeField(default=timezone.now)

    objects = TrajectoryQuerySet.as_manager()

    class Meta:
        constraints = [
            one_of("trajectory_ending", "ending_kind", ENDINGS),
            # A rollout counts once, whatever was sent, repeated or late.
            models.UniqueConstraint(fields=["rollout"], name="trajectory_counts_once", condition=Q(counts=True)),
        ]
        indexes = [models.Index(fields=["run", "counts"], name="trajectory_run")]

    def __str__(self) -> str:
        return f"trajectory {self.pk} of rollout {self.rollout_id}"

    def load(self, store: Store) -> Outcome:
        """The whole record: rounds with ids, outputs, timings. Raises MissingObjectError."""
        data = store.get(self.segment_id, start=self.offset, length=self.length)
        return msgspec.json.decode(data, type=Outcome)


class CommandEnds(models.Model):
    """How the commands of a run's recorded attempts ended, counted as each is recorded."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="command_ends")
    end = models.CharField(max_length=20)
    """As a round says it: exited, timed_out and so on."""
    count = models.BigIntegerField()

    objects = models.Manager["CommandEnds"]()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "end"], name="command_ends_once")]

    def __str__(self) -> str:
        return f"{self.count} {self.end} in run {self.run_id}"


class Grade(models.Model):
    """What the checks said of the final state, in a fresh box."""

    trajectory = models.OneToOneField(Trajectory, models.CASCADE, related_name="grade", primary_key=True)
    verdict = models.CharField(max_length=8)
    score = models.FloatField(null=True, blank=True)
    checks = models.JSONField(default=list)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            one_of("grade_verdict", "verdict", VERDICTS),
            models.CheckConstraint(
                name="grade_score_with_verdict", condition=Q(verdict="none", score=None) | ~Q(verdict="none")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} ({self.score})"
