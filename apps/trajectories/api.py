"""The API of trajectories."""

from typing import Any

from django.db.models import QuerySet
from rest_framework import viewsets
from rest_framework.serializers import BaseSerializer

from apps.trajectories.models import Trajectory
from apps.trajectories.serializers import TrajectoryDetailSerializer, TrajectoryFilters, TrajectorySerializer


class TrajectoryViewSet(viewsets.ReadOnlyModelViewSet[Trajectory]):
    """Immutable records of attempts. The list has what is counted; one of them has every round."""

    queryset = Trajectory.objects.none()
    filters = TrajectoryFilters
    lookup_value_regex = "[0-9]+"
    newest_first = ("pk",)

    def get_queryset(self) -> QuerySet[Trajectory]:
        return Trajectory.objects.visible_to(self.request.user).select_related("attempt", "grade")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return TrajectorySerializer if self.action == "list" else TrajectoryDetailSerializer
