"""Workers, leased by incarnation, and the endpoints that serve policies.

A worker whose heartbeat is late gets no new work; one that is silent for long loses its attempts.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec
from django.db import models, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from wire.finding import Finding
from wire.incarnation import Heartbeat

SUSPECT_AFTER = timedelta(seconds=30)
GONE_AFTER = timedelta(seconds=120)

STOPPED, REPLACED, SILENT = "stopped", "replaced by a newer process", "no heartbeat"
REFUSED = "cannot work on this host"
FINAL = frozenset({STOPPED, REPLACED, REFUSED})
"""Such an incarnation does not come back; a silent one may."""


class WorkerQuerySet(models.QuerySet["Worker"]):
    def ready(self, now: datetime) -> Self:
        """Fresh heartbeat, not leaving."""
        return self.filter(gone_at=None, heartbeat_at__gt=now - SUSPECT_AFTER)

    def of_kind(self, kind: str) -> Self:
        return self.filter(kind=kind)

    def present(self) -> Self:
        """Not known dead."""
        return self.filter(gone_at=None)

    def declare_gone(self, now: datetime) -> int:
        """Silent for too long."""
        return self.present().filter(heartbeat_at__lte=now - GONE_AFTER).update(gone_at=now, gone_reason=SILENT)

    def refusing(self) -> Self:
        """They could not work on their host, and it has not been heard of since."""
        since = Worker.objects.filter(kind=OuterRef("kind"), host=OuterRef("host"), sent_at__gt=OuterRef("sent_at"))
        return self.exclude(refused="").filter(~Exists(since))

    def in_slot_of(self, worker: "Worker") -> Self:
        """Other incarnations in the same slot of the same host."""
        return self.filter(kind=worker.kind, host=worker.host, slot=worker.slot).exclude(pk=worker.pk)

    def superseded_by(self, worker: "Worker") -> Self:
        """Older incarnations in the same slot of the same host."""
        return self.present().in_slot_of(worker).filter(started_at__lt=worker.started_at)


class Worker(models.Model):
    """One incarnation of a worker process."""

    incarnation = models.CharField(max_length=40, unique=True)
    kind = models.CharField(max_length=10)
    host = models.CharField(max_length=255)
    slot = models.CharField(max_length=60, default="0")
    pid = models.IntegerField()
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    """When the newest heartbeat came."""
    sent_at = models.DateTimeField(default=timezone.now)
    """When it was sent, by the worker's own clock."""
    gone_at = models.DateTimeField(null=True, blank=True)
    gone_reason = models.CharField(max_length=120, blank=True)
    capacity = models.IntegerField(default=1)
    busy = models.IntegerField(default=0)
    holding = models.JSONField(default=list)
    """'<id>:<fence>' of the attempts (or learner steps) that it had at its last heartbeat."""
    isolation = models.CharField(max_length=255, blank=True)
    weaker = models.TextField(blank=True)
    refused = models.TextField(blank=True)
    """Why it cannot work on its host, and how to mend that."""
    counters = models.JSONField(default=dict)
    warm = models.JSONField(default=dict)
    """Boxes started ahead of demand that wait in it, by their kind in words."""
    trouble = models.TextField(blank=True)
    """Why the last box that should have waited did not start."""
    findings = models.JSONField(default=list)
    """Of its host, the newest that it told: rows of wire.finding."""
    examined_at = models.DateTimeField(null=True, blank=True)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        constraints = [models.CheckConstraint(name="worker_kind", condition=Q(kind__in=["sandbox", "learner"]))]

    def __str__(self) -> str:
        return f"{self.kind} worker {self.incarnation[:8]} on {self.host}"

    @classmethod
    def beat(cls, heartbeat: Heartbeat, now: datetime) -> "Worker":
        """Take one heartbeat, unless a later one came first. A newer incarnation in a slot proves the older dead."""
        values = cls._values(heartbeat, now)
        with transaction.atomic():
            worker, new = cls.objects.select_for_update().get_or_create(
                incarnation=heartbeat.incarnation, defaults=values
            )
            if not new and (worker.gone_reason in FINAL or worker.sent_at >= values["sent_at"]):
                return worker
            for name, value in values.items():
                setattr(worker, name, value)
            if cls.objects.in_slot_of(worker).filter(started_at__gt=worker.started_at).exists():
                worker.gone_at, worker.gone_reason = now, REPLACED
            worker.save()
            cls.objects.superseded_by(worker).update(gone_at=now, gone_reason=REPLACED)
        return worker

    @staticmethod
    def _values(heartbeat: Heartbeat, now: datetime) -> dict[str, Any]:
        values = {
            "kind": heartbeat.kind,
            "host": heartbeat.host,
            "slot": heartbeat.slot,
            "pid": heartbeat.pid,
            "started_at": datetime.fromtimestamp(heartbeat.started_at, UTC),
            "heartbeat_at": now,
            "sent_at": datetime.fromtimestamp(heartbeat.sent_at, UTC),
            "capacity": heartbeat.capacity,
            "busy": heartbeat.busy,
            "holding": list(heartbeat.holding),
            "isolation": heartbeat.isolation,
            "weaker": heartbeat.weaker,
            "refused": heartbeat.refused,
            "counters": heartbeat.counters,
            "warm": heartbeat.warm,
            "trouble": heartbeat.trouble,
            "gone_at": now if heartbeat.leaving else None,
            "gone_reason": (REFUSED if heartbeat.refused else STOPPED) if heartbeat.leaving else "",
        }
        if heartbeat.findings:
            values["findings"] = msgspec.to_builtins(heartbeat.findings)
            values["examined_at"] = datetime.fromtimestamp(heartbeat.examined_at, UTC)
        return values

    @property
    def running(self) -> int:
        """Of what it holds, as many as it has places; the rest waits in it."""
        return min(self.busy, self.capacity)

    @property
    def waiting(self) -> int:
        return self.busy - self.running

    @property
    def spoke_at(self) -> datetime:
        """What it says of itself is not newer than this: a heartbeat may have waited in the queue."""
        return min(self.heartbeat_at, self.sent_at)

    @property
    def host_findings(self) -> list[Finding]:
        return msgspec.convert(self.findings, list[Finding])

    def state(self, now: datetime) -> str:
        """alive, suspect, refused or gone."""
        if self.refused:
            return "refused"
        if self.gone_at is not None:
            return "gone"
        return "alive" if self.heartbeat_at > now - SUSPECT_AFTER else "suspect"


class Endpoint(models.Model):
    """An OpenAI-compatible address that serves policies."""

    name = models.CharField(max_length=80, unique=True)
    url = models.URLField(max_length=300)
    pins_versions = models.BooleanField(default=True)
    healthy = models.BooleanField(default=False)
    checked_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    served = models.JSONField(default=list)
    """Names that it served at the last check."""

    objects = models.Manager["Endpoint"]()

    def __str__(self) -> str:
        return self.name

    def move_to(self, url: str) -> None:
        """The same server at another address."""
        self.url = url
        self.save(update_fields=["url"])

    def note(self, *, healthy: bool, error: str, served: list[str], now: datetime) -> None:
        """Keep what a check found."""
        self.healthy, self.error, self.served, self.checked_at = healthy, error, served, now
        self.save(update_fields=["healthy", "error", "served", "checked_at"])
