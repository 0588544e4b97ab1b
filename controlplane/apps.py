"""Registers the control plane's own commands and system checks."""

from django.apps import AppConfig
from django.core.checks import Tags, register

from controlplane.checks import check_exposure


class ControlplaneConfig(AppConfig):
    name = "controlplane"

    def ready(self) -> None:
        register(check_exposure, Tags.security)
