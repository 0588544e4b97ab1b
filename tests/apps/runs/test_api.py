"""Runs by the API: launched once, controlled by those who may, seen by those who may."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Membership
from apps.fleet.models import Endpoint
from apps.runs.models import Run
from apps.runs.presets import PRESETS
from tests.apps.making import client_of, make_policy, make_project, make_run, make_task_set, make_user

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/runs"


def post(client: Client, address: str, body: object, key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(address, body, content_type="application/json", headers=headers)


def body_of(**changes: Any) -> dict[str, Any]:
    Endpoint.objects.get_or_create(name="embedded", defaults={"url": "http://127.0.0.1:8100"})
    wanted: dict[str, Any] = {"name": "first", "preset": "warm-grpo", "config": {"grpo_steps": 3}}
    if "task_set" not in changes:
        wanted["task_set"] = make_task_set().pk
    if "policy" not in changes:
        wanted["policy"] = make_policy().pk
    return wanted | changes


def operator() -> Client:
    return client_of(make_user("ann", "operator"))


def test_a_launched_run_is_queued_with_its_config_whole() -> None:
    response = post(operator(), RUNS, body_of())
    assert response.status_code == 201
    run = response.json()
    assert response["Location"].endswith(f"/api/v1/runs/{run['id']}")
    assert (run["state"], run["kind"], run["created_by"], run["project"]) == ("queued", "training", "ann", "default")
    config = run["revisions"][0]["config"]
    assert (config["grpo_steps"], config["sft_steps"]) == (3, PRESETS["warm-grpo"].config.sft_steps)
    assert [(row["before"], row["after"]) for row in run["history"]] == [("draft", "queued")]


def test_the_same_key_and_body_is_the_same_run() -> None:
    client, body = operator(), body_of()
    first, again = post(client, RUNS, body, "k1"), post(client, RUNS, dict(reversed(body.items())), "k1")
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert "Idempotent-Replayed" not in first
    assert first.json()["id"] == again.json()["id"]
    assert Run.objects.count() == 1


def test_the_same_key_with_another_body_is_refused() -> None:
    client, body = operator(), body_of()
    post(client, RUNS, body, "k1")
    response = post(client, RUNS, body | {"name": "second"}, "k1")
    assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
    assert Run.objects.count() == 1


def test_a_key_is_its_users_alone() -> None:
    body = body_of()
    post(operator(), RUNS, body, "k1")
    response = post(client_of(make_user("bob", "operator")), RUNS, body, "k1")
    assert "Idempotent-Replayed" not in response
    assert Run.objects.count() == 2


def test_a_key_that_is_too_long_is_refused_not_cut() -> None:
    assert post(operator(), RUNS, body_of(), "k" * 121).status_code == 400


@pytest.mark.parametrize(
    ("changes", "status", "pointer"),
    [
        ({"name": ""}, 400, "/name"),
        ({"preset": "nonsense"}, 400, "/preset"),
        ({"task_set": 999_999}, 400, "/task_set"),
        ({"task_set": 1.9}, 400, "/task_set"),
        ({"policy": "x"}, 400, "/policy"),
        ({"config": [1]}, 400, "/config"),
        ({"config": {"group_size": 1}}, 422, "/config/group_size"),
        ({"config": {"grup_size": 4}}, 422, "/config/grup_size"),
        ({"config": {"grpo_steps": 0, "sft_steps": 0}}, 422, "/config/grpo_steps"),
    ],
)
def test_a_bad_field_is_pointed_at_and_nothing_starts(changes: dict[str, Any], status: int, pointer: str) -> None:
    response = post(operator(), RUNS, body_of() | changes)
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
    assert not Run.objects.exists()


@pytest.mark.parametrize("key", [1.0, 1.9, True, "1.0", " 1", "+1", "1_0", "\u0661", "", [1], {"id": 1}, None])
@pytest.mark.parametrize("field", ["task_set", "policy"])
def test_a_key_is_a_whole_number_and_nothing_near_it(field: str, key: object) -> None:
    response = post(operator(), RUNS, body_of() | {field: key})
    assert response.status_code == 400
    assert [error["pointer"] for error in response.json()["errors"]] == [f"/{field}"]
    assert not Run.objects.exists()


def test_a_key_may_come_as_its_decimal_text() -> None:
    body = body_of()
    as_text = body | {"task_set": str(body["task_set"]), "policy": str(body["policy"])}
    assert post(operator(), RUNS, as_text).status_code == 201


@pytest.mark.parametrize("key", [-1, 2**70, "9" * 100])
def test_a_key_that_no_row_can_have_is_not_found(key: object) -> None:
    (error,) = post(operator(), RUNS, body_of() | {"task_set": key}).json()["errors"]
    assert error["code"] == "does_not_exist"


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    (error,) = post(operator(), RUNS, body_of(preset="nonsense")).json()["errors"]
    assert "'nonsense'" in error["detail"]
    assert all(name in error["detail"] for name in PRESETS)


def test_every_bad_setting_is_pointed_at_in_one_answer() -> None:
    config = {"group_size": 1, "grup_size": 4, "seed": "x", "grpo_steps": 2}
    response = post(operator(), RUNS, body_of(config=config))
    assert response.status_code == 422
    assert {error["pointer"] for error in response.json()["errors"]} == {
        "/config/group_size",
        "/config/grup_size",
        "/config/seed",
    }


def test_an_unproven_task_set_is_refused_with_the_way_out() -> None:
    task_set = make_task_set()
    entry = task_set.entries.select_related("task_version")[0]
    entry.task_version.move("quarantined")
    response = post(operator(), RUNS, body_of(task_set=task_set.pk))
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"]) == (422, "/task_set")
    assert "1 of its 4 tasks: rejected, quarantined or retired. Make a new version" in error["detail"]
    assert "not proven" not in error["detail"]


def test_a_viewer_hears_that_it_takes_an_operator() -> None:
    response = post(client_of(make_user("vic", "viewer")), RUNS, body_of())
    assert response.status_code == 403
    assert "needs the role operator in project default; you are viewer" in response.json()["detail"]
    assert not Run.objects.exists()


def test_an_invisible_task_set_reads_like_one_that_does_not_exist() -> None:
    hidden, client = make_task_set(make_project("other")), operator()
    known, unknown = (
        post(client, RUNS, body_of(task_set=key, policy=make_policy(name=str(key)).pk)) for key in (hidden.pk, 999_999)
    )
    assert known.status_code == unknown.status_code == 400
    texts = [response.json()["errors"][0]["detail"].replace(str(key), "N") for response, key in
             ((known, hidden.pk), (unknown, 999_999))]  # fmt: skip
    assert texts[0] == texts[1]


def test_a_policy_of_another_project_does_not_go_with_the_task_set() -> None:
    user, other = make_user("ann", "operator"), make_project("other")
    Membership.objects.create(project=other, user=user, role="operator")
    response = post(client_of(user), RUNS, body_of(policy=make_policy(other, "theirs").pk))
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/policy")


def test_pausing_twice_changes_once() -> None:
    run, client = make_run(), operator()
    first = post(client, f"{RUNS}/{run.pk}/pause", {"reason": "lunch"}).json()
    again = post(client, f"{RUNS}/{run.pk}/pause", {}).json()
    assert (first["changed"], again["changed"]) == (True, False)
    assert (first["run"]["state"], again["run"]["state"]) == ("paused", "paused")
    history = client.get(f"{RUNS}/{run.pk}").json()["history"]
    assert (history[-1]["after"], history[-1]["actor"], history[-1]["reason"]) == ("paused", "ann", "lunch")


def test_a_paused_run_resumes_and_cancels() -> None:
    run, client = make_run(), operator()
    post(client, f"{RUNS}/{run.pk}/pause", {})
    assert post(client, f"{RUNS}/{run.pk}/resume", {}).json()["run"]["state"] == "queued"
    assert post(client, f"{RUNS}/{run.pk}/cancel", {}).json()["run"]["state"] == "cancelling"
    response = post(client, f"{RUNS}/{run.pk}/resume", {})
    assert (response.status_code, response.json()["code"]) == (409, "run_state")


def test_a_viewer_controls_nothing() -> None:
    run, client = make_run(), client_of(make_user("vic", "viewer"))
    for verb in ("pause", "resume", "cancel"):
        assert post(client, f"{RUNS}/{run.pk}/{verb}", {}).status_code == 403
    assert Run.objects.get(pk=run.pk).state == "queued"


def test_a_run_of_another_project_is_not_found_by_any_address() -> None:
    run, client = make_run(make_project("other")), client_of(make_user("ann", "admin"))
    for address in ("", "/metrics", "/ledger", "/waiting", "/export"):
        assert client.get(f"{RUNS}/{run.pk}{address}").status_code == 404
    for verb in ("pause", "resume", "cancel"):
        assert post(client, f"{RUNS}/{run.pk}/{verb}", {}).status_code == 404
    assert client.get(RUNS).json()["results"] == []


def test_an_unknown_filter_is_named() -> None:
    response = operator().get(f"{RUNS}?stat=running")
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"], error["code"]) == (400, "/stat", "unknown_filter")
    assert "state" in error["detail"]


def test_runs_are_filtered_by_state_and_an_unknown_state_is_refused() -> None:
    make_run(), make_run(name="second").move("paused")
    client = operator()
    assert [row["name"] for row in client.get(f"{RUNS}?state=paused").json()["results"]] == ["second"]
    assert client.get(f"{RUNS}?state=sleeping").status_code == 400


def test_pages_follow_each_other_newest_first_while_runs_arrive() -> None:
    for number in range(5):
        make_run(name=f"r{number}")
    client = operator()
    page = client.get(f"{RUNS}?limit=2&count=true").json()
    assert page["count"] == 5
    make_run(name="late")
    names = [row["name"] for row in page["results"]]
    while page["next"]:
        page = client.get(page["next"]).json()
        names += [row["name"] for row in page["results"]]
    assert names == ["r4", "r3", "r2", "r1", "r0"]


@pytest.mark.parametrize("query", ["limit=501", "limit=0", "limit=-1", "limit=x", "cursor=nonsense", "count=maybe"])
def test_a_page_that_cannot_be_had_is_refused_not_cut(query: str) -> None:
    response = operator().get(f"{RUNS}?{query}")
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/" + query.partition("=")[0]


def test_a_list_of_runs_takes_two_queries_however_long(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    client = operator()
    for number in range(5):
        make_run(name=f"r{number}")
    client.get(RUNS)
    with django_assert_max_num_queries(2):  # the token, the rows
        assert len(client.get(RUNS).json()["results"]) == 5


def test_presets_come_with_their_configs_whole() -> None:
    found = {row["name"]: row for row in operator().get("/api/v1/presets").json()}
    assert found["control"]["formula"] == "coin@1"
    assert found["evaluate"]["config"]["evaluation_tries"] == 4
