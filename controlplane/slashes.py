"""A slash too many at the end of an address leads to the page without it, as Django leads to one that needs it."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import is_valid_path
from django.utils.http import escape_leading_slashes


class SlashMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 404 and request.method in ("GET", "HEAD") and _is_needless(request.path_info):
            path, mark, query = request.get_full_path().partition("?")
            return HttpResponsePermanentRedirect(escape_leading_slashes(f"{path.removesuffix('/')}{mark}{query}"))
        return response


def _is_needless(path: str) -> bool:
    """An address that is known with its slash has the answer that it has: the two must not lead to each other."""
    return path.endswith("/") and not is_valid_path(path) and bool(is_valid_path(path.removesuffix("/")))
