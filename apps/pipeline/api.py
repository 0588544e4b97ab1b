"""The API of what a run waits for."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.pipeline.waiting import Waiting, waiting
from apps.rollouts.models import Rollout
from apps.runs.models import Run


class WaitingSerializer(serializers.Serializer[Waiting]):
    who = serializers.CharField()
    on = serializers.CharField()
    sentence = serializers.CharField()
    healthy = serializers.BooleanField(help_text="This is as it should be.")
    in_flight = serializers.IntegerField(help_text="Attempts that workers hold.")
    quiesced = serializers.BooleanField(help_text="Nothing is in flight: safe to stop the workers.")


class RunWaiting(APIView):
    @extend_schema(responses=WaitingSerializer, operation_id="runs_waiting")
    def get(self, request: Request, run_id: int) -> Response:
        """Who waits on whom in a run, in one sentence."""
        run = get_object_or_404(Run.objects.visible_to(request.user).select_related("endpoint"), pk=run_id)
        in_flight = Rollout.objects.of(run).in_flight().count()
        found: dict[str, Any] = vars(waiting(run, timezone.now()))
        return Response({**found, "in_flight": in_flight, "quiesced": in_flight == 0})
