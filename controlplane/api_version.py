"""Says on every answer of the API which version of it answered: that of the path. Changes within it only add."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADER = "X-Api-Version"
VERSION = "1"


class ApiVersionMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path.startswith("/api/"):
            response[HEADER] = VERSION
        return response
