"""The API of tasks and task sets."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import APIException
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from apps.accounts.roles import require_role, signed_in
from apps.lifecycle.machine import IllegalMoveError
from apps.tasks import states
from apps.tasks.models import Task, TaskSet, TaskSetEntry, TaskVersion
from apps.tasks.serializers import (
    EntryFilters,
    ReasonSerializer,
    TaskDetailSerializer,
    TaskFilters,
    TaskSerializer,
    TaskSetDetailSerializer,
    TaskSetEntrySerializer,
    TaskSetFilters,
    TaskSetSerializer,
)


class TaskMoveRefusedError(APIException):
    status_code = status.HTTP_409_CONFLICT
    default_code = "illegal_move"


class TaskSetViewSet(viewsets.ReadOnlyModelViewSet[TaskSet]):
    """Immutable versions of named lists of tasks, with splits and families."""

    queryset = TaskSet.objects.none()
    filters = TaskSetFilters
    lookup_value_regex = "[0-9]+"
    newest_first = ("created_at", "id")

    def get_queryset(self) -> QuerySet[TaskSet]:
        return TaskSet.objects.visible_to(self.request.user).counted().select_related("project")

    def get_serializer_class(self) -> type[BaseSerializer[TaskSet]]:
        return TaskSetSerializer if self.action == "list" else TaskSetDetailSerializer


@extend_schema_view(list=extend_schema(parameters=[OpenApiParameter("task_set_id", int, OpenApiParameter.PATH)]))
class TaskSetEntryViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[TaskSetEntry]):
    """The task versions in a task set."""

    queryset = TaskSetEntry.objects.none()
    serializer_class = TaskSetEntrySerializer
    filters = EntryFilters

    def get_queryset(self) -> QuerySet[TaskSetEntry]:
        if "task_set_id" not in self.kwargs:  # the OpenAPI document is made without one
            return self.queryset
        task_set = get_object_or_404(TaskSet.objects.visible_to(self.request.user), pk=self.kwargs["task_set_id"])
        return task_set.entries.select_related("task_version__task")


class TaskViewSet(viewsets.ReadOnlyModelViewSet[Task]):
    """What an agent solves, by name; its content and its trust are in its versions."""

    queryset = Task.objects.none()
    filters = TaskFilters
    lookup_value_regex = "[0-9]+"
    newest_first = ("created_at", "id")

    def get_queryset(self) -> QuerySet[Task]:
        rows = Task.objects.visible_to(self.request.user).select_related("project")
        if self.action == "list":
            return rows.with_newest("number", "digest", "state")
        versions = Prefetch("versions", TaskVersion.objects.order_by("-number"))
        return rows.with_newest("number", "digest", "state", "instruction").prefetch_related(versions)

    def get_serializer_class(self) -> type[BaseSerializer[Task]]:
        return TaskSerializer if self.action == "list" else TaskDetailSerializer

    @extend_schema(request=ReasonSerializer, responses=TaskDetailSerializer)
    @action(detail=True, methods=["post"])
    def quarantine(self, request: Request, pk: str) -> Response:
        """Take the newest version out of use until `manage.py import_tasks` has proven it again. For curators."""
        return self._move_newest(request, states.QUARANTINED)

    @extend_schema(request=ReasonSerializer, responses=TaskDetailSerializer)
    @action(detail=True, methods=["post"])
    def retire(self, request: Request, pk: str) -> Response:
        """Take the newest version out of use for good. For curators."""
        return self._move_newest(request, states.RETIRED)

    def _move_newest(self, request: Request, after: str) -> Response:
        task = self.get_object()
        user = signed_in(request)
        require_role(task.project, user, "curator")
        asked = ReasonSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        version = get_object_or_404(task.versions, number=task.newest_number)  # type: ignore[attr-defined]  # annotated
        if version.state != after:  # asked twice changes nothing
            _move(version, after, actor=user.username, reason=asked.validated_data["reason"])
        return Response(self.get_serializer(self.get_object()).data)


def _move(version: TaskVersion, after: str, **why: Any) -> None:
    try:
        version.move(after, **why)
    except IllegalMoveError as error:
        raise TaskMoveRefusedError(f"{error} Its state is {error.before}.") from error
