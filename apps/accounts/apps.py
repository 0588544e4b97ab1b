"""Registers the app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"
