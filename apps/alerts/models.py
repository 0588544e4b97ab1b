"""Alerts: one open row a run and kind."""

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.lifecycle.announce import announce
from apps.runs.models import Run


class AlertQuerySet(models.QuerySet["Alert"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(run__in=Run.objects.visible_to(user))

    def open(self) -> Self:
        return self.filter(cleared_at=None)


class Alert(models.Model):
    """Something that a person should look at."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="alerts")
    kind = models.CharField(max_length=40)
    severity = models.CharField(max_length=10, default="warn")
    text = models.TextField()
    raised_at = models.DateTimeField(default=timezone.now)
    cleared_at = models.DateTimeField(null=True, blank=True)

    objects = AlertQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "kind"], name="alert_once_open", condition=Q(cleared_at=None))
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"

    @classmethod
    def close(cls, run: Run, kinds: Iterable[str], now: datetime) -> None:
        """The run has ended: these are over, whatever they said."""
        for kind in kinds:
            cls.settle(run, kind, "", now)

    @classmethod
    def settle(cls, run: Run, kind: str, problem: str, now: datetime, *, severity: str = "warn") -> None:
        """Raise it while there is a problem, clear it when there is none. Safe to repeat."""
        opened = cls.objects.open().filter(run=run, kind=kind).first()
        if problem and opened is None:
            cls.objects.get_or_create(
                run=run, kind=kind, cleared_at=None, defaults={"text": problem, "severity": severity, "raised_at": now}
            )
            announce(run.stream(), "alert.raised", problem, {"kind": kind})
        elif problem and opened is not None and opened.text != problem:
            cls.objects.filter(pk=opened.pk).update(text=problem, severity=severity)
        elif not problem and opened is not None:
            cls.objects.filter(pk=opened.pk).update(cleared_at=now)
            announce(run.stream(), "alert.cleared", opened.text, {"kind": kind})
