"""The API of a user's own tokens."""

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import ApiToken
from apps.accounts.roles import signed_in
from apps.accounts.serializers import IssuedTokenSerializer, TokenSerializer


class TokenViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[ApiToken]):
    """Keys to the API, each yours alone."""

    serializer_class = TokenSerializer
    queryset = ApiToken.objects.none()
    lookup_value_regex = "[0-9]+"
    newest_first = ("created_at", "id")

    def get_queryset(self) -> QuerySet[ApiToken]:
        return ApiToken.objects.filter(user=signed_in(self.request))

    @extend_schema(request=TokenSerializer, responses={201: IssuedTokenSerializer})
    def create(self, request: Request) -> Response:
        """Issue a token. The answer is the only place that ever shows it.

        Not by a token: what it issued could outlive it."""
        if isinstance(request.auth, ApiToken):
            raise PermissionDenied("A token issues no tokens. Sign in, or use `manage.py issue_token`.")
        asked = TokenSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted = asked.validated_data
        token, text = ApiToken.issue(signed_in(request), wanted["name"], wanted.get("expires_at"))
        shown = {**TokenSerializer(token).data, "token": text}
        return Response(shown, status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a token; its row stays."""
        self.get_object().revoke(timezone.now())
        return Response(status=status.HTTP_204_NO_CONTENT)
