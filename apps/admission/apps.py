"""Registers the app."""

from django.apps import AppConfig


class AdmissionConfig(AppConfig):
    name = "apps.admission"
