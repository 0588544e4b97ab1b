"""Users, and projects as the boundary of visibility: what a user may see hangs off a project that he belongs to."""

import hashlib
import hmac
import secrets
from datetime import datetime
from typing import Self

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

ROLES = ("viewer", "operator", "curator", "admin")
DEFAULT_PROJECT = "default"


class User(AbstractUser):
    """A person who signs in."""


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        if not user.is_authenticated:
            return self.none()
        return self if user.is_superuser else self.filter(memberships__user=user)


class Project(models.Model):
    """The boundary of visibility."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(default=timezone.now)

    objects = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def default(cls) -> "Project":
        return cls.objects.get_or_create(slug=DEFAULT_PROJECT, defaults={"name": "Default"})[0]

    def role_of(self, user: User | AnonymousUser) -> str:
        """The user's role here; empty for a stranger."""
        if not user.is_authenticated:
            return ""
        if user.is_superuser:
            return "admin"
        membership = self.memberships.filter(user=user).first()
        return membership.role if membership else ""

    def allows(self, user: User | AnonymousUser, role: str) -> bool:
        """True if the user has at least this role here."""
        held = self.role_of(user)
        return bool(held) and ROLES.index(held) >= ROLES.index(role)


class Membership(models.Model):
    """A user's role in a project."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=[(role, role) for role in ROLES], default="viewer")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="membership_once"),
            models.CheckConstraint(name="membership_role", condition=Q(role__in=ROLES)),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


class ApiToken(models.Model):
    """A key to the API. Only a keyed digest is stored; the secret is shown once."""

    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    key_id = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.key_id})"

    @classmethod
    def issue(cls, user: User, name: str, expires_at: datetime | None = None) -> tuple["ApiToken", str]:
        """A new token and its whole text, 'assay_<key id>.<secret>', which is not kept."""
        key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = cls.objects.create(user=user, name=name, key_id=key_id, digest=_digest(secret), expires_at=expires_at)
        return token, f"assay_{key_id}.{secret}"

    @classmethod
    def find(cls, text: str, now: datetime) -> "ApiToken | None":
        """The live token that this text is, or None."""
        key_id, _, secret = text.removeprefix("assay_").partition(".")
        token = cls.objects.select_related("user").filter(key_id=key_id, revoked_at=None, user__is_active=True).first()
        if token is None or not hmac.compare_digest(token.digest, _digest(secret)):
            return None
        if token.expires_at is not None and token.expires_at <= now:
            return None
        return token

    def revoke(self, now: datetime) -> None:
        self.revoked_at = now
        self.save(update_fields=["revoked_at"])

    def touch(self, now: datetime) -> None:
        """Note the use, at most once a minute."""
        if self.last_used_at is None or (now - self.last_used_at).total_seconds() > 60:
            type(self).objects.filter(pk=self.pk).update(last_used_at=now)


def _digest(secret: str) -> str:
    return hmac.new(settings.SECRET_KEY.encode(), secret.encode(), hashlib.sha256).hexdigest()
