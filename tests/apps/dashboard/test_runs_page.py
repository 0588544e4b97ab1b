"""The list of runs."""

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Project
from apps.pipeline.learn import ended_by
from apps.runs.models import Run
from tests.apps.dashboard.factory import make_run, small_run
from tests.apps.dashboard.people import make_user

pytestmark = pytest.mark.django_db


def test_the_first_page_says_what_to_do(client: Client) -> None:
    client.force_login(make_user("ana", "operator"))
    page = client.get("/").content.decode()
    assert "No runs yet" in page
    assert "make demo" in page


def test_nobody_sees_anything_before_signing_in(client: Client) -> None:
    for address in (
        "/",
        "/runs/1",
        "/runs/new",
        "/runs/1/live",
        "/tasks",
        "/fleet",
        "/policies",
        "/rollouts/1",
        "/search",
    ):
        assert client.get(address)["Location"].startswith("/login/")


def test_a_run_stands_with_its_completion_and_interval(client: Client) -> None:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    page = client.get("/").content.decode()
    last = run.evaluations.filter(suite="held-out").order_by("-version").first()
    assert last is not None
    assert last.estimate is not None
    assert f'{100 * last.estimate:.1f} <span class="ci">[' in page
    assert "5 of 62 steps" in page


@pytest.mark.parametrize(("budget", "words"), [("max_seconds", "time limit"), ("max_sampled_tokens", "token limit")])
def test_a_training_that_a_budget_ended_does_not_look_half_done(client: Client, budget: str, words: str) -> None:
    user = make_user("ana", "operator")
    run = small_run(user)
    run.end_training(ended_by(run, run.config.changed(**{budget: 1}), now=timezone.now()))
    client.force_login(user)
    for address in ("/", f"/runs/{run.pk}"):
        assert f"5 steps, {words}" in client.get(address).content.decode()
    full = 'class="fill" width="100.0%"'
    assert full not in client.get("/").content.decode()
    Run.objects.filter(pk=run.pk).update(state="finished")
    assert full in client.get("/").content.decode()


def test_the_list_is_narrowed_by_state_and_text(client: Client) -> None:
    user = make_user("ana", "operator")
    kept = make_run(user, name="alpha")
    make_run(user, name="beta", state="failed", task_set=kept.task_set)
    client.force_login(user)
    assert _names(client, "/?state=failed") == ["beta"]
    assert _names(client, "/?q=alp") == ["alpha"]
    assert "2 runs are hidden" in client.get("/?q=nothing").content.decode()


def test_a_filter_of_an_unknown_state_finds_nothing(client: Client) -> None:
    user = make_user("ana", "operator")
    make_run(user)
    client.force_login(user)
    assert _names(client, "/?state=odd") == []


def test_runs_of_other_projects_are_not_there(client: Client) -> None:
    run = make_run(make_user("ana", "operator"))
    client.force_login(make_user("eve", "admin", Project.objects.create(slug="other", name="Other")))
    assert run.name not in client.get("/").content.decode()
    assert run.name not in client.get("/search?q=warm").content.decode()


def test_the_number_of_queries_does_not_grow_with_the_runs(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    user = make_user("ana", "operator")
    first = make_run(user, name="run 0")
    for number in range(1, 12):
        make_run(user, name=f"run {number}", task_set=first.task_set)
    client.force_login(user)
    with django_assert_max_num_queries(18):
        client.get("/")


def test_older_runs_are_reached_by_key(client: Client) -> None:
    user = make_user("ana", "operator")
    first = make_run(user, name="oldest")
    Run.objects.bulk_create(
        Run(
            project=first.project,
            name=f"n{i}",
            kind="training",
            task_set=first.task_set,
            policy=first.policy,
            formula="score@1",
            state="queued",
        )
        for i in range(50)
    )
    client.force_login(user)
    page = client.get("/").content.decode()
    assert "oldest" not in page
    key = page.split("before=")[1].split('"')[0]
    assert _names(client, f"/?before={key}") == ["oldest"]


def test_a_fragment_holds_the_rows_and_the_pill_alone(client: Client) -> None:
    user = make_user("ana", "operator")
    make_run(user)
    client.force_login(user)
    page = client.get("/", headers={"HX-Target": "run-rows"}).content.decode()
    assert "warm-grpo-7" in page
    assert "<html" not in page
    assert 'hx-swap-oob="true">Polling every 10 s, 1 active' in page


def test_older_runs_are_not_replaced_by_the_newest(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user)
    client.force_login(user)
    assert client.get("/").content.decode().count("every 10s") == 1
    older = client.get(f"/?before={run.pk + 1}").content.decode()
    assert run.name in older
    assert "every 10s" not in older
    assert "As of" in older


def _names(client: Client, address: str) -> list[str]:
    page = client.get(address).content.decode()
    return [part.split("<")[0].split(">")[1] for part in page.split('<a class="name"')[1:]]
