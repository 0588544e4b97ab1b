"""Tasks and task sets as the API shows them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.bodies import BodySerializer
from apps.tasks.models import SPLITS, Task, TaskSet, TaskSetEntry, TaskVersion
from apps.tasks.states import STATES

STATE_HELP = "How far a version came on its way to being trusted; a run uses admitted ones only."
COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}


class FindingSerializer(serializers.Serializer[dict[str, Any]]):
    """What lint found."""

    level = serializers.ChoiceField(["error", "warning"])
    rule = serializers.CharField()
    message = serializers.CharField()
    file = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)


class TaskVersionSerializer(serializers.ModelSerializer[TaskVersion]):
    state = serializers.ChoiceField(sorted(STATES), read_only=True, help_text=STATE_HELP)
    findings = FindingSerializer(many=True, read_only=True)
    evidence = serializers.DictField(read_only=True, help_text="What the controls showed.")
    settings = serializers.DictField(read_only=True, help_text="Seconds and quotas.")

    class Meta:
        model = TaskVersion
        fields = (
            "id", "number", "digest", "state", "instruction", "round_limit", "settings", "findings", "evidence",
            "created_at",
        )  # fmt: skip
        read_only_fields = fields


class TaskSerializer(serializers.ModelSerializer[Task]):
    """Of the newest version: number, digest and state."""

    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    number = serializers.IntegerField(source="newest_number", read_only=True)
    digest = serializers.CharField(source="newest_digest", read_only=True)
    state = serializers.ChoiceField(sorted(STATES), source="newest_state", read_only=True, help_text=STATE_HELP)

    class Meta:
        model = Task
        fields: tuple[str, ...] = ("id", "project", "name", "family", "number", "digest", "state", "created_at")
        read_only_fields = fields


class TaskDetailSerializer(TaskSerializer):
    instruction = serializers.CharField(source="newest_instruction", read_only=True)
    versions = TaskVersionSerializer(many=True, read_only=True, help_text="Newest first.")

    class Meta(TaskSerializer.Meta):
        fields = (*TaskSerializer.Meta.fields, "instruction", "versions")
        read_only_fields = fields


class TaskSetSerializer(serializers.ModelSerializer[TaskSet]):
    """An immutable version of a named list of tasks."""

    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    tasks = serializers.IntegerField(read_only=True, help_text="Entries, of all splits.")
    usable = serializers.IntegerField(read_only=True, help_text="Of these, admitted: a run needs all of them.")
    splits = serializers.SerializerMethodField()

    class Meta:
        model = TaskSet
        fields: tuple[str, ...] = (
            "id", "project", "name", "number", "description", "tasks", "usable", "splits", "created_at",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field({**COUNTS, "example": {"train": 112, "held-out": 28, "unseen": 12}})
    def get_splits(self, task_set: TaskSet) -> dict[str, int]:
        return {split: getattr(task_set, f"in_{split.replace('-', '_')}") for split in SPLITS}


class TaskSetDetailSerializer(TaskSetSerializer):
    families = serializers.SerializerMethodField()

    class Meta(TaskSetSerializer.Meta):
        fields = (*TaskSetSerializer.Meta.fields, "families")
        read_only_fields = fields

    @extend_schema_field(
        {"type": "object", "additionalProperties": COUNTS, "example": {"count-lines": {"train": 4, "held-out": 1}}}
    )
    def get_families(self, task_set: TaskSet) -> dict[str, dict[str, int]]:
        """Entries of each family by split."""
        return task_set.family_counts()


class TaskSetEntrySerializer(serializers.ModelSerializer[TaskSetEntry]):
    task = serializers.IntegerField(source="task_version.task_id", read_only=True)
    name = serializers.CharField(source="task_version.task.name", read_only=True)
    version = serializers.IntegerField(source="task_version.number", read_only=True)
    digest = serializers.CharField(source="task_version.digest", read_only=True)
    state = serializers.ChoiceField(sorted(STATES), source="task_version.state", read_only=True, help_text=STATE_HELP)

    class Meta:
        model = TaskSetEntry
        fields = ("id", "task", "name", "version", "digest", "split", "family", "state")
        read_only_fields = fields


class ReasonSerializer(BodySerializer):
    reason = serializers.CharField(max_length=500, help_text="Kept in the history of the version.")


class TasksOfSetField(serializers.IntegerField):
    """A task set's number as the tasks of which it has a version."""

    def to_internal_value(self, data: Any) -> Any:
        return TaskVersion.objects.filter(entries__task_set_id=super().to_internal_value(data)).values("task_id")


class TaskFilters(serializers.Serializer[Any]):
    family = serializers.CharField(required=False)
    state = serializers.ChoiceField(
        sorted(STATES), required=False, source="newest_state", help_text="Of the newest version."
    )
    task_set = TasksOfSetField(required=False, source="pk__in", help_text="Tasks of which this task set has a version.")
    project = serializers.SlugField(required=False, source="project__slug")


class TaskSetFilters(serializers.Serializer[Any]):
    name = serializers.CharField(required=False)
    project = serializers.SlugField(required=False, source="project__slug")


class EntryFilters(serializers.Serializer[Any]):
    split = serializers.ChoiceField(SPLITS, required=False)
    family = serializers.CharField(required=False)
    state = serializers.ChoiceField(sorted(STATES), required=False, source="task_version__state")
