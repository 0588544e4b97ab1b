"""Trajectories by the API: the list is counted, one of them is whole."""

import pytest
from pytest_django import DjangoAssertNumQueries

from apps.trajectories.models import Trajectory
from apps.trajectories.store import object_store
from tests.apps.making import client_of, make_project, make_run, make_user, play

pytestmark = pytest.mark.django_db
TRAJECTORIES = "/api/v1/trajectories"


def test_a_trajectory_comes_with_every_round_as_it_was_written() -> None:
    run = make_run()
    play(run, ["unsolved", "solved"])
    solved = Trajectory.objects.get(grade__verdict="solved")
    found = client_of(make_user("ann", "viewer")).get(f"{TRAJECTORIES}/{solved.pk}").json()
    assert (found["verdict"], found["rollout"], found["attempt"]) == ("solved", solved.rollout_id, 1)
    assert found["grade"]["checks"] == [{"name": "counts", "passed": True, "detail": ""}]
    (one,) = found["record"]["rounds"]
    assert (one["action"], one["sampled_ids"], one["logprobs"]) == ("wc -l lines.txt", [3, 4, 5], [-0.1, -0.2, -0.3])


def test_a_record_that_the_store_has_lost_is_null_and_the_grade_stays() -> None:
    play(make_run(), ["solved"])
    trajectory = Trajectory.objects.get()
    object_store().delete(trajectory.segment_id)
    found = client_of(make_user("ann", "viewer")).get(f"{TRAJECTORIES}/{trajectory.pk}").json()
    assert (found["record"], found["grade"]["verdict"]) == (None, "solved")


def test_trajectories_are_filtered_by_what_counts() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    play(run, ["solved", "none"])
    for query, kinds in (("counts=true", ["submitted"]), ("counts=false", ["infra"]), ("", ["infra", "submitted"])):
        assert [row["ending_kind"] for row in client.get(f"{TRAJECTORIES}?{query}").json()["results"]] == kinds


def test_trajectories_of_other_projects_are_not_found() -> None:
    play(make_run(make_project("other")), ["solved"])
    client = client_of(make_user("ann", "admin"))
    assert client.get(f"{TRAJECTORIES}/{Trajectory.objects.get().pk}").status_code == 404
    assert client.get(TRAJECTORIES).json()["results"] == []


def test_a_list_of_trajectories_takes_two_queries(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    play(run, ["solved"] * 10)
    client.get(TRAJECTORIES)
    with django_assert_max_num_queries(2):
        assert len(client.get(TRAJECTORIES).json()["results"]) == 10
