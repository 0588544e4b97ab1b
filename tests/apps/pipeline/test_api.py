"""What a run waits for, by the API."""

import pytest
from django.utils import timezone

from tests.apps.making import client_of, make_run, make_user, play

pytestmark = pytest.mark.django_db


def test_a_paused_run_with_nothing_in_flight_is_quiesced() -> None:
    run = make_run()
    run.move("paused")
    found = client_of(make_user("ann", "viewer")).get(f"/api/v1/runs/{run.pk}/waiting").json()
    assert (found["quiesced"], found["in_flight"], found["healthy"]) == (True, 0, True)
    assert found["sentence"] == "Paused. Nothing is in flight."


def test_rollouts_without_a_worker_are_said_to_wait_for_one() -> None:
    run = make_run()
    run.begin(timezone.now())
    play(run, ["none"])
    found = client_of(make_user("ann", "viewer")).get(f"/api/v1/runs/{run.pk}/waiting").json()
    assert (found["on"], found["healthy"]) == ("sandbox worker", False)
