"""Tasks and task sets by the API."""

import pytest
from pytest_django import DjangoAssertNumQueries

from apps.lifecycle.models import Transition
from apps.tasks.models import TaskVersion
from tests.apps.making import client_of, make_project, make_task, make_task_set, make_user

pytestmark = pytest.mark.django_db


def test_a_task_set_says_how_many_tasks_of_each_split_and_family_it_has() -> None:
    client, task_set = client_of(make_user("ann", "viewer")), make_task_set()
    found = client.get(f"/api/v1/task-sets/{task_set.pk}").json()
    assert (found["tasks"], found["usable"]) == (4, 4)
    assert found["splits"] == {"train": 2, "held-out": 1, "unseen": 1}
    assert found["families"] == {"count-lines": {"train": 2, "held-out": 1}, "sort-words": {"unseen": 1}}


def test_the_entries_of_a_task_set_are_filtered_by_split() -> None:
    client, task_set = client_of(make_user("ann", "viewer")), make_task_set()
    found = client.get(f"/api/v1/task-sets/{task_set.pk}/entries?split=unseen&count=true").json()
    assert (found["count"], found["next"]) == (1, None)
    assert [(row["name"], row["family"], row["state"]) for row in found["results"]] == [
        ("basics-3", "sort-words", "admitted")
    ]


def test_tasks_are_filtered_by_family_state_and_task_set() -> None:
    client, task_set = client_of(make_user("ann", "viewer")), make_task_set()
    make_task("loose", "sort-words", state="rejected")

    def names(query: str) -> list[str]:
        return sorted(row["name"] for row in client.get(f"/api/v1/tasks?{query}").json()["results"])

    assert names("family=sort-words") == ["basics-3", "loose"]
    assert names("state=rejected") == ["loose"]
    assert names(f"task_set={task_set.pk}&family=sort-words") == ["basics-3"]


def test_a_task_shows_its_newest_version_and_all_of_them() -> None:
    client, version = client_of(make_user("ann", "viewer")), make_task("one", state="admitted")
    finding = {"level": "warning", "rule": "r", "message": "m", "file": "f", "line": None}
    TaskVersion.objects.create(
        task=version.task, number=2, digest="f" * 64, key="k", instruction="Anew.", round_limit=1, findings=[finding]
    )
    found = client.get(f"/api/v1/tasks/{version.task_id}").json()
    assert (found["number"], found["state"], found["instruction"]) == (2, "imported", "Anew.")
    assert [row["number"] for row in found["versions"]] == [2, 1]
    assert found["versions"][0]["findings"] == [finding]


def test_what_is_invisible_is_not_found_anywhere() -> None:
    other = make_project("other")
    task_set = make_task_set(other)
    client = client_of(make_user("ann", "admin"))
    task = task_set.entries.select_related("task_version")[0].task_version.task_id
    for address in (f"task-sets/{task_set.pk}", f"task-sets/{task_set.pk}/entries", f"tasks/{task}"):
        assert client.get(f"/api/v1/{address}").status_code == 404
    assert (
        client.post(f"/api/v1/tasks/{task}/retire", {"reason": "x"}, content_type="application/json").status_code == 404
    )
    for address in ("task-sets", "tasks", f"tasks?task_set={task_set.pk}"):
        assert client.get(f"/api/v1/{address}").json()["results"] == []


def test_a_curator_quarantines_a_task_once_with_a_reason() -> None:
    client, version = client_of(make_user("ann", "curator")), make_task("one")
    for _ in range(2):
        response = client.post(
            f"/api/v1/tasks/{version.task_id}/quarantine", {"reason": "flaky"}, content_type="application/json"
        )
        assert (response.status_code, response.json()["state"]) == (200, "quarantined")
    row = Transition.objects.get(subject="task", subject_id=version.pk)
    assert (row.actor, row.reason) == ("ann", "flaky")


def test_an_operator_hears_which_role_it_takes() -> None:
    client, version = client_of(make_user("ann", "operator")), make_task("one")
    response = client.post(f"/api/v1/tasks/{version.task_id}/retire", {"reason": "x"}, content_type="application/json")
    assert response.status_code == 403
    assert "needs the role curator" in response.json()["detail"]


def test_a_state_that_has_no_such_way_is_a_conflict() -> None:
    client, version = client_of(make_user("ann", "curator")), make_task("one", state="retired")
    response = client.post(
        f"/api/v1/tasks/{version.task_id}/quarantine", {"reason": "x"}, content_type="application/json"
    )
    assert (response.status_code, response.json()["code"]) == (409, "illegal_move")


@pytest.mark.parametrize("address", ["tasks", "task-sets"])
def test_a_list_takes_the_same_few_queries_however_long(
    address: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = client_of(make_user("ann", "viewer"))
    for number in range(5):
        make_task_set(name=f"set{number}")
    client.get(f"/api/v1/{address}")
    with django_assert_max_num_queries(2):  # the token, the rows
        assert client.get(f"/api/v1/{address}").status_code == 200
