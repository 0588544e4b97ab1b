"""What stands around every page: signing in, search, errors, and a policy that leaves no inline script or style."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.rollouts.models import Rollout
from tests.apps.dashboard.factory import small_run
from tests.apps.dashboard.people import make_user

HANDLER = re.compile(r"\son[a-z]+\s*=", re.IGNORECASE)


@pytest.mark.django_db
def test_no_page_holds_inline_script_or_style(client: Client) -> None:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    rollout = Rollout.objects.of(run).filter(state="recorded").first()
    assert rollout is not None
    task = run.task_set.entries.select_related("task_version").first()
    assert task is not None
    pages = ["/", "/runs/new", "/tasks", "/fleet", "/policies", "/nothing-here", f"/tasks/{task.task_version.task_id}"]
    pages += [f"/runs/{run.pk}{part}" for part in ("", "/rollouts", "/events", "/config")]
    pages += [f"/rollouts/{rollout.pk}", f"/rollouts/{rollout.pk}?view=tokens"]
    for address in pages:
        answer = client.get(address)
        page = answer.content.decode()
        assert " style=" not in page, address
        assert "<style" not in page, address
        assert not HANDLER.search(re.sub(r'="[^"]*"', '=""', page)), address
        scripts = re.findall(r"<script([^>]*)>", page)
        assert all("src=" in one or "application/json" in one for one in scripts), address
        assert "script-src 'self'" in answer["Content-Security-Policy"]
        assert "unsafe" not in answer["Content-Security-Policy"]


@pytest.mark.django_db
def test_a_wrong_password_is_told_without_saying_which_part_is_wrong(client: Client) -> None:
    make_user("ana")
    for name in ("ana", "nobody"):
        page = client.post("/login/", {"username": name, "password": "wrong"}).content.decode()
        assert "do not belong together" in page


@pytest.mark.django_db
def test_signing_in_leads_to_the_page_that_was_asked_for(client: Client) -> None:
    make_user("ana")
    answer = client.post("/login/?next=/tasks", {"username": "ana", "password": "open sesame", "next": "/tasks"})
    assert answer["Location"] == "/tasks"


@pytest.mark.django_db
def test_signing_in_leads_to_no_other_site(client: Client) -> None:
    make_user("ana")
    answer = client.post("/login/", {"username": "ana", "password": "open sesame", "next": "https://evil.example/"})
    assert answer["Location"] == "/"


@pytest.mark.django_db
def test_signing_out_takes_a_post(client: Client) -> None:
    client.force_login(make_user("ana"))
    assert client.get(reverse("dashboard:sign_out")).status_code == 405
    assert client.post(reverse("dashboard:sign_out"))["Location"].startswith("/login/")


@pytest.mark.django_db
def test_search_finds_runs_by_number_and_tasks_by_name(client: Client) -> None:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    assert run.name in client.get(f"/search?q={run.pk}").content.decode()
    assert "told-word-train-0" in client.get("/search?q=told-word-tr").content.decode()
    assert "Nothing of that name" in client.get("/search?q=zzzz").content.decode()


@pytest.mark.django_db
def test_the_sign_in_page_says_where_the_first_password_is(client: Client) -> None:
    page = client.get("/login/").content.decode()
    for words in ("make up", "make demo", "manage.py changepassword admin"):
        assert words in page
    assert "createsuperuser" not in page
