"""Registers the app."""

from django.apps import AppConfig


class DifficultyConfig(AppConfig):
    name = "apps.difficulty"
