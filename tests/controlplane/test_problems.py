"""Errors of the API, as problem details."""

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.http import Http404
from django.test import RequestFactory
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.problems import page_not_found, server_error


class Body(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=3)
    limits = serializers.ListField(child=serializers.IntegerField())


class Raising(APIView):
    authentication_classes = ()
    permission_classes = ()
    error: Exception | None = None

    def post(self, request: Request) -> Response:
        if self.error is not None:
            raise self.error
        Body(data=request.data).is_valid(raise_exception=True)
        return Response({})


def problem_of(error: Exception | None, body: object = None) -> dict[str, Any]:
    request = RequestFactory().post("/api/v1/things", json.dumps(body), content_type="application/json")
    request.META["assay.request_id"] = "request-1"
    response = Raising.as_view(error=error)(request).render()
    assert response["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = json.loads(response.content)
    assert problem["status"] == response.status_code
    assert problem["instance"] == "/api/v1/things"
    assert problem["request_id"] == "request-1"
    return problem


def test_each_bad_field_is_pointed_at() -> None:
    problem = problem_of(None, {"name": "long name", "limits": [1, "x"]})
    assert problem["status"] == 400
    assert problem["code"] == "invalid"
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [
        ("/name", "max_length"),
        ("/limits/1", "invalid"),
    ]


def test_an_error_of_the_whole_body_points_at_the_whole() -> None:
    problem = problem_of(serializers.ValidationError({"non_field_errors": ["These do not go together."]}))
    assert problem["errors"] == [{"pointer": "", "code": "invalid", "detail": "These do not go together."}]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Http404(), 404, "not_found"),
        (exceptions.PermissionDenied(), 403, "permission_denied"),
        (exceptions.Throttled(wait=5), 429, "throttled"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
    ],
)
def test_known_errors_keep_their_status_and_code(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)
    assert (problem["status"], problem["code"], problem["errors"]) == (status, code, [])


def test_a_conflict_of_ours_keeps_its_code() -> None:
    class Conflict(exceptions.APIException):
        status_code = 409
        default_detail = "The run has ended."
        default_code = "run_ended"

    problem = problem_of(Conflict())
    assert (problem["status"], problem["title"], problem["code"]) == (409, "Conflict", "run_ended")
    assert problem["detail"] == "The run has ended."


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/v1/runs", "application/problem+json"), ("/runs/", "text/html; charset=utf-8")]
)
def test_a_database_that_is_away_is_told_apart_from_an_error_of_ours(path: str, kind: str) -> None:
    request = RequestFactory().get(path)
    try:
        raise OperationalError("the connection is closed")
    except OperationalError:
        response = server_error(request)
    assert (response.status_code, response["Content-Type"], response["Retry-After"]) == (503, kind, "5")


@pytest.mark.django_db
@pytest.mark.parametrize(("error", "status"), [(OperationalError("gone"), 503), (ValueError("ours"), 500)])
def test_a_page_that_could_not_be_made_says_its_request_id(error: Exception, status: int) -> None:
    request = RequestFactory().get("/runs/1")
    request.META["assay.request_id"] = "request-1"
    try:
        raise error
    except (OperationalError, ValueError):
        response = server_error(request)
    assert response.status_code == status
    assert "Request id <code>request-1</code>" in response.content.decode()


@pytest.mark.django_db
def test_an_address_that_does_not_exist_is_a_problem_below_api_alone() -> None:
    request = RequestFactory().get("/api/v1/nothing")
    assert page_not_found(request, Http404())["Content-Type"] == "application/problem+json"
    assert server_error(request)["Content-Type"] == "application/problem+json"
    assert "text/html" in page_not_found(RequestFactory().get("/nothing"), Http404())["Content-Type"]
