"""Registers the app."""

from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "apps.training"
