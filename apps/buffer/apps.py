"""Registers the app."""

from django.apps import AppConfig


class BufferConfig(AppConfig):
    name = "apps.buffer"
