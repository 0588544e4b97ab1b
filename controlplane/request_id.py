"""Gives each request a name that its log lines, error pages and problem answers carry."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

HEADER = "X-Request-Id"
_WELL_FORMED = re.compile(r"[A-Za-z0-9_.-]{8,64}")


class RequestIdMiddleware:
    """Takes a well-formed name from the proxy, else makes one; always answers with it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        name = given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex
        request.META["assay.request_id"] = name
        response = self.get_response(request)
        response[HEADER] = name
        return response


def request_id(request: HttpRequest | Request) -> str:
    return str(request.META.get("assay.request_id", ""))
