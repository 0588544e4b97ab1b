"""Policies as the API shows them."""

from typing import Any

from rest_framework import serializers

from apps.policies.models import Policy
from apps.policies.states import STATES


class PolicySerializer(serializers.ModelSerializer[Policy]):
    project = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    state = serializers.ChoiceField(sorted(STATES), read_only=True)
    digest = serializers.CharField(read_only=True, help_text="SHA-256 of model.safetensors.")
    origin = serializers.DictField(read_only=True, help_text="Where the weights came from.")

    class Meta:
        model = Policy
        fields = ("id", "project", "name", "state", "digest", "parameters", "context_tokens", "origin", "created_at")
        read_only_fields = fields


class PolicyFilters(serializers.Serializer[Any]):
    name = serializers.CharField(required=False)
    state = serializers.ChoiceField(sorted(STATES), required=False)
    project = serializers.SlugField(required=False, source="project__slug")
