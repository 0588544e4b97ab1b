"""Policies in the admin: to read and to search."""

from django.contrib import admin

from apps.accounts.read_only_admin import ReadOnly
from apps.policies.models import Policy


@admin.register(Policy)
class PolicyAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("name", "project", "state", "parameters", "digest", "created_at")
    list_filter = ("state", "project")
    list_select_related = ("project",)
    search_fields = ("name", "digest")
    ordering = ("-created_at", "-id")
