"""The API of evaluations, and of a run's progress, which a page can poll where it has no socket."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from apps.evaluation.models import Evaluation
from apps.evaluation.progress import progress
from apps.evaluation.serializers import (
    EvaluationDetailSerializer,
    EvaluationFilters,
    EvaluationSerializer,
    ProgressSerializer,
    SinceFilter,
)
from apps.lifecycle.models import Event
from apps.runs.models import Run


class EvaluationViewSet(viewsets.ReadOnlyModelViewSet[Evaluation]):
    """Measures of policy versions, each rate with its denominator and interval."""

    queryset = Evaluation.objects.none()
    filters = EvaluationFilters
    lookup_value_regex = "[0-9]+"
    newest_first = ("planned_at", "id")

    def get_queryset(self) -> QuerySet[Evaluation]:
        return Evaluation.objects.visible_to(self.request.user)

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return EvaluationSerializer if self.action == "list" else EvaluationDetailSerializer


class RunMetrics(GenericAPIView[Event]):
    queryset = Event.objects.none()
    pagination_class = None
    filters = SinceFilter

    @extend_schema(operation_id="runs_metrics", filters=True, responses=ProgressSerializer)
    def get(self, request: Request, run_id: int) -> Response:
        """Events, learner steps and evaluations since an event, in pages of 500 events."""
        run = get_object_or_404(Run.objects.visible_to(request.user), pk=run_id)
        later = self.filter_queryset(Event.objects.filter(stream=run.stream()))
        asked = SinceFilter(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        since = asked.validated_data.get("seq__gt", 0)
        found: Any = ProgressSerializer(progress(run, later, since)).data
        return Response(found)
