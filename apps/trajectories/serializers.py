"""Trajectories as the API shows them: what is counted, and the whole record."""

from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.trajectories.models import ENDINGS, VERDICTS, Grade, Trajectory
from apps.trajectories.store import object_store
from wire.store import MissingObjectError


class CheckSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField()
    passed = serializers.BooleanField()
    detail = serializers.CharField()


class GradeSerializer(serializers.ModelSerializer[Grade]):
    verdict = serializers.ChoiceField(VERDICTS, read_only=True)
    checks = CheckSerializer(many=True, read_only=True)

    class Meta:
        model = Grade
        fields = ("verdict", "score", "checks", "error")
        read_only_fields = fields


class TrajectorySerializer(serializers.ModelSerializer[Trajectory]):
    """The record of one attempt."""

    id = serializers.IntegerField(source="pk", read_only=True)
    attempt = serializers.IntegerField(source="attempt.number", read_only=True, help_text="Of the rollout.")
    counts = serializers.BooleanField(read_only=True, help_text="False for an infra failure: never a reward.")
    ending_kind = serializers.ChoiceField(ENDINGS, read_only=True)
    verdict = serializers.ChoiceField(VERDICTS, source="grade.verdict", read_only=True)
    score = serializers.FloatField(source="grade.score", read_only=True, allow_null=True)

    class Meta:
        model = Trajectory
        fields: tuple[str, ...] = (
            "id", "run", "rollout", "attempt", "counts", "verdict", "score", "ending_kind", "ending_detail", "rounds",
            "prompt_tokens", "sampled_tokens", "oldest_version", "newest_version", "splits", "waited_seconds",
            "start_seconds", "agent_seconds", "grade_seconds", "sandbox_seconds", "boxes_started", "box_failures",
            "started_at", "finished_at", "recorded_at",
        )  # fmt: skip
        read_only_fields = fields


class TrajectoryDetailSerializer(TrajectorySerializer):
    grade = GradeSerializer(read_only=True)
    record = serializers.SerializerMethodField()

    class Meta(TrajectorySerializer.Meta):
        fields = (*TrajectorySerializer.Meta.fields, "grade", "record")
        read_only_fields = fields

    @extend_schema_field(
        {
            "type": ["object", "null"],
            "description": "The worker's whole outcome: rounds with message, action, output, ids, log-probabilities, "
            "phases, use. null: the object store has it no more.",
        }
    )
    def get_record(self, trajectory: Trajectory) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = msgspec.to_builtins(trajectory.load(object_store()))
        except MissingObjectError:
            return None
        return found


class TrajectoryFilters(serializers.Serializer[Any]):
    run = serializers.IntegerField(required=False)
    rollout = serializers.IntegerField(required=False)
    counts = serializers.BooleanField(required=False)
    ending = serializers.ChoiceField(ENDINGS, required=False, source="ending_kind")
    verdict = serializers.ChoiceField(VERDICTS, required=False, source="grade__verdict")
