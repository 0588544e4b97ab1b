"""What a fresh installation needs before anybody signs in: a project, an administrator, the endpoint.

Safe to repeat.
"""

import secrets
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Membership, Project, User
from apps.fleet.models import Endpoint

ADMINISTRATOR = "admin"
EMBEDDED = "embedded"


@dataclass(frozen=True)
class Installation:
    """The default project, and the password of a new administrator, which is not kept."""

    project: Project
    administrator: User
    new_password: str


def prepare_installation() -> Installation:
    """The password is empty if there was an administrator already."""
    with transaction.atomic():
        project = Project.default()
        administrator, password = _administrator()
        Membership.objects.get_or_create(project=project, user=administrator, defaults={"role": "admin"})
        endpoint, _ = Endpoint.objects.get_or_create(name=EMBEDDED, defaults={"url": settings.ASSAY_POLICY_URL})
        if endpoint.url != settings.ASSAY_POLICY_URL:
            endpoint.move_to(settings.ASSAY_POLICY_URL)
    return Installation(project, administrator, password)


def _administrator() -> tuple[User, str]:
    known = User.objects.filter(is_superuser=True).order_by("id").first()
    if known is not None:
        return known, ""
    password = secrets.token_urlsafe(12)
    return User.objects.create_superuser(ADMINISTRATOR, password=password), password
