"""Groups of tries, rollouts, and their attempts.

A fence goes up at each claim; a write under an old fence is refused.
"""

from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.lifecycle.machine import Stateful, states_constraint
from apps.rollouts import states
from apps.runs.models import Run
from apps.tasks.models import TaskVersion

PURPOSES = ("train", "evaluation", "reference", "control")


class GroupQuerySet(models.QuerySet["Group"]):
    def of(self, run: Run) -> Self:
        return self.filter(run=run)


class Group(Stateful):
    """The tries of one task at one time, compared with each other."""

    EDGES = states.GROUP_EDGES
    SUBJECT = "group"

    run = models.ForeignKey(Run, models.CASCADE, related_name="groups")
    task_version = models.ForeignKey(TaskVersion, models.PROTECT, related_name="groups")
    purpose = models.CharField(max_length=12)
    suite = models.CharField(max_length=10, blank=True)
    """Of an evaluation: held-out or unseen."""
    pinned_version = models.IntegerField(null=True, blank=True)
    """Of an evaluation: every try is played by this policy version."""
    script = models.CharField(max_length=12, blank=True)
    """Of reference and control: reference or nothing."""
    size = models.IntegerField()
    state = models.CharField(max_length=12, default=states.OPEN)
    dropped_reason = models.CharField(max_length=40, blank=True)
    refills = models.IntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)

    objects = GroupQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("group_state", states.GROUP_STATES),
            models.CheckConstraint(name="group_purpose", condition=Q(purpose__in=PURPOSES)),
        ]
        indexes = [
            models.Index(fields=["run", "purpose", "state"], name="group_run_purpose"),
            # One evaluation is all groups of its run, version and suite.
            models.Index(
                fields=["run", "pinned_version", "suite"], name="group_evaluation", condition=Q(purpose="evaluation")
            ),
        ]

    def __str__(self) -> str:
        return f"group {self.pk} of run {self.run_id}"

    def drop(self, reason: str) -> bool:
        """Out, with one reason."""
        if not self.move(states.DROPPED, reason=reason):
            return False
        self.dropped_reason = reason
        self.save(update_fields=["dropped_reason"])
        return True


class RolloutQuerySet(models.QuerySet["Rollout"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(run__in=Run.objects.visible_to(user))

    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def in_flight(self) -> Self:
        return self.filter(state__in=states.IN_FLIGHT)

    def done(self) -> Self:
        return self.filter(state__in=states.DONE)

    def undone(self) -> Self:
        return self.exclude(state__in=states.DONE)


class Rollout(Stateful):
    """One try of one policy version at one task."""

    EDGES = states.EDGES
    SUBJECT = "rollout"

    run = models.ForeignKey(Run, models.CASCADE, related_name="rollouts")
    group = models.ForeignKey(Group, models.CASCADE, related_name="rollouts")
    index = models.IntegerField()
    state = models.CharField(max_length=10, default=states.PLANNED)
    attempt = models.IntegerField(default=0)
    """Number of the last attempt; 0 before the first."""
    fence = models.BigIntegerField(default=0)
    deadline = models.DateTimeField(null=True, blank=True)
    incarnation = models.CharField(max_length=40, blank=True)
    """Of the worker that holds it."""
    policy_version = models.IntegerField(null=True, blank=True)
    """That the claim asked for; None for a script."""
    config_revision = models.IntegerField(default=1)
    planned_at = models.DateTimeField(default=timezone.now)
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    parked_reason = models.TextField(blank=True)

    objects = RolloutQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("rollout_state", states.STATES),
            models.UniqueConstraint(fields=["group", "index"], name="rollout_index"),
        ]
        indexes = [
            models.Index(fields=["run", "id"], name="rollout_planned", condition=Q(state="planned")),
            models.Index(
                fields=["run", "deadline"], name="rollout_in_flight", condition=Q(state__in=sorted(states.IN_FLIGHT))
            ),
            models.Index(fields=["run", "-id"], name="rollout_newest"),
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk} of run {self.run_id}"


BROKE_AT_TASK = Q(ending_kind="infra", ending_detail="task")
"""The task could not be played: the fault is in the task itself, neither ours nor the agent's."""
BROKE_ON_US = Q(ending_kind="infra") & ~Q(ending_detail="task") | Q(state=states.ATTEMPT_LOST)


class AttemptQuerySet(models.QuerySet["Attempt"]):
    def of(self, run: Run) -> Self:
        return self.filter(run=run)

    def ended(self) -> Self:
        """By themselves or by our fault, not by a cancel."""
        return self.exclude(state__in=[states.ATTEMPT_ACTIVE, states.ATTEMPT_CANCELLED])

    def playable(self) -> Self:
        """Without those that broke at their task: the infra rate is of these."""
        return self.exclude(BROKE_AT_TASK)


class Attempt(models.Model):
    """One execution of a rollout. Another follows an infra failure only."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="attempts")
    rollout = models.ForeignKey(Rollout, models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    fence = models.BigIntegerField()
    state = models.CharField(max_length=10, default=states.ATTEMPT_ACTIVE)
    policy_version = models.IntegerField(null=True, blank=True)
    incarnation = models.CharField(max_length=40, blank=True)
    claimed_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ending_kind = models.CharField(max_length=20, blank=True)
    ending_detail = models.CharField(max_length=40, blank=True)
    reason = models.TextField(blank=True)
    """Why it was lost or cancelled."""

    objects = AttemptQuerySet.as_manager()

    class Meta:
        constraints = [
            states_constraint("attempt_state", states.ATTEMPT_STATES),
            models.UniqueConstraint(fields=["rollout", "fence"], name="attempt_fence"),
            # At most one execution of a rollout counts at any time.
            models.UniqueConstraint(fields=["rollout"], name="attempt_one_active", condition=Q(state="active")),
        ]
        indexes = [models.Index(fields=["run", "state"], name="attempt_run_state")]

    def __str__(self) -> str:
        return f"attempt {self.number} of rollout {self.rollout_id}"
