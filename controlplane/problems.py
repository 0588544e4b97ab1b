"""Errors of the API as problem details (RFC 9457), each with a stable code and, for a bad field, a pointer to it."""

import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template import loader
from django.views import defaults
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import exception_handler

from controlplane.request_id import request_id

MEDIA_TYPE = "application/problem+json"


def answer_with_problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """The REST framework's exception handler. None: not one of its errors, so that it rises."""
    response = exception_handler(error, context)
    if response is None:
        return None
    response.data = _problem(context["request"], response.status_code, *_describe(error, response))
    response.content_type = MEDIA_TYPE
    return response


def problem_response(
    request: HttpRequest, status: int, code: str, detail: str, errors: list[dict[str, str]] | None = None
) -> JsonResponse:
    """For views outside the REST framework."""
    return JsonResponse(_problem(request, status, code, detail, errors or []), status=status, content_type=MEDIA_TYPE)


def _describe(error: Exception, response: Response) -> tuple[str, str, list[dict[str, str]]]:
    if isinstance(error, exceptions.ValidationError):
        return "invalid", "Some fields cannot be used as they are.", list(_field_errors(error.detail, ""))
    detail = error.detail if isinstance(error, exceptions.APIException) else response.data.get("detail", "")
    return getattr(detail, "code", "error"), str(detail), []


def _field_errors(detail: Any, pointer: str) -> Iterator[dict[str, str]]:
    """One entry a message, at the JSON pointer of its field; errors of the whole body point at ''."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            step = "" if name == "non_field_errors" else "/" + _printable(name).replace("~", "~0").replace("/", "~1")
            yield from _field_errors(inner, pointer + step)
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (dict, list))
            yield from _field_errors(inner, f"{pointer}/{index}" if nested else pointer)
    else:
        yield {"pointer": pointer, "code": getattr(detail, "code", "invalid"), "detail": str(detail)}


def _printable(name: object) -> str:
    """A name may hold half a surrogate pair, which no encoding has."""
    return str(name).encode("utf-8", "backslashreplace").decode()


def _problem(
    request: HttpRequest | Request, status: int, code: str, detail: str, errors: list[dict[str, str]]
) -> dict[str, object]:
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.path,
        "code": code,
        "errors": errors,
        "request_id": request_id(request),
    }


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _is_api(request):
        return problem_response(request, 400, "bad_request", "The request cannot be understood.")
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """What may not be seen does not exist, on pages as in the API."""
    if _is_api(request):
        return problem_response(request, 403, "permission_denied", "Your role does not allow this.")
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _is_api(request):
        return problem_response(request, 404, "not_found", "There is nothing at this address.")
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Called while the error is handled. A database that is away is told apart: nothing is lost, and it comes back."""
    if isinstance(sys.exception(), (OperationalError, InterfaceError)):
        return _unavailable(request)
    if _is_api(request):
        return problem_response(
            request, 500, "server_error", "Assay failed; its log has the reason under this request id."
        )
    return HttpResponse(_page("500.html", request), status=500)


def _unavailable(request: HttpRequest) -> HttpResponse:
    response: HttpResponse
    if _is_api(request):
        text = "The database does not answer. What was recorded is safe; try again in a moment."
        response = problem_response(request, 503, "database_away", text)
    else:
        response = HttpResponse(_page("503.html", request), status=503)
    response["Retry-After"] = "5"
    return response


def _page(template: str, request: HttpRequest) -> str:
    """Without the request in its context: that asks the database who is signed in."""
    return loader.render_to_string(template, {"request_id": request_id(request)})


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")
