"""Gives each request a name that its log lines, error pages and problem answers carry."""

import logging
import re
import uuid
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

HEADER = "X-Request-Id"
_WELL_FORMED = re.compile(r"[A-Za-z0-9_.-]{8,64}")
_current: ContextVar[str] = ContextVar("request_id", default="-")


class RequestIdMiddleware:
    """Takes a well-formed name from the proxy, else makes one; always answers with it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        name = given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex
        request.META["assay.request_id"] = name
        token = _current.set(name)
        try:
            response = self.get_response(request)
        finally:
            _current.reset(token)
        response[HEADER] = name
        return response


def request_id(request: HttpRequest | Request) -> str:
    return str(request.META.get("assay.request_id", ""))


class RequestIdFilter(logging.Filter):
    """Puts the name of the current request into each line; '-' outside of requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True
