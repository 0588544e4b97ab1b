"""Policies that a user may see, and what each came from."""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.db.models import Count

from apps.accounts.models import User
from apps.dashboard.badges import POLICIES, Badge, badge
from apps.policies.models import Policy


@dataclass(frozen=True)
class PolicyRow:
    policy: Policy
    badge: Badge
    runs: int
    origin: str


def policies(user: User | AnonymousUser) -> list[PolicyRow]:
    rows = Policy.objects.visible_to(user).order_by("-created_at", "-id")
    runs = dict(rows.values_list("pk").annotate(n=Count("runs")))
    return [PolicyRow(row, badge(POLICIES, row.state), runs.get(row.pk, 0), _origin(row)) for row in rows]


def _origin(policy: Policy) -> str:
    """The plain values that it keeps, as one line."""
    return ", ".join(f"{key} {value}" for key, value in policy.origin.items() if isinstance(value, (str, int, float)))
