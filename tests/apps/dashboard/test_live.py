"""The live message: the same for the socket and for polling, whole from any number on."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Project
from apps.dashboard.queries.live import MOST_EVENTS, live_message
from apps.dashboard.queries.tile import MOST_NOTES
from apps.lifecycle.announce import announce, next_seq
from apps.runs.models import Run
from apps.training.models import LearnerStep
from tests.apps.dashboard.factory import make_run, small_run
from tests.apps.dashboard.people import make_user

pytestmark = pytest.mark.django_db


def test_a_page_that_missed_nothing_gets_no_events(client: Client) -> None:
    run = _signed_in(client)
    seq = _message(client, run, 0)["seq"]
    message = _message(client, run, seq)
    assert message["events"] == []
    assert (message["prev_seq"], message["seq"]) == (seq, seq)


def test_every_missed_event_comes_once_and_in_order(client: Client) -> None:
    run = _signed_in(client)
    first = announce(run.stream(), "run.revised", "one")
    announce(run.stream(), "run.revised", "two")
    assert [(one["seq"], one["text"]) for one in _message(client, run, first - 1)["events"]] == [
        (first, "one"),
        (first + 1, "two"),
    ]


def test_new_steps_come_as_rows_and_old_ones_do_not(client: Client) -> None:
    run = _signed_in(client)
    LearnerStep.objects.of(run).update(finished_at=timezone.now() - timedelta(hours=1))
    LearnerStep.objects.of(run).filter(version=5).update(finished_at=timezone.now())
    seq = announce(run.stream(), "checkpoint.live", "version 5")
    assert [row[0] for row in _message(client, run, seq)["series"]["steps"]["rows"]] == [5]


def test_tiles_and_state_are_words_that_the_page_shows_as_they_are(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}").content.decode()
    message = _message(client, run, 0)
    for tile in message["tiles"].values():
        assert f">{tile['value']}<" in page
    assert message["state"]["word"] == "Running"
    assert message["waits"]["sentence"] in page


def test_a_page_that_missed_too_much_or_knows_too_much_starts_anew(client: Client) -> None:
    run = _signed_in(client)
    assert _message(client, run, 10_000)["resync"] is True
    next_seq(run.stream(), MOST_EVENTS + 1)
    announce(run.stream(), "run.revised")
    assert _message(client, run, 0)["resync"] is True


def test_an_unseen_run_has_no_message(client: Client) -> None:
    run = make_run(make_user("ana", "operator"))
    stranger = make_user("eve", "admin", Project.objects.create(slug="other", name="Other"))
    client.force_login(stranger)
    assert client.get(f"/runs/{run.pk}/live").status_code == 404
    with pytest.raises(Run.DoesNotExist):
        live_message(stranger, run.pk, 0, timezone.now())


def test_an_empty_run_has_a_message(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state="queued")
    client.force_login(user)
    message = _message(client, run, 0)
    assert message["tiles"]["head"]["value"] == "n/a"
    assert message["series"]["train"]["rows"] == []


def test_the_page_of_an_empty_run_keeps_a_place_for_all_that_its_tiles_may_say(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state="queued")
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}").content.decode()
    for name in _message(client, run, 0)["tiles"]:
        for part in ("label", "value", "unit", "ci", *(f"notes.{line}" for line in range(MOST_NOTES))):
            assert f'data-live="tiles.{name}.{part}"' in page
        assert name == "head" or f"d=tiles.{name}.spark" in page
    for part in ("change", "change_note", "alone", "alone_note"):
        assert f'data-live="tiles.head.{part}"' in page
    assert "cx=mark.now" in page


def test_a_note_that_went_is_cleared(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state="queued")
    client.force_login(user)
    train = _message(client, run, 0)["tiles"]["train"]
    assert train["notes"] == {"0": "no graded try yet", "1": "", "2": "", "3": ""}


def _signed_in(client: Client) -> Run:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    return run


def _message(client: Client, run: Run, since: int) -> Any:
    return client.get(f"/runs/{run.pk}/live?since={since}").json()
