"""Registers the app."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "apps.runs"
