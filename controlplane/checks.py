"""System checks: settings that work and yet are unwise to serve others with."""

from collections.abc import Sequence

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_exposure(app_configs: Sequence[AppConfig] | None, **_options: object) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    host, _ = settings.ASSAY_WEB_BIND
    if settings.DEBUG:
        found.append(CheckWarning("ASSAY_DEBUG is on: error pages show the settings.", id="assay.W001"))
    if "*" in settings.ALLOWED_HOSTS:
        hint = "List the names that your users type."
        found.append(CheckWarning("ASSAY_ALLOWED_HOSTS allows every name.", hint=hint, id="assay.W002"))
    if host not in LOOPBACK and not settings.SESSION_COOKIE_SECURE:
        hint = "Put a proxy with TLS before it and set ASSAY_HTTPS=1."
        found.append(CheckWarning(f"{host} serves passwords and cookies unencrypted.", hint=hint, id="assay.W003"))
    return found
