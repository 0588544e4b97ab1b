"""Registers the app."""

from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    name = "apps.checkpoints"
