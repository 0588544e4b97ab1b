"""The name of a request."""

import logging

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from controlplane.request_id import RequestIdFilter, RequestIdMiddleware, request_id


def answer(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request_id(request))


def test_a_request_gets_a_name_and_the_answer_carries_it() -> None:
    response = RequestIdMiddleware(answer)(RequestFactory().get("/"))
    assert len(response["X-Request-Id"]) == 32
    assert response.content.decode() == response["X-Request-Id"]


def test_a_proxys_name_is_kept() -> None:
    response = RequestIdMiddleware(answer)(RequestFactory().get("/", headers={"X-Request-Id": "from-the-proxy.1"}))
    assert response["X-Request-Id"] == "from-the-proxy.1"


@pytest.mark.parametrize("given", ["short", "a" * 65, "new\nline-of-a-log", "<script>alert(1)</script>"])
def test_a_name_that_could_spoil_a_log_is_replaced(given: str) -> None:
    response = RequestIdMiddleware(answer)(RequestFactory().get("/", headers={"X-Request-Id": given}))
    assert response["X-Request-Id"] != given


def test_each_line_of_the_log_carries_it_while_the_request_lasts() -> None:
    def named() -> str:
        record = logging.makeLogRecord({})
        RequestIdFilter().filter(record)
        return str(record.__dict__["request_id"])

    middleware = RequestIdMiddleware(lambda _request: HttpResponse(named()))
    response = middleware(RequestFactory().get("/"))
    assert response.content.decode() == response["X-Request-Id"]
    assert named() == "-"
