"""API tokens as the API shows them: never the secret, but once."""

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from apps.accounts.bodies import BodySerializer
from apps.accounts.models import ApiToken


class TokenSerializer(BodySerializer, serializers.ModelSerializer[ApiToken]):
    class Meta:
        model = ApiToken
        fields = ("id", "name", "key_id", "created_at", "expires_at", "revoked_at", "last_used_at")
        read_only_fields = ("key_id", "created_at", "revoked_at", "last_used_at")


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "issued",
            response_only=True,
            value={
                "id": 3,
                "name": "nightly",
                "key_id": "1f0a9c2b77de",
                "created_at": "2026-01-05T09:00:00Z",
                "expires_at": None,
                "revoked_at": None,
                "last_used_at": None,
                "token": "assay_1f0a9c2b77de.Qm9v…",
            },
        )
    ]
)
class IssuedTokenSerializer(TokenSerializer):
    token = serializers.CharField(read_only=True, help_text="The whole token. It is shown this once and not kept.")

    class Meta(TokenSerializer.Meta):
        fields = (*TokenSerializer.Meta.fields, "token")  # type: ignore[assignment]
