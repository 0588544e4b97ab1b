"""The API of exports."""

from typing import Any

from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from apps.exports.lines import export_lines
from apps.rewards.graded import graded
from apps.rewards.serializers import RolloutsOfRunFilters
from apps.rollouts.models import Rollout
from apps.runs.models import Run

MEDIA_TYPE = "application/x-ndjson"


class JsonLinesRenderer(JSONRenderer):
    """Lets a client ask for lines; what is refused is still one JSON value."""

    media_type = MEDIA_TYPE
    format = "ndjson"


class RunExport(GenericAPIView[Any]):
    queryset = Rollout.objects.none()
    pagination_class = None
    filters = RolloutsOfRunFilters
    renderer_classes = (JsonLinesRenderer, JSONRenderer)

    @extend_schema(
        operation_id="runs_export", request=None, filters=True, responses={(200, MEDIA_TYPE): OpenApiTypes.STR}
    )
    def get(self, request: Request, run_id: int) -> StreamingHttpResponse:
        """Every matching rollout of a run with reward and grade, one JSON object a line, oldest first.

        The first line has kind `export`, then one of kind `rollout` each, and at last one of kind `end` with their
        number: without it the export was cut short."""
        run = get_object_or_404(Run.objects.visible_to(request.user), pk=run_id)
        rows = self.filter_queryset(graded(Rollout.objects.of(run)))
        lines = export_lines(run, rows, request.query_params.dict(), timezone.now())
        name = f"assay-run-{run.pk}-rollouts.jsonl"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return StreamingHttpResponse(lines, content_type=MEDIA_TYPE, headers=headers)
