"""The run page tells how commands ended and what broke on us, each count with what it is a count of."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from apps.dashboard.queries.endings import BOUNDARIES, endings
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.models import Run
from apps.trajectories.models import CommandEnds
from tests.apps.dashboard.factory import make_run
from tests.apps.dashboard.people import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return make_run(make_user("ana", "viewer"))


def attempts(run: Run, *endings_of: tuple[str, str, str]) -> None:
    """(state, kind, detail) of each."""
    task = run.task_set.versions("train")[0]
    group = Group.objects.create(run=run, task_version=task, purpose="train", size=len(endings_of))
    for index, (state, kind, detail) in enumerate(endings_of):
        rollout = Rollout.objects.create(run=run, group=group, index=index, state="planned")
        Attempt.objects.create(
            run=run, rollout=rollout, number=1, fence=1, claimed_at=timezone.now(), state=state,
            ending_kind=kind, ending_detail=detail,
        )  # fmt: skip


def text(client: Client, run: Run) -> str:
    page = client.get(f"/runs/{run.pk}", headers={"HX-Target": "live-parts"}).content.decode()
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))


def test_ends_of_commands_stand_in_words_with_their_share(client: Client, run: Run) -> None:
    for end, count in (("exited", 95), ("timed_out", 4), ("of tomorrow", 1)):
        CommandEnds.objects.create(run=run, end=end, count=count)
    client.force_login(run.created_by or make_user("eve", "viewer"))
    page = text(client, run)
    assert "of 100 commands in recorded attempts" in page
    assert re.search(r"Ended by themselves 95 95\.0 \[88\.8,.97\.8\]", page)
    assert re.search(r"Ran out of time 4 4\.0 \[1\.6,", page)
    assert "of tomorrow 1 1.0" in page
    assert "Filled the disk" not in page


def test_what_broke_is_told_by_boundary_of_the_attempts_that_could_be_played(client: Client, run: Run) -> None:
    attempts(
        run,
        *[("recorded", "submitted", "")] * 5,
        ("recorded", "infra", "box"),
        ("recorded", "infra", "policy"),
        ("recorded", "infra", "task"),
        ("lost", "", ""),
        ("active", "", ""),
        ("cancelled", "", ""),
    )
    found = endings(run)
    assert (found.attempts, found.at_task, found.broken_total) == (8, 1, 3)
    assert {line.name: line.count for line in found.broken if line.count} == {
        "Box": 1,
        "Policy server": 1,
        "Lost with their worker": 1,
    }
    client.force_login(run.created_by or make_user("eve", "viewer"))
    page = text(client, run)
    assert "of 8 ended attempts" in page
    assert "1 attempt broke at the task itself, left out" in page


def test_a_boundary_at_which_nothing_broke_says_0_of_them(run: Run) -> None:
    attempts(run, ("recorded", "submitted", ""))
    assert [(line.count, line.share.n) for line in endings(run).broken] == [(0, 1)] * len(BOUNDARIES)


def test_a_run_that_has_played_nothing_says_what_to_look_at(client: Client, run: Run) -> None:
    client.force_login(run.created_by or make_user("eve", "viewer"))
    page = text(client, run)
    assert "Nothing is played yet" in page
    assert "No attempt has ended yet" in page
