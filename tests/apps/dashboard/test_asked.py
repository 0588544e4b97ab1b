"""Addresses and forms that no page made: refused with a page of ours, never broken by."""

import pytest
from django.core.exceptions import BadRequest
from django.test import Client

from apps.dashboard import asked
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from tests.apps.dashboard.factory import make_run, small_run
from tests.apps.dashboard.people import make_user


def test_text_is_trimmed_and_holds_no_nul() -> None:
    assert asked.text({"q": " told "}, "q") == "told"
    assert asked.text({}, "q") == ""
    with pytest.raises(BadRequest):
        asked.text({"q": "a\0"}, "q")


def test_a_number_is_none_where_it_is_none_and_never_too_long() -> None:
    assert asked.number({"since": "12"}, "since") == 12
    assert asked.number({"since": "x"}, "since") is None
    with pytest.raises(BadRequest):
        asked.number({"since": "9" * 19}, "since")


@pytest.mark.django_db
def test_no_address_breaks_a_page(client: Client) -> None:
    user = make_user("ana", "operator")
    run = small_run(user)
    rollout = Rollout.objects.of(run)[:1].get().pk
    task = run.task_set.entries.select_related("task_version")[:1].get().task_version.task_id
    client.force_login(user)
    texts = ["/?q=", "/?state=", "/?before=", "/search?q=", "/tasks?q=", "/tasks?state=", "/tasks?family="]
    texts += [
        "/tasks?after=",
        f"/tasks/{task}?version=",
        f"/rollouts/{rollout}?attempt=",
        f"/runs/{run.pk}/live?since=",
    ]
    texts += [f"/runs/{run.pk}/events?before="]
    texts += [f"/runs/{run.pk}/rollouts?{name}=" for name in ("purpose", "verdict", "ending", "family", "before")]
    for address in (*texts, f"/runs/{run.pk}/rollouts?version="):
        answer = client.get(f"{address}%00")
        assert answer.status_code == 400, address
        assert "cannot be read" in answer.content.decode()
        assert client.get(address + "9" * 5000).status_code in (200, 400), address
    for number in ("9" * 30, "9" * 5000):
        for address in ("/runs/{}", "/rollouts/{}", "/tasks/{}", "/runs/{}/pause"):
            assert client.post(address.format(number)).status_code in (404, 405), address
            assert client.get(address.format(number)).status_code in (404, 405), address


@pytest.mark.django_db
def test_a_reason_that_cannot_be_kept_changes_nothing(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user)
    client.force_login(user)
    page = client.post(f"/runs/{run.pk}/pause", {"reason": "a\0b"}, follow=True).content.decode()
    assert "Nothing changed: the reason holds a NUL character." in page
    assert Run.objects.get(pk=run.pk).state == "running"
