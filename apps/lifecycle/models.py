"""What happened: transitions of single objects, and per-stream numbered events for the live pages."""

from django.db import models
from django.utils import timezone


class Transition(models.Model):
    """One state change of one object."""

    subject = models.CharField(max_length=40)
    subject_id = models.BigIntegerField()
    before = models.CharField(max_length=20)
    after = models.CharField(max_length=20)
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    evidence = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        # The history of one object is read on its page.
        indexes = [models.Index(fields=["subject", "subject_id", "id"], name="transition_subject")]

    def __str__(self) -> str:
        return f"{self.subject} {self.subject_id}: {self.before} to {self.after}"


class Stream(models.Model):
    """The last number given out in one stream of events, such as 'run:12'."""

    name = models.CharField(max_length=80, primary_key=True)
    seq = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} at {self.seq}"


class Event(models.Model):
    """One numbered event of a stream: no gaps, so a reader knows what it missed."""

    stream = models.CharField(max_length=80)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=60)
    text = models.TextField(blank=True)
    payload = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stream", "seq"], name="event_stream_seq")]

    def __str__(self) -> str:
        return f"{self.stream} {self.seq}: {self.kind}"
