"""Task sets, tasks, and the evidence that they can be trusted."""

import html

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Membership, Project, User
from apps.dashboard.queries.tasks import PAGE, task_sets
from apps.rollouts.models import Group, Rollout
from apps.tasks.models import Task, TaskVersion
from apps.trajectories.store import object_store
from tests.apps.dashboard.factory import make_run
from tests.apps.dashboard.people import make_task_set, make_user, make_version

pytestmark = pytest.mark.django_db


def test_without_tasks_the_page_says_where_they_come_from(client: Client) -> None:
    client.force_login(make_user("ana", "operator"))
    assert "No tasks yet" in client.get("/tasks").content.decode()


def test_a_set_tells_its_splits_and_what_is_not_proven(client: Client) -> None:
    _signed_in(client)
    make_task_set(Project.default(), object_store(), train=1, held_out=1, unseen=1)
    TaskVersion.objects.filter(task__name="copy-file-train-0").update(state="linted")
    page = client.get("/tasks").content.decode()
    assert "17 of 18" in page
    assert "solution solved, doing nothing unsolved" in page


def test_tasks_are_narrowed_by_state_family_and_name(client: Client) -> None:
    _signed_in(client)
    make_task_set(Project.default(), object_store(), train=1, held_out=1, unseen=0)
    TaskVersion.objects.filter(task__name="told-word-train-0").update(state="rejected")
    for query, many in (("state=rejected", 1), ("family=told-word", 2), ("q=held-out", 8), ("q=x&family=told-word", 0)):
        assert client.get(f"/tasks?{query}").content.decode().count('class="name" href="/tasks/') == many


def test_tasks_of_a_set_stand_with_the_version_that_it_holds(client: Client) -> None:
    _signed_in(client)
    task_set = make_task_set(Project.default(), object_store(), train=1, held_out=0, unseen=0)
    make_version(Project.default(), object_store(), "elsewhere", "told-word")
    held = TaskVersion.objects.get(task__name="told-word-train-0")
    newer = {"number": 2, "digest": "f" * 64, "key": held.key, "instruction": "", "round_limit": 1}
    TaskVersion.objects.create(task=held.task, state="rejected", **newer)
    page = client.get(f"/tasks?set={task_set.pk}").content.decode()
    assert page.count('class="name" href="/tasks/') == 8
    assert f'href="/tasks/{held.task_id}?version=1"' in page
    assert f'<option value="{task_set.pk}" selected>' in page
    assert "No task matches" in client.get(f"/tasks?set={task_set.pk}&state=rejected").content.decode()


def test_tasks_of_one_name_stand_on_one_page_each(client: Client) -> None:
    user, other = _signed_in(client), Project.objects.create(slug="other", name="Other")
    Membership.objects.create(project=other, user=user, role="viewer")
    Task.objects.bulk_create(Task(project=Project.default(), name=f"a-{i:03}", family="f") for i in range(PAGE - 1))
    for project in (Project.default(), other):
        Task.objects.create(project=project, name="twice", family="f")
    first = client.get("/tasks").content.decode()
    assert first.count(">twice<") == 1
    following = html.unescape(first.split('<a href="?after=')[1].split('"')[0])
    second = client.get(f"/tasks?after={following}").content.decode()
    assert second.count('class="name" href="/tasks/') == second.count(">twice<") == 1


def test_the_runs_of_a_set_do_not_multiply_its_tasks(client: Client) -> None:
    user = _signed_in(client)
    task_set = make_task_set(Project.default(), object_store(), train=1, held_out=1, unseen=1)
    for name in ("one", "two"):
        make_run(user, name=name, task_set=task_set)
    (row,) = task_sets(user)
    assert (row.tasks, row.train, row.proven, row.played) == (18, 8, 18, 2)


def test_the_list_asks_the_same_number_of_queries_for_any_number_of_tasks(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    _signed_in(client)
    make_task_set(Project.default(), object_store(), train=2, held_out=1, unseen=1)
    with django_assert_max_num_queries(12):
        client.get("/tasks")


def test_a_task_shows_instruction_files_and_proof(client: Client) -> None:
    _signed_in(client)
    version = make_version(Project.default(), object_store(), "told-word-1", "told-word", rounds=2)
    page = client.get(f"/tasks/{version.task_id}").content.decode()
    for words in (
        "Write the password",
        "solution/solve.sh",
        "Reference solution passes",
        "Doing nothing fails",
        "2 rounds",
    ):
        assert words in page


def test_a_proof_leads_to_its_run_and_rollouts_and_says_when_in_utc(client: Client) -> None:
    _signed_in(client)
    version = make_version(Project.default(), object_store(), "told-word-1", "told-word")
    version.note_evidence(
        run=7,
        decided_at="2026-11-30T23:57:35.148940+01:00",
        reference={"verdict": "solved", "score": 1.0, "rollout": 12, "error": ""},
    )
    page = client.get(f"/tasks/{version.task_id}").content.decode()
    assert '<a href="/runs/7">run 7</a>' in page
    assert '<a href="/rollouts/12">rollout 12</a>, score 1.0' in page
    assert "30 Nov 2026 22:57:35 UTC" in page
    assert "2026-11-30T" not in page.split("Proof")[1].split("Proof rollouts")[0]


def test_proof_rollouts_stand_with_their_verdict(client: Client) -> None:
    user = _signed_in(client)
    run = make_run(user)
    version = run.task_set.versions("train").first()
    assert version is not None
    group = Group.objects.create(run=run, task_version=version, purpose="control", script="nothing", size=1)
    rollout = Rollout.objects.create(run=run, group=group, index=0)
    page = client.get(f"/tasks/{version.task_id}").content.decode()
    assert f'href="/rollouts/{rollout.pk}"' in page
    assert "doing nothing" in page


def test_what_a_task_says_is_inert(client: Client) -> None:
    _signed_in(client)
    hostile = "</pre><script>alert(1)</script>\u202e\x1b[31m"
    version = make_version(Project.default(), object_store(), "odd", "told-word", instruction=hostile)
    page = client.get(f"/tasks/{version.task_id}").content.decode()
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_a_folder_that_is_gone_is_said(client: Client) -> None:
    _signed_in(client)
    version = make_version(Project.default(), object_store(), "gone", "told-word")
    object_store().delete(version.key)
    assert "not in the object store" in client.get(f"/tasks/{version.task_id}").content.decode()


def test_a_folder_that_cannot_be_read_is_said(client: Client) -> None:
    _signed_in(client)
    version = make_version(Project.default(), object_store(), "torn", "told-word")
    object_store().put(version.key, b"no tar at all" * 100)
    assert "cannot be read" in client.get(f"/tasks/{version.task_id}").content.decode()


def test_an_unseen_task_is_the_same_as_none(client: Client) -> None:
    version = make_version(Project.default(), object_store(), "mine", "told-word")
    client.force_login(make_user("eve", "admin", Project.objects.create(slug="other", name="Other")))
    assert client.get(f"/tasks/{version.task_id}").status_code == 404
    assert client.get("/tasks/999999").status_code == 404
    assert "mine" not in client.get("/tasks").content.decode()


def test_there_is_no_version_that_is_not(client: Client) -> None:
    _signed_in(client)
    version = make_version(Project.default(), object_store(), "one", "told-word")
    assert client.get(f"/tasks/{version.task_id}?version=7").status_code == 404


def _signed_in(client: Client) -> User:
    user = make_user("ana", "operator")
    client.force_login(user)
    return user
