"""The API of policies."""

from django.db.models import QuerySet
from rest_framework import viewsets

from apps.policies.models import Policy
from apps.policies.serializers import PolicyFilters, PolicySerializer


class PolicyViewSet(viewsets.ReadOnlyModelViewSet[Policy]):
    """Models to start a run from."""

    queryset = Policy.objects.none()
    serializer_class = PolicySerializer
    filters = PolicyFilters
    lookup_value_regex = "[0-9]+"
    newest_first = ("created_at", "id")

    def get_queryset(self) -> QuerySet[Policy]:
        return Policy.objects.visible_to(self.request.user).select_related("project")
