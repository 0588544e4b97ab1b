"""What answers to htmx need beside their views: a new page for who is signed out, caches that tell them apart."""

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers


class FragmentMiddleware:
    """A table that asks for its rows after the session ended would else show the sign-in page between its borders."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.headers.get("HX-Request") == "true" and _wants_sign_in(response):
            response = HttpResponse(headers={"HX-Refresh": "true"})
        patch_vary_headers(response, ("HX-Request", "HX-Target"))
        return response


def _wants_sign_in(response: HttpResponse) -> bool:
    return urlsplit(response.get("Location", "")).path == settings.LOGIN_URL
