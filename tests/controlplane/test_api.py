"""The API as a whole: its OpenAPI document, and who gets in."""

import io
import json
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern

from controlplane.api import urlpatterns


def document() -> dict[str, object]:
    printed = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", stdout=printed)
    found: dict[str, object] = json.loads(printed.getvalue())
    return found


def test_the_openapi_document_is_valid_and_raises_no_warning() -> None:
    found = document()
    assert found["openapi"] == "3.1.0"
    paths = found["paths"]
    assert isinstance(paths, dict)
    assert {"/api/v1/runs", "/api/v1/runs/{id}/pause", "/api/v1/runs/{run_id}/export"} <= set(paths)


def test_the_settings_of_a_launch_are_described_with_their_bounds() -> None:
    text = json.dumps(document())
    assert '"group_size": {"type": "integer", "minimum": 2, "maximum": 128' in text


def addresses() -> Iterator[str]:
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        route = str(pattern.pattern)
        yield route.removeprefix("^").removesuffix(r"\Z").removesuffix("$")


@pytest.mark.django_db
def test_no_address_answers_a_stranger() -> None:
    for route in addresses():
        address = (
            route.replace("(?P<pk>[0-9]+)", "1").replace("(?P<task_set_id>[0-9]+)", "1").replace("<int:run_id>", "1")
        )
        for method in ("get", "post"):
            response = getattr(Client(), method)(f"/api/v1/{address}")
            assert response.status_code == 401, (method, address)
