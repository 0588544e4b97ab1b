"""Runs and their chains of config revisions.

Task set, policy and reward formula never change within a run; a policy version is never reused.
"""

from datetime import datetime
from typing import Self

import msgspec
from django.contrib.auth.models import AnonymousUser
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.fleet.models import Endpoint
from apps.lifecycle.announce import announce, run_stream
from apps.lifecycle.machine import Stateful, states_constraint
from apps.lifecycle.models import Event
from apps.policies.models import Policy
from apps.runs import states
from apps.runs.config import RunConfig
from apps.tasks.models import TaskSet

KINDS = ("training", "evaluation", "admission")
TRAINING_ENDED = "run.training_ended"


class RunQuerySet(models.QuerySet["Run"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(project__in=Project.objects.visible_to(user))

    def active(self) -> Self:
        return self.filter(state__in=states.ACTIVE)

    def dispatching(self) -> Self:
        return self.filter(state__in=states.DISPATCHING)

    def of_kind(self, *kinds: str) -> Self:
        return self.filter(kind__in=kinds)


class Run(Stateful):
    """One evaluation or training of one policy on one task set."""

    EDGES = states.EDGES
    SUBJECT = "run"

    project = models.ForeignKey(Project, models.PROTECT, related_name="runs")
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=20, choices=[(kind, kind) for kind in KINDS])
    task_set = models.ForeignKey(TaskSet, models.PROTECT, related_name="runs")
    policy = models.ForeignKey(Policy, models.PROTECT, related_name="runs", null=True, blank=True)
    """None for a run of scripts alone."""
    endpoint = models.ForeignKey(Endpoint, models.PROTECT, related_name="runs", null=True, blank=True)
    formula = models.CharField(max_length=60)
    state = models.CharField(max_length=20, default=states.DRAFT)
    failure = models.TextField(blank=True)
    """Why it failed, in words."""
    policy_version = models.IntegerField(default=0)
    """The newest version of the live branch."""
    last_version = models.IntegerField(default=0)
    """The highest version ever given out."""
    training_ended = models.TextField(blank=True)
    """Why no more learner steps are made: steps, a budget, or the user; empty while they are."""
    idempotency_key = models.CharField(max_length=120, blank=True)
    request_digest = models.CharField(max_length=64, blank=True)
    """SHA-256 of what was asked with the idempotency key."""
    replayed = False
    """True on the object that a repeated launch gets; not stored."""
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True, related_name="runs")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("run_state", states.STATES),
            models.CheckConstraint(name="run_kind", condition=Q(kind__in=KINDS)),
            models.UniqueConstraint(
                fields=["created_by", "idempotency_key"], name="run_once", condition=~Q(idempotency_key="")
            ),
        ]
        indexes = [
            # The pipeline asks for these every second.
            models.Index(fields=["id"], name="run_active", condition=Q(state__in=sorted(states.ACTIVE))),
        ]

    def __str__(self) -> str:
        return self.name

    def stream(self) -> str:
        return run_stream(self.pk)

    @property
    def revision(self) -> "ConfigRevision":
        """The newest config revision."""
        found = self.revisions.order_by("-number").first()
        if found is None:
            raise ConfigRevision.DoesNotExist(f"run {self.pk} has no config revision")
        return found

    @property
    def config(self) -> RunConfig:
        return self.revision.parsed()

    @property
    def dispatching(self) -> bool:
        return self.state in states.DISPATCHING

    @property
    def ended(self) -> bool:
        return self.state in states.ENDED

    def served_name(self, version: int) -> str:
        return f"{self.pk}@{version}"

    def revise(self, config: RunConfig, *, by: str, reason: str) -> "ConfigRevision":
        """Append a config revision."""
        last = self.revisions.aggregate(n=models.Max("number"))["n"] or 0
        revision = ConfigRevision.objects.create(
            run=self, number=last + 1, config=msgspec.to_builtins(config), by=by, reason=reason
        )
        if last:
            announce(self.stream(), "run.revised", reason, {"number": revision.number, "by": by})
        return revision

    def begin(self, now: datetime) -> bool:
        """From the queue to running."""
        with transaction.atomic():
            if not self.move(states.RUNNING):
                return False
            self.started_at = self.started_at or now
            self.save(update_fields=["started_at"])
        return True

    def end(self, after: str, now: datetime, *, actor: str = "assay", reason: str = "") -> bool:
        """To finished, failed or cancelled, with the time."""
        with transaction.atomic():
            if not self.move(after, actor=actor, reason=reason):
                return False
            self.finished_at = now
            self.failure = reason if after == states.FAILED else ""
            self.save(update_fields=["finished_at", "failure"])
        return True

    def next_version(self) -> int:
        """Give out a version number that was never used in this run."""
        type(self).objects.filter(pk=self.pk).update(last_version=models.F("last_version") + 1)
        self.refresh_from_db(fields=["last_version"])
        return self.last_version

    def take_version(self, version: int) -> None:
        """Make this version the newest of the live branch, after a step or a rewind."""
        self.policy_version = version
        self.save(update_fields=["policy_version"])

    def end_training(self, reason: str) -> None:
        """No more learner steps; what is in flight is finished."""
        if not self.training_ended:
            self.training_ended = reason
            self.save(update_fields=["training_ended"])
            announce(self.stream(), TRAINING_ENDED, reason)

    @property
    def training_ended_at(self) -> datetime | None:
        return Event.objects.filter(stream=self.stream(), kind=TRAINING_ENDED).values_list("at", flat=True).first()


class ConfigRevision(models.Model):
    """One immutable config of a run."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="revisions")
    number = models.IntegerField()
    config = models.JSONField()
    by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="config_revision_number")]

    def __str__(self) -> str:
        return f"{self.run} revision {self.number}"

    def parsed(self) -> RunConfig:
        return msgspec.convert(self.config, RunConfig)
