"""Registers the app."""

from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "apps.tasks"
