"""The API of rollouts. It stands here because a rollout is shown with its verdict and its reward."""

from typing import Any

from django.db.models import QuerySet
from rest_framework import viewsets
from rest_framework.serializers import BaseSerializer

from apps.rewards.graded import graded
from apps.rewards.serializers import RolloutDetailSerializer, RolloutFilters, RolloutSerializer
from apps.rollouts.models import Rollout


class RolloutViewSet(viewsets.ReadOnlyModelViewSet[Rollout]):
    """Tries of a policy version at a task, newest first."""

    queryset = Rollout.objects.none()
    filters = RolloutFilters
    lookup_value_regex = "[0-9]+"

    def get_queryset(self) -> QuerySet[Rollout, Any]:
        return graded(Rollout.objects.visible_to(self.request.user))

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return RolloutSerializer if self.action == "list" else RolloutDetailSerializer
