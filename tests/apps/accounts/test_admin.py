"""The admin's pages open, and do not write what only verbs write."""

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, Project, User
from tests.apps.making import make_run

pytestmark = pytest.mark.django_db


def admin_client() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize(
    "page",
    ["accounts/user", "accounts/project", "accounts/apitoken", "tasks/task", "tasks/taskversion", "tasks/taskset",
     "policies/policy", "runs/run"],
)  # fmt: skip
def test_every_list_opens(page: str) -> None:
    make_run()
    assert admin_client().get(f"/admin/{page}/").status_code == 200


def test_every_object_opens() -> None:
    run, client = make_run(), admin_client()
    entry = run.task_set.entries.select_related("task_version")[0]
    pages = {
        "runs/run": run.pk,
        "tasks/taskset": run.task_set_id,
        "tasks/task": entry.task_version.task_id,
        "tasks/taskversion": entry.task_version_id,
        "policies/policy": run.policy_id,
        "accounts/project": run.project_id,
    }
    for page, key in pages.items():
        assert client.get(f"/admin/{page}/{key}/change/").status_code == 200, page


def test_runs_are_neither_written_nor_deleted_there() -> None:
    run, client = make_run(), admin_client()
    assert client.post(f"/admin/runs/run/{run.pk}/change/", {"name": "other"}).status_code == 403
    assert client.post(f"/admin/runs/run/{run.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get("/admin/runs/run/add/").status_code == 403


def test_chosen_tokens_are_revoked() -> None:
    client = admin_client()
    token, _ = ApiToken.issue(User.objects.get(username="root"), "x")
    client.post("/admin/accounts/apitoken/", {"action": "revoke", "_selected_action": [token.pk]})
    assert ApiToken.objects.get(pk=token.pk).revoked_at is not None


def test_a_member_without_staff_rights_does_not_get_in() -> None:
    client = Client()
    client.force_login(User.objects.create_user("ann"))
    assert client.get("/admin/").status_code == 302
    assert Project.objects.count() == 0
