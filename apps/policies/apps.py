"""Registers the app."""

from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "apps.policies"
