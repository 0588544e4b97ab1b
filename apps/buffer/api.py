"""The API of a run's ledger."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.buffer.ledger import Ledger, ledger
from apps.runs.models import Run


class LedgerSerializer(serializers.Serializer[Ledger]):
    """Every attempt and every sampled token of a run stands in exactly one place.

    claimed = active + recorded + lost + cancelled, and
    recorded_tokens = evaluation + buffered + handed + trained + discarded tokens."""

    claimed = serializers.IntegerField()
    active = serializers.IntegerField()
    recorded = serializers.IntegerField()
    lost = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    recorded_tokens = serializers.IntegerField()
    evaluation_tokens = serializers.IntegerField()
    buffered_tokens = serializers.IntegerField()
    handed_tokens = serializers.IntegerField()
    trained_tokens = serializers.IntegerField()
    discarded_tokens = serializers.DictField(child=serializers.IntegerField(), help_text="By reason.")
    sft_tokens = serializers.IntegerField(help_text="Of warm-start batches: counted apart.")
    exact = serializers.BooleanField(help_text="The sums agree.")
    problems = serializers.ListField(child=serializers.CharField(), help_text="Which sums do not, and by how much.")


class RunLedger(APIView):
    @extend_schema(responses=LedgerSerializer, operation_id="runs_ledger")
    def get(self, request: Request, run_id: int) -> Response:
        """Where the attempts and the sampled tokens of a run are, as of now."""
        run = get_object_or_404(Run.objects.visible_to(request.user), pk=run_id)
        found: Any = LedgerSerializer(ledger(run)).data
        return Response(found)
