"""Registers the app."""

from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "apps.evaluation"
