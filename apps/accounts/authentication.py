"""Token authentication of the REST API: 'Authorization: Bearer assay_<id>.<secret>'."""

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = ApiToken.find(text.strip(), timezone.now())
        if token is None:
            raise AuthenticationFailed(
                "The API token is unknown, revoked or expired. Make a new one with `manage.py issue_token`, "
                "or by POST /api/v1/tokens while you are signed in."
            )
        token.touch(timezone.now())
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # of its __init_subclass__
    """How the OpenAPI document tells of it."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "assay_<id>.<secret>"}
