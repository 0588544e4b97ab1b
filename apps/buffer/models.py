"""Graded groups on their way to the learner. Every sampled token of a training try stands in exactly one place."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.buffer import states
from apps.lifecycle.machine import Stateful, one_of, states_constraint
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.trajectories.models import Trajectory


class Batch(Stateful):
    """What one learner step takes."""

    EDGES = states.BATCH_EDGES
    SUBJECT = "batch"

    run = models.ForeignKey(Run, models.CASCADE, related_name="batches")
    kind = models.CharField(max_length=4)
    state = models.CharField(max_length=10, default=states.CUT)
    base_version = models.IntegerField()
    """The learner's version when it was cut."""
    key = models.CharField(max_length=200, blank=True)
    """Of its data in the object store."""
    groups = models.IntegerField()
    flat_groups = models.IntegerField(default=0)
    """Met since the batch before it, and left out."""
    sequences = models.IntegerField()
    tokens = models.BigIntegerField()
    """Trainable ids in it."""
    max_staleness = models.IntegerField(default=0)
    mean_staleness = models.FloatField(default=0.0)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            states_constraint("batch_state", states.BATCH_STATES),
            one_of("batch_kind", "kind", ["sft", "grpo"]),
            # One step at a time: the next one starts from what this one makes.
            models.UniqueConstraint(fields=["run"], name="batch_one_open", condition=Q(state__in=["cut", "handed"])),
        ]

    def __str__(self) -> str:
        return f"{self.kind} batch {self.pk} of run {self.run_id}"

    def keep(self, key: str) -> None:
        """Its data is in the store."""
        self.key = key
        self.save(update_fields=["key"])


class SampleQuerySet(models.QuerySet["Sample"]):
    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def buffered(self) -> Self:
        return self.filter(state=states.BUFFERED)

    def discard(self, reason: str) -> int:
        """Out, each with one reason."""
        return self.update(state=states.DISCARDED, reason=reason)


class Sample(models.Model):
    """The sampled tokens of one recorded attempt of a training try."""

    trajectory = models.OneToOneField(Trajectory, models.CASCADE, related_name="sample", primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="samples")
    group = models.ForeignKey(Group, models.CASCADE, related_name="samples")
    state = models.CharField(max_length=10, default=states.BUFFERED)
    reason = models.CharField(max_length=20, blank=True)
    tokens = models.IntegerField()
    oldest_version = models.IntegerField(null=True, blank=True)
    batch = models.ForeignKey(Batch, models.SET_NULL, null=True, blank=True, related_name="samples")
    staleness = models.IntegerField(null=True, blank=True)
    """Learner version at use minus the oldest version that produced any of its tokens."""

    objects = SampleQuerySet.as_manager()

    class Meta:
        constraints = [
            one_of("sample_state", "state", states.SAMPLE_STATES),
            models.CheckConstraint(
                name="sample_discarded_for_a_reason",
                condition=Q(state="discarded", reason__in=sorted(states.REASONS))
                | (~Q(state="discarded") & Q(reason="")),
            ),
            models.CheckConstraint(
                name="sample_used_in_a_batch", condition=Q(state__in=["buffered", "discarded"]) | Q(batch__isnull=False)
            ),
        ]
        indexes = [models.Index(fields=["run", "state"], name="sample_run_state")]

    def __str__(self) -> str:
        return f"sample of trajectory {self.trajectory_id}"
