"""Checkpoints: one a run and version; version 0 is the policy itself."""

from typing import Self

from django.db import models
from django.utils import timezone

from apps.checkpoints import states
from apps.lifecycle.machine import Stateful, states_constraint
from apps.runs.models import Run


class CheckpointQuerySet(models.QuerySet["Checkpoint"]):
    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def on_the_way(self) -> Self:
        """No endpoint is known to serve it yet."""
        return self.filter(state__in=[states.WRITTEN, states.PUBLISHING])

    def stored(self) -> Self:
        """Its files are still there."""
        return self.exclude(state__in=[states.RETIRED, states.BROKEN])


class Checkpoint(Stateful):
    """The published weights of a version."""

    EDGES = states.EDGES
    SUBJECT = "checkpoint"

    run = models.ForeignKey(Run, models.CASCADE, related_name="checkpoints")
    version = models.IntegerField()
    parent = models.IntegerField(null=True, blank=True)
    kind = models.CharField(max_length=6)
    """base, sft or grpo: what made it."""
    prefix = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, blank=True)
    size_bytes = models.BigIntegerField(default=0)
    resumable = models.BooleanField(default=False)
    state = models.CharField(max_length=10, default=states.WRITTEN)
    made_at = models.DateTimeField(default=timezone.now)
    live_at = models.DateTimeField(null=True, blank=True)

    objects = CheckpointQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("checkpoint_state", states.STATES),
            models.UniqueConstraint(fields=["run", "version"], name="checkpoint_version"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of run {self.run_id}"

    def note_live(self) -> None:
        """The first time that an endpoint served it."""
        if self.live_at is None:
            self.live_at = timezone.now()
            self.save(update_fields=["live_at"])

    def forget_resume(self, size_bytes: int) -> None:
        """Its optimiser state is deleted; the weights stay."""
        self.resumable = False
        self.size_bytes = size_bytes
        self.save(update_fields=["resumable", "size_bytes"])
