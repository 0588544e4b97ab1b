"""Evaluations, learner steps and events as the API shows them."""

from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.evaluation.models import Evaluation
from apps.evaluation.progress import Progress
from apps.evaluation.states import STATES, SUITES
from apps.lifecycle.models import Event
from apps.runs.states import STATES as RUN_STATES
from apps.training.models import LearnerStep
from apps.training.states import STATES as STEP_STATES
from learner.messages import StepMetrics

METRICS_SCHEMA = msgspec.json.schema(StepMetrics)["$defs"]["StepMetrics"]


class CompletionSerializer(serializers.Serializer[Evaluation]):
    """Of all tries started, a try that infra broke for good among them, unsolved; each task counts once."""

    solved = serializers.IntegerField(help_text="Tries.")
    started = serializers.IntegerField(help_text="Tries: the denominator.")
    reached_verdict = serializers.IntegerField(help_text="Tries: the denominator of the second rate.")
    tasks = serializers.IntegerField()
    estimate = serializers.FloatField(allow_null=True, help_text="null: not defined yet.")
    low = serializers.FloatField(allow_null=True, help_text="Of the 95 % interval, clustered by family.")
    high = serializers.FloatField(allow_null=True)


class InfraSerializer(serializers.Serializer[Evaluation]):
    """Attempts that we broke, of all attempts."""

    broken = serializers.IntegerField(source="infra")
    attempts = serializers.IntegerField()


class EvaluationSerializer(serializers.ModelSerializer[Evaluation]):
    """The measure of one policy version on one suite."""

    suite = serializers.ChoiceField(SUITES, read_only=True)
    state = serializers.ChoiceField(sorted(STATES), read_only=True)
    tries = serializers.IntegerField(read_only=True, help_text="Of each task.")
    completion = CompletionSerializer(source="*", read_only=True)
    infra = InfraSerializer(source="*", read_only=True)

    class Meta:
        model = Evaluation
        fields: tuple[str, ...] = (
            "id", "run", "version", "suite", "tries", "why", "state", "completion", "infra", "planned_at", "started_at",
            "finished_at",
        )  # fmt: skip
        read_only_fields = fields


class EvaluationDetailSerializer(EvaluationSerializer):
    result = serializers.DictField(read_only=True, help_text="By family and by rounds, each rate with its interval.")

    class Meta(EvaluationSerializer.Meta):
        fields = (*EvaluationSerializer.Meta.fields, "result")
        read_only_fields = fields


class StepSerializer(serializers.ModelSerializer[LearnerStep]):
    """One optimiser step, which made a policy version."""

    kind = serializers.ChoiceField(["sft", "grpo"], read_only=True)
    state = serializers.ChoiceField(sorted(STEP_STATES), read_only=True, help_text="rewound: not on the live branch.")
    metrics = serializers.SerializerMethodField()

    class Meta:
        model = LearnerStep
        fields = (
            "kind", "number", "version", "parent_version", "state", "config_revision", "resumable", "waited_seconds",
            "metrics", "error", "handed_at", "finished_at",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field({**METRICS_SCHEMA, "type": ["object", "null"]})
    def get_metrics(self, step: LearnerStep) -> dict[str, Any] | None:
        """null for a step that failed; a number that is not defined for its kind is null."""
        found = step.parsed_metrics()
        return None if found is None else msgspec.to_builtins(found)


class EventSerializer(serializers.ModelSerializer[Event]):
    payload = serializers.DictField(read_only=True)

    class Meta:
        model = Event
        fields = ("seq", "kind", "text", "payload", "at")
        read_only_fields = fields


class ProgressSerializer(serializers.Serializer[Progress]):
    """What happened since an event. Ask again with since=seq; at once, if there is more."""

    state = serializers.ChoiceField(sorted(RUN_STATES))
    policy_version = serializers.IntegerField()
    seq = serializers.IntegerField(help_text="Of the last event told.")
    newest_seq = serializers.IntegerField()
    more = serializers.BooleanField()
    events = EventSerializer(many=True)
    steps = StepSerializer(many=True, help_text="Ended ones that these events speak of.")
    evaluations = EvaluationSerializer(many=True, help_text="All of the run, if one of them moved; else none.")


class SinceFilter(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        source="seq__gt",
        help_text="Number of the last event known; 0 or none: all.",
    )


class EvaluationFilters(serializers.Serializer[Any]):
    run = serializers.IntegerField(required=False)
    version = serializers.IntegerField(required=False)
    suite = serializers.ChoiceField(SUITES, required=False)
    state = serializers.ChoiceField(sorted(STATES), required=False)
