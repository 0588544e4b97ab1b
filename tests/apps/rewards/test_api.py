"""Rollouts by the API, with verdict and reward."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from apps.rollouts.models import Rollout
from tests.apps.making import client_of, make_project, make_run, make_user, play

pytestmark = pytest.mark.django_db
ROLLOUTS = "/api/v1/rollouts"


def rows(query: str) -> list[dict[str, Any]]:
    client = client_of(make_user(f"user{query}", "viewer"))
    found: list[dict[str, Any]] = client.get(f"{ROLLOUTS}?{query}").json()["results"]
    return found


def test_a_rollout_is_shown_with_its_verdict_and_reward() -> None:
    solved, unsolved = play(make_run(), ["solved", "unsolved"])
    newest, oldest = rows("")
    assert (oldest["id"], oldest["verdict"], oldest["reward"], oldest["formula"]) == (
        solved,
        "solved",
        1.0,
        "all-or-nothing@1",
    )
    assert (newest["id"], newest["verdict"], newest["reward"]) == (unsolved, "unsolved", 0.0)
    assert (oldest["ending_kind"], oldest["rounds"], oldest["sampled_tokens"]) == ("submitted", 1, 3)


def test_a_verdict_without_a_reward_yet_has_none() -> None:
    play(make_run(), ["solved"], score=False)
    (row,) = rows("")
    assert (row["verdict"], row["reward"]) == ("solved", None)


def test_what_infra_broke_waits_for_its_next_attempt_and_has_no_verdict() -> None:
    play(make_run(), ["none"])
    (row,) = rows("")
    assert (row["state"], row["verdict"], row["reward"]) == ("planned", None, None)


def test_a_parked_rollout_has_the_verdict_none() -> None:
    (broken,) = play(make_run(), ["none"])
    Rollout.objects.filter(pk=broken).update(state="parked", parked_reason="five attempts")
    (row,) = rows("verdict=none")
    assert (row["id"], row["ending_kind"]) == (broken, "infra")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("verdict=solved", 1), ("verdict=unsolved", 2), ("ending=submitted", 3), ("ending=limit", 0),
        ("family=count-lines", 4), ("family=sort-words", 0), ("purpose=train", 3), ("purpose=control", 1),
        ("state=recorded", 3), ("policy_version=0", 4), ("run=999999", 0),
    ],
)  # fmt: skip
def test_rollouts_are_filtered(query: str, found: int) -> None:
    run = make_run()
    play(run, ["solved", "unsolved", "unsolved"])
    play(run, ["none"], purpose="control")
    assert len(rows(query)) == found


def test_a_rollout_shows_its_attempts_with_their_records() -> None:
    (broken,) = play(make_run(), ["none"])
    client = client_of(make_user("ann", "viewer"))
    (attempt,) = client.get(f"{ROLLOUTS}/{broken}").json()["attempts"]
    assert (attempt["number"], attempt["ending_kind"], attempt["ending_detail"]) == (1, "infra", "box")
    assert client.get(f"/api/v1/trajectories/{attempt['trajectory']}").json()["counts"] is False


def test_rollouts_of_other_projects_are_not_found() -> None:
    (theirs,) = play(make_run(make_project("other")), ["solved"])
    client = client_of(make_user("ann", "admin"))
    assert client.get(f"{ROLLOUTS}/{theirs}").status_code == 404
    assert client.get(ROLLOUTS).json()["results"] == []


def test_a_list_of_rollouts_takes_two_queries_however_long(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    play(run, ["solved"] * 20)
    client.get(ROLLOUTS)
    with django_assert_max_num_queries(2):
        assert len(client.get(f"{ROLLOUTS}?run={run.pk}").json()["results"]) == 20
