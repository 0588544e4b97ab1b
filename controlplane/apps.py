"""Registers the control plane's own commands and system checks."""

from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    name = "controlplane"
