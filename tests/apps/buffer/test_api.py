"""The ledger by the API."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.buffer.ledger import ledger
from apps.rollouts.models import Attempt
from apps.trajectories.models import Trajectory
from tests.apps.making import client_of, make_run, make_user, play

pytestmark = pytest.mark.django_db


def test_the_ledger_of_a_run_adds_up() -> None:
    run = make_run()
    play(run, ["solved", "unsolved", "none"])
    found = client_of(make_user("ann", "viewer")).get(f"/api/v1/runs/{run.pk}/ledger").json()
    assert (found["claimed"], found["recorded"], found["exact"], found["problems"]) == (3, 3, True, [])
    assert (found["recorded_tokens"], found["buffered_tokens"], found["discarded_tokens"]) == (9, 9, {})


def test_a_sum_that_does_not_agree_is_said() -> None:
    run = make_run()
    play(run, ["solved"])
    Attempt.objects.update(state="lost")
    found = client_of(make_user("ann", "viewer")).get(f"/api/v1/runs/{run.pk}/ledger").json()
    assert found["exact"] is False
    assert found["problems"] == ["attempts: 0 recorded, 1 trajectories"]


def test_an_attempt_that_does_not_enter_is_a_problem_after_a_minute_or_the_end() -> None:
    run = make_run()
    play(run, ["solved"])
    missing = ("attempts: 1 recorded, but neither buffered nor discarded",)
    assert ledger(run).exact
    Trajectory.objects.update(recorded_at=timezone.now() - timedelta(seconds=61))
    assert ledger(run).problems == missing
    Trajectory.objects.update(recorded_at=timezone.now())
    run.end("failed", timezone.now(), reason="broke")
    assert ledger(run).problems == missing
