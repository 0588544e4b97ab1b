"""The API of runs: look, start, and the verbs of control."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from apps.accounts.roles import require_role, signed_in
from apps.fleet.models import Endpoint
from apps.runs import control
from apps.runs.config import ConfigError, parse_config
from apps.runs.control import ControlError
from apps.runs.launch import KeyReusedError, LaunchError, launch_run
from apps.runs.models import ConfigRevision, Run
from apps.runs.presets import PRESETS
from apps.runs.refusals import refusal_of
from apps.runs.serializers import (
    ControlledSerializer,
    LaunchSerializer,
    PresetSerializer,
    RunDetailSerializer,
    RunFilters,
    RunSerializer,
    VerbSerializer,
)

KEY_HEADER = "Idempotency-Key"
KEY_LENGTH = 120
KEY_PARAMETER = OpenApiParameter(
    KEY_HEADER,
    str,
    OpenApiParameter.HEADER,
    description=f"Up to {KEY_LENGTH} characters, yours alone. The same key and body get the same run again.",
)
Verb = Callable[[Run, str, str], bool]


class RunViewSet(viewsets.ReadOnlyModelViewSet[Run]):
    """Evaluations and trainings of one policy on one task set."""

    queryset = Run.objects.none()
    parser_classes = (JSONParser,)
    filters = RunFilters
    lookup_value_regex = "[0-9]+"
    newest_first = ("created_at", "id")

    def get_queryset(self) -> QuerySet[Run]:
        rows = Run.objects.visible_to(self.request.user)
        rows = rows.select_related("project", "task_set", "policy", "created_by")
        if self.action == "list":
            return rows
        return rows.prefetch_related(Prefetch("revisions", ConfigRevision.objects.order_by("number")))

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return RunSerializer if self.action == "list" else RunDetailSerializer

    @extend_schema(
        request=LaunchSerializer,
        parameters=[KEY_PARAMETER],
        responses={
            201: RunDetailSerializer,
            409: OpenApiResponse(description="Problem: the run cannot do this in its state."),
            422: OpenApiResponse(description="Problem: a field cannot be used, or the key was used with another body."),
        },
    )
    def create(self, request: Request) -> Response:
        """Start a run. For operators of the task set's project."""
        asked = LaunchSerializer(data=request.data, context=self.get_serializer_context())
        asked.is_valid(raise_exception=True)
        require_role(asked.validated_data["task_set"].project, signed_in(request), "operator")
        try:
            run = _launch(request, asked.validated_data)
        except (LaunchError, ConfigError, KeyReusedError) as error:
            raise refusal_of(error) from error
        shown = RunDetailSerializer(self.get_queryset().get(pk=run.pk)).data
        headers = {"Location": request.build_absolute_uri(f"{request.path}/{run.pk}")}
        if run.replayed:
            headers["Idempotent-Replayed"] = "true"
        return Response(shown, status.HTTP_201_CREATED, headers=headers)

    @extend_schema(request=VerbSerializer, responses=ControlledSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Stop dispatch; what is in flight finishes. For operators."""
        return self._obey(request, control.pause)

    @extend_schema(request=VerbSerializer, responses=ControlledSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Dispatch again. For operators."""
        return self._obey(request, control.resume)

    @extend_schema(request=VerbSerializer, responses=ControlledSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Tear down what is in flight; finished rollouts and checkpoints stay. For operators."""
        return self._obey(request, control.cancel)

    def _obey(self, request: Request, verb: Verb) -> Response:
        run = self.get_object()
        user = signed_in(request)
        require_role(run.project, user, "operator")
        asked = VerbSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        try:
            changed = verb(run, user.username, asked.validated_data["reason"])
        except ControlError as error:
            raise refusal_of(error) from error
        return Response({"changed": changed, "run": RunSerializer(run).data})


class PresetViewSet(viewsets.ViewSet):
    """Named starting points for a run's config."""

    pagination_class = None

    @extend_schema(responses=PresetSerializer(many=True))
    def list(self, request: Request) -> Response:
        return Response(PresetSerializer(PRESETS.values(), many=True).data)


def _launch(request: Request, asked: dict[str, Any]) -> Run:
    preset = PRESETS[asked["preset"]]
    task_set, policy = asked["task_set"], asked["policy"]
    return launch_run(
        task_set.project,
        signed_in(request),
        asked["name"],
        task_set,
        policy,
        parse_config({**msgspec.to_builtins(preset.config), **asked["config"]}),
        kind=preset.kind,
        formula=preset.formula,
        endpoint=_endpoint(asked.get("endpoint")),
        idempotency_key=_key(request),
        request_digest=_digest(request.data),
    )


def _endpoint(name: str | None) -> Endpoint | None:
    """None: it was not asked for one."""
    if name is None:
        return None
    endpoint = Endpoint.objects.filter(name=name).first()
    if endpoint is None:
        known = ", ".join(Endpoint.objects.order_by("name").values_list("name", flat=True)) or "none"
        raise LaunchError("endpoint", name, f"There is no policy endpoint of this name. Known: {known}.")
    return endpoint


def _key(request: Request) -> str:
    key = request.headers.get(KEY_HEADER, "")
    if len(key) > KEY_LENGTH:
        raise ValidationError({"non_field_errors": f"{KEY_HEADER} has more than {KEY_LENGTH} characters."})
    return key


def _digest(body: Any) -> str:
    """The same for the same JSON value, however it was written."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
