"""Runs as the API shows and takes them."""

from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiExample, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from apps.accounts.bodies import BodySerializer, KeyField
from apps.lifecycle.models import Transition
from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.runs.models import KINDS, ConfigRevision, Run
from apps.runs.presets import PRESETS
from apps.runs.states import STATES
from apps.tasks.models import TaskSet

CONFIG_SCHEMA = msgspec.json.schema(RunConfig)["$defs"]["RunConfig"]
OVERRIDES_SCHEMA = {**CONFIG_SCHEMA, "title": "Overrides", "description": "Settings that differ from the preset's."}


class TaskSetReference(serializers.ModelSerializer[TaskSet]):
    class Meta:
        model = TaskSet
        fields = ("id", "name", "number")
        read_only_fields = fields


class PolicyReference(serializers.ModelSerializer[Policy]):
    class Meta:
        model = Policy
        fields = ("id", "name")
        read_only_fields = fields


class RunSerializer(serializers.ModelSerializer[Run]):
    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    kind = serializers.ChoiceField(KINDS, read_only=True)
    state = serializers.ChoiceField(sorted(STATES), read_only=True)
    task_set = TaskSetReference(read_only=True)
    policy = PolicyReference(read_only=True, allow_null=True, help_text="null: a run of scripts alone.")
    formula = serializers.CharField(read_only=True, help_text="Of the reward, with its version.")
    policy_version = serializers.IntegerField(read_only=True, help_text="The newest of the live branch.")
    last_version = serializers.IntegerField(read_only=True, help_text="The highest ever given out; none is reused.")
    failure = serializers.CharField(read_only=True, help_text="Why it failed; else empty.")
    training_ended = serializers.CharField(read_only=True, help_text="Why no more learner steps are made; else empty.")
    created_by = serializers.SlugRelatedField[Any](slug_field="username", read_only=True, allow_null=True)

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "id", "project", "name", "kind", "state", "task_set", "policy", "formula", "policy_version", "last_version",
            "failure", "training_ended", "created_by", "created_at", "started_at", "finished_at",
        )  # fmt: skip
        read_only_fields = fields


class RevisionSerializer(serializers.ModelSerializer[ConfigRevision]):
    config = serializers.SerializerMethodField()

    class Meta:
        model = ConfigRevision
        fields = ("number", "config", "by", "reason", "at")
        read_only_fields = fields

    @extend_schema_field(CONFIG_SCHEMA)
    def get_config(self, revision: ConfigRevision) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(revision.parsed())
        return found


class TransitionSerializer(serializers.ModelSerializer[Transition]):
    class Meta:
        model = Transition
        fields = ("before", "after", "actor", "reason", "at")
        read_only_fields = fields


class RunDetailSerializer(RunSerializer):
    revisions = RevisionSerializer(
        many=True, read_only=True, help_text="The config's chain of revisions; the last holds."
    )
    history = serializers.SerializerMethodField()

    class Meta(RunSerializer.Meta):
        fields = (*RunSerializer.Meta.fields, "revisions", "history")
        read_only_fields = fields

    @extend_schema_field(TransitionSerializer(many=True))
    def get_history(self, run: Run) -> Any:
        """Every change of state, oldest first."""
        rows = Transition.objects.filter(subject=Run.SUBJECT, subject_id=run.pk).order_by("id")
        return TransitionSerializer(rows, many=True).data


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "warm start, then GRPO",
            request_only=True,
            value={
                "name": "first try",
                "task_set": 1,
                "policy": 1,
                "preset": "warm-grpo",
                "config": {"grpo_steps": 40, "group_size": 8},
            },
        )
    ]
)
class LaunchSerializer(BodySerializer):
    """A run to start, in the project of its task set."""

    name = serializers.CharField(max_length=120)
    task_set = serializers.PrimaryKeyRelatedField(queryset=TaskSet.objects.none(), pk_field=KeyField())
    policy = serializers.PrimaryKeyRelatedField(queryset=Policy.objects.none(), pk_field=KeyField())
    preset = serializers.ChoiceField(
        list(PRESETS),
        help_text="See /api/v1/presets.",
        error_messages={"invalid_choice": f"There is no preset '{{input}}'. Known: {', '.join(PRESETS)}."},
    )
    config = extend_schema_field(OVERRIDES_SCHEMA)(serializers.DictField)(required=False, default=dict)
    endpoint = serializers.CharField(required=False, help_text="Name of what serves the policy; else the first one.")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """What the user cannot see he cannot choose, nor learn that it exists."""
        fields = super().get_fields()
        if (request := self.context.get("request")) is not None:
            shown = TaskSet.objects.visible_to(request.user).select_related("project")
            fields["task_set"].queryset = shown  # type: ignore[attr-defined]
            fields["policy"].queryset = Policy.objects.visible_to(request.user)  # type: ignore[attr-defined]
        return fields


class VerbSerializer(BodySerializer):
    reason = serializers.CharField(
        max_length=500, required=False, default="", allow_blank=True, help_text="Kept in the run's history."
    )


class ControlledSerializer(serializers.Serializer[Any]):
    """What a verb did."""

    changed = serializers.BooleanField(help_text="False: it was so already, and nothing happened.")
    run = RunSerializer()


class PresetSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    explanation = serializers.CharField()
    kind = serializers.ChoiceField(KINDS)
    formula = serializers.CharField()
    config = serializers.SerializerMethodField()

    @extend_schema_field(CONFIG_SCHEMA)
    def get_config(self, preset: Any) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(preset.config)
        return found


class RunFilters(serializers.Serializer[Any]):
    state = serializers.ChoiceField(sorted(STATES), required=False)
    kind = serializers.ChoiceField(KINDS, required=False)
    task_set = serializers.IntegerField(required=False)
    policy = serializers.IntegerField(required=False)
    project = serializers.SlugField(required=False, source="project__slug")
