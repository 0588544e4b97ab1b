"""A field that the API does not know is refused by name; the endpoint is chosen by name."""

import json
from typing import Any

import pytest
from django.test import Client

from apps.fleet.models import Endpoint
from apps.runs.models import Run
from tests.apps.making import client_of, make_policy, make_run, make_task_set, make_user

pytestmark = pytest.mark.django_db

UNBOUNDED_ONCE = (
    "importance_cap",
    "max_grad_norm",
    "max_seconds",
    "sft_warmup_steps",
    "evaluation_every",
    "resumable_every",
    "max_sampled_tokens",
)


def post(client: Client, address: str, body: object) -> Any:
    return client.post(address, body, content_type="application/json")


def body_of(**more: Any) -> dict[str, Any]:
    Endpoint.objects.create(name="embedded", url="http://127.0.0.1:8100")
    return {"name": "a", "preset": "grpo", "task_set": make_task_set().pk, "policy": make_policy().pk} | more


@pytest.mark.parametrize("field", ["confg", "seed", "a/b", "\ud800"])
def test_an_unknown_field_is_named_and_nothing_starts(field: str) -> None:
    response = post(client_of(make_user("ann", "operator")), "/api/v1/runs", body_of(**{field: 1}))
    (error,) = response.json()["errors"]
    assert (response.status_code, error["code"]) == (400, "unknown_field")
    assert "task_set" in error["detail"]
    assert not Run.objects.exists()


def test_verbs_and_tokens_refuse_unknown_fields_too() -> None:
    run, client = make_run(), Client()
    client.force_login(make_user("ann", "operator"))
    for address in (f"/api/v1/runs/{run.pk}/pause", "/api/v1/tokens"):
        response = post(client, address, {"name": "x", "reson": "lunch"})
        assert response.status_code == 400
        assert "/reson" in [error["pointer"] for error in response.json()["errors"]]
    assert Run.objects.get(pk=run.pk).state == "queued"


def test_what_the_api_alone_sets_is_no_field_to_give() -> None:
    client = Client()
    client.force_login(make_user("ann"))
    response = post(client, "/api/v1/tokens", {"name": "x", "key_id": "mine"})
    assert [error["pointer"] for error in response.json()["errors"]] == ["/key_id"]


@pytest.mark.parametrize("setting", UNBOUNDED_ONCE)
@pytest.mark.parametrize("given", ["1e400", "-1e400", str(2**70)])
def test_a_number_that_no_run_can_use_is_refused_by_name(setting: str, given: str) -> None:
    body = json.dumps(body_of(config={setting: 0})).replace(f'"{setting}": 0', f'"{setting}": {given}')
    response = post(client_of(make_user("ann", "operator")), "/api/v1/runs", body)
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"]) == (422, f"/config/{setting}")
    assert not Run.objects.exists()


def test_a_run_is_served_by_the_endpoint_that_was_asked_for() -> None:
    body = body_of(endpoint="second")
    second = Endpoint.objects.create(name="second", url="http://127.0.0.1:8200")
    assert post(client_of(make_user("ann", "operator")), "/api/v1/runs", body).status_code == 201
    assert Run.objects.get().endpoint == second


def test_an_unknown_endpoint_is_refused_with_the_known_ones() -> None:
    response = post(client_of(make_user("ann", "operator")), "/api/v1/runs", body_of(endpoint="secnd"))
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"]) == (422, "/endpoint")
    assert "Known: embedded." in error["detail"]
    assert not Run.objects.exists()
