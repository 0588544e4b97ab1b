"""Tasks and task sets in the admin, to read and to search: sets are immutable, states move by their verbs."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.accounts.read_only_admin import ReadOnly
from apps.tasks.models import Task, TaskSet, TaskSetEntry, TaskVersion


class TaskVersionInline(ReadOnly, admin.TabularInline):
    model = TaskVersion
    fields = ("number", "state", "digest", "round_limit", "created_at")
    ordering = ("-number",)
    extra = 0


@admin.register(Task)
class TaskAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("name", "family", "project", "created_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    search_fields = ("name", "family")
    ordering = ("-created_at", "-id")
    show_full_result_count = False
    inlines = (TaskVersionInline,)


@admin.register(TaskVersion)
class TaskVersionAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("__str__", "state", "digest", "created_at")
    list_filter = ("state",)
    list_select_related = ("task",)
    search_fields = ("task__name", "digest")
    ordering = ("-created_at", "-id")
    show_full_result_count = False


class TaskSetEntryInline(ReadOnly, admin.TabularInline):
    model = TaskSetEntry
    fields = ("task_version", "split", "family")
    ordering = ("id",)
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[TaskSetEntry]:
        return super().get_queryset(request).select_related("task_version__task", "task_set")


@admin.register(TaskSet)
class TaskSetAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ("__str__", "project", "created_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    search_fields = ("name",)
    ordering = ("-created_at", "-id")
    inlines = (TaskSetEntryInline,)
