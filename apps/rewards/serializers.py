"""Rollouts as the API shows them, with their verdicts and rewards."""

from typing import Any

from rest_framework import serializers

from apps.rollouts.models import PURPOSES, Attempt
from apps.rollouts.states import ATTEMPT_STATES, STATES
from apps.trajectories.models import ENDINGS, VERDICTS

SUITES = ("held-out", "unseen")


class RolloutSerializer(serializers.Serializer[dict[str, Any]]):
    """One try of one policy version at one task. What its counting attempt made known is null until there is one."""

    id = serializers.IntegerField()
    run = serializers.IntegerField()
    group = serializers.IntegerField()
    index = serializers.IntegerField(help_text="In its group.")
    state = serializers.ChoiceField(sorted(STATES))
    task = serializers.IntegerField()
    task_name = serializers.CharField()
    task_version = serializers.IntegerField()
    task_digest = serializers.CharField()
    family = serializers.CharField()
    purpose = serializers.ChoiceField(PURPOSES)
    suite = serializers.CharField(help_text="Of an evaluation: held-out or unseen; else empty.")
    script = serializers.CharField(help_text="Of a try without a policy: reference or nothing; else empty.")
    policy_version = serializers.IntegerField(allow_null=True, help_text="That the claim asked for.")
    config_revision = serializers.IntegerField()
    attempt = serializers.IntegerField(help_text="Number of the last one; 0 before the first.")
    verdict = serializers.ChoiceField(VERDICTS, allow_null=True, help_text="none: infra failures only, never a reward.")
    score = serializers.FloatField(allow_null=True, help_text="What the task's own tests wrote.")
    reward = serializers.FloatField(allow_null=True, help_text="Made of the grade by `formula`.")
    formula = serializers.CharField()
    ending_kind = serializers.ChoiceField(ENDINGS, allow_null=True, help_text="How the agent stopped.")
    ending_detail = serializers.CharField(allow_null=True)
    rounds = serializers.IntegerField(allow_null=True)
    prompt_tokens = serializers.IntegerField(allow_null=True)
    sampled_tokens = serializers.IntegerField(allow_null=True)
    oldest_version = serializers.IntegerField(allow_null=True, help_text="Oldest policy version that wrote any of it.")
    newest_version = serializers.IntegerField(allow_null=True)
    agent_seconds = serializers.FloatField(allow_null=True)
    trajectory = serializers.IntegerField(allow_null=True, help_text="The record that counts.")
    parked_reason = serializers.CharField()
    planned_at = serializers.DateTimeField()
    claimed_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    state = serializers.ChoiceField(sorted(ATTEMPT_STATES), read_only=True)
    trajectory = serializers.IntegerField(source="trajectory.pk", default=None, read_only=True, allow_null=True)

    class Meta:
        model = Attempt
        fields = (
            "number", "fence", "state", "policy_version", "incarnation", "ending_kind", "ending_detail", "reason",
            "trajectory", "claimed_at", "ended_at",
        )  # fmt: skip
        read_only_fields = fields


class RolloutDetailSerializer(RolloutSerializer):
    attempts = serializers.SerializerMethodField()

    def get_attempts(self, rollout: dict[str, Any]) -> list[dict[str, Any]]:
        rows = Attempt.objects.filter(rollout=rollout["id"]).select_related("trajectory").order_by("number", "id")
        return [dict(row) for row in AttemptSerializer(rows, many=True).data]


class RolloutsOfRunFilters(serializers.Serializer[Any]):
    purpose = serializers.ChoiceField(PURPOSES, required=False, source="group__purpose")
    suite = serializers.ChoiceField(SUITES, required=False, source="group__suite")
    verdict = serializers.ChoiceField(VERDICTS, required=False)
    ending = serializers.ChoiceField(ENDINGS, required=False, source="ending_kind")
    family = serializers.CharField(required=False, source="group__task_version__task__family")
    task = serializers.IntegerField(required=False, source="group__task_version__task")
    state = serializers.ChoiceField(sorted(STATES), required=False)
    policy_version = serializers.IntegerField(required=False)


class RolloutFilters(RolloutsOfRunFilters):
    run = serializers.IntegerField(required=False)
    group = serializers.IntegerField(required=False)
