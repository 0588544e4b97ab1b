"""Learner steps, and the live branch of policy versions that they make."""

from datetime import datetime
from typing import Any, Self

import msgspec
from django.db import models
from django.db.models import Q

from apps.buffer.models import Batch
from apps.lifecycle.machine import Stateful, one_of, states_constraint
from apps.runs.models import Run
from apps.training import states
from learner.messages import StepMetrics


class LearnerStepQuerySet(models.QuerySet["LearnerStep"]):
    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def handed(self) -> Self:
        return self.filter(state=states.HANDED)

    def made(self) -> Self:
        """Applied, also where that was rewound since."""
        return self.filter(state__in=[states.APPLIED, states.REWOUND])

    def live(self) -> Self:
        """Applied and on the live branch."""
        return self.filter(state=states.APPLIED)


class LearnerStep(Stateful):
    """One optimiser step on one batch."""

    EDGES = states.EDGES
    SUBJECT = "learner step"

    run = models.ForeignKey(Run, models.CASCADE, related_name="steps")
    batch = models.OneToOneField(Batch, models.CASCADE, related_name="step")
    kind = models.CharField(max_length=4)
    number = models.IntegerField()
    """On its branch, over both kinds, from 1."""
    parent_version = models.IntegerField()
    version = models.IntegerField()
    state = models.CharField(max_length=10, default=states.HANDED)
    config_revision = models.IntegerField(default=1)
    fence = models.BigIntegerField(default=0)
    resumable = models.BooleanField(default=False)
    """Asked for; once applied, whether it is so."""
    handed_at = models.DateTimeField()
    sent_at = models.DateTimeField()
    """Of the newest fence."""
    finished_at = models.DateTimeField(null=True, blank=True)
    waited_seconds = models.FloatField(default=0.0)
    """How long the learner had nothing to do before this step."""
    prefix = models.CharField(max_length=200, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    size_bytes = models.BigIntegerField(default=0)
    metrics = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    """Why it failed; of a handed step, why its newest sending has to be repeated."""
    swept = models.BooleanField(default=False)
    """What sendings that did not count have written is deleted, and the data of its batch."""

    objects = LearnerStepQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("step_state", states.STATES),
            one_of("step_kind", "kind", ["sft", "grpo"]),
            # Never reused, whatever is rewound.
            models.UniqueConstraint(fields=["run", "version"], name="step_version"),
            models.UniqueConstraint(fields=["run"], name="step_one_handed", condition=Q(state="handed")),
        ]
        indexes = [models.Index(fields=["run", "state", "version"], name="step_run")]

    def __str__(self) -> str:
        return f"{self.kind} step {self.number} of run {self.run_id}"

    def parsed_metrics(self) -> StepMetrics | None:
        return msgspec.convert(self.metrics, StepMetrics) if self.metrics else None

    def outcome_key(self) -> str:
        return f"steps/{self.run_id}/{self.pk}-{self.fence}.json"

    def write_prefix(self) -> str:
        return f"checkpoints/{self.run_id}/{self.version}-{self.fence}"

    def left_prefixes(self) -> list[str]:
        """Where sendings of this step that did not count may have left files."""
        tried = (f"checkpoints/{self.run_id}/{self.version}-{fence}" for fence in range(1, self.fence + 1))
        return [prefix for prefix in tried if prefix != self.prefix]

    def send_again(self, now: datetime) -> None:
        """Under a new fence: what the old one writes is not looked at."""
        self.fence += 1
        self.sent_at = now
        self.save(update_fields=["fence", "sent_at"])

    def note_trouble(self, error: str) -> bool:
        """Why the store keeps it from its end for now; False if that was known."""
        if self.error == error:
            return False
        self.error = error
        self.save(update_fields=["error"])
        return True

    def keep_result(
        self,
        *,
        prefix: str,
        digest: str,
        size_bytes: int,
        resumable: bool,
        metrics: dict[str, Any] | None,
        finished_at: datetime,
    ) -> None:
        self.prefix, self.digest, self.size_bytes, self.resumable = prefix, digest, size_bytes, resumable
        self.metrics, self.finished_at, self.error = metrics or {}, finished_at, ""
        self.save(update_fields=["prefix", "digest", "size_bytes", "resumable", "metrics", "finished_at", "error"])

    def keep_error(self, error: str, now: datetime) -> None:
        self.error = error
        self.finished_at = now
        self.save(update_fields=["error", "finished_at"])


def live_versions(run: Run) -> set[int]:
    """The versions of the live branch, 0 included."""
    return {0, *LearnerStep.objects.of(run).live().values_list("version", flat=True)}


def live_steps(run: Run, kind: str) -> int:
    """Steps of a kind on the live branch."""
    return LearnerStep.objects.of(run).live().filter(kind=kind).count()
