"""Says so, plainly, when the database does not answer, instead of a page about our own error."""

import logging
from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

log = logging.getLogger(__name__)
RETRY_SECONDS = "5"


class DatabaseOutageMiddleware:
    """Turns a lost database into a 503 that may be asked again soon. Stands first, before sessions are read."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        except (
            OperationalError,
            InterfaceError,
        ) as error:  # raised by a middleware, such as the one that reads sessions
            return _say(request, error)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, (OperationalError, InterfaceError)):
            return None
        return _say(request, error)


def _say(request: HttpRequest, error: Exception) -> HttpResponse:
    log.error("database does not answer", exc_info=error)
    response = render(request, "503.html", status=503)
    response["Retry-After"] = RETRY_SECONDS
    return response
