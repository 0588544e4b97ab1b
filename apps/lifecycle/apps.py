"""Registers the app."""

from django.apps import AppConfig


class LifecycleConfig(AppConfig):
    name = "apps.lifecycle"
