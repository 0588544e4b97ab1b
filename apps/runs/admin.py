"""Runs in the admin: to read and to search."""

from django.contrib import admin

from apps.accounts.read_only_admin import ReadOnly
from apps.runs.models import ConfigRevision, Run


class ConfigRevisionInline(ReadOnly, admin.TabularInline):
    model = ConfigRevision
    fields = ("number", "by", "reason", "at", "config")
    ordering = ("-number",)
    extra = 0


@admin.register(Run)
class RunAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("name", "project", "kind", "state", "task_set", "policy", "policy_version", "created_at")
    list_filter = ("state", "kind", "project")
    list_select_related = ("project", "task_set", "policy")
    search_fields = ("name",)
    ordering = ("-created_at", "-id")
    show_full_result_count = False
    inlines = (ConfigRevisionInline,)
