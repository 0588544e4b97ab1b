"""Addresses that nobody was given: refused or not found, and never an error of ours."""

import base64
import json

import pytest

from tests.apps.making import client_of, make_run, make_user

pytestmark = pytest.mark.django_db
TOO_LONG = "9" * 5000
MOMENT = "2026-01-05T09:00:00+00:00"


@pytest.mark.parametrize(
    "key",
    ["[Infinity,1]", "[NaN,1]", "[5,5]", f'["{MOMENT}","{MOMENT}"]', '["2026-01-05",1]', f'["{MOMENT}",1.5]',
     f'["{MOMENT}",true]', f'["{MOMENT}",{"9" * 30}]', "5", "{}", "null", "[" * 90],
)  # fmt: skip
def test_a_cursor_of_other_kinds_is_refused(key: str) -> None:
    cursor = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    response = client_of(make_user("ann", "viewer")).get("/api/v1/runs", {"cursor": cursor})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/cursor"


def test_a_cursor_of_a_list_that_is_ordered_by_number_takes_no_moment() -> None:
    client = client_of(make_user("ann", "viewer"))
    for key, status in ((json.dumps([MOMENT]), 400), ("[5]", 200)):
        cursor = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
        for name in ("trajectories", "rollouts"):
            assert client.get(f"/api/v1/{name}", {"cursor": cursor}).status_code == status


@pytest.mark.parametrize("since", ["1.5", "\0", TOO_LONG, "9" * 40])
def test_progress_since_what_is_no_number_is_refused(since: str) -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    assert client.get(f"/api/v1/runs/{run.pk}/metrics", {"since": since}).status_code == 400


def test_progress_since_a_whole_number_with_a_point_is_progress() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    response = client.get(f"/api/v1/runs/{run.pk}/metrics", {"since": "1.0"})
    assert (response.status_code, response.json()["seq"]) == (200, 1)


def test_numbers_that_fit_no_column_find_nothing() -> None:
    client = client_of(make_user("ann", "viewer"))
    for number in ("9" * 40, TOO_LONG):
        for address in ("runs/{}", "runs/{}/ledger", "rollouts/{}", "tasks/{}", "task-sets/{}/entries"):
            assert client.get(f"/api/v1/{address.format(number)}").status_code == 404, address
    assert client.get("/api/v1/tasks?family=%00").status_code == 400
