"""Policies: a named model to start from, a weights folder in the object store by digest."""

from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.lifecycle.machine import Stateful, states_constraint
from apps.policies import states


class PolicyQuerySet(models.QuerySet["Policy"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(project__in=Project.objects.visible_to(user))

    def ready(self) -> Self:
        return self.filter(state=states.READY)


class Policy(Stateful):
    """A model to start from; its origin is kept as plain values."""

    EDGES = states.EDGES
    SUBJECT = "policy"

    project = models.ForeignKey(Project, models.PROTECT, related_name="policies")
    name = models.CharField(max_length=120)
    state = models.CharField(max_length=20, default=states.IMPORTING)
    digest = models.CharField(max_length=64, blank=True)
    """SHA-256 of model.safetensors."""
    prefix = models.CharField(max_length=200, blank=True)
    """Of the weights folder in the object store: config.json, model.safetensors, tokenizer files."""
    parameters = models.BigIntegerField(default=0)
    context_tokens = models.IntegerField(default=0)
    origin = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)

    objects = PolicyQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="policy_name"),
            states_constraint("policy_state", states.STATES),
        ]

    def __str__(self) -> str:
        return self.name
