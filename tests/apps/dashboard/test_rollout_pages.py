"""The rollout table and the rollout page."""

from random import Random

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Project
from apps.fleet.models import Worker
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.models import Run
from apps.tasks.models import TaskVersion
from apps.trajectories.models import Trajectory
from apps.trajectories.store import object_store
from tests.apps.dashboard.factory import Builder, make_run, small_run
from tests.apps.dashboard.outcomes import make_outcome
from tests.apps.dashboard.people import make_user
from tests.apps.dashboard.test_fleet_page import make_worker

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202eevil"


def test_the_table_is_narrowed_by_each_filter(client: Client) -> None:
    run = _signed_in(client)
    for query, expected in (
        ("purpose=train", Rollout.objects.of(run).filter(group__purpose="train")),
        ("verdict=solved", Rollout.objects.of(run).filter(trajectories__grade__verdict="solved")),
        ("ending=limit", Rollout.objects.of(run).filter(trajectories__ending_kind="limit")),
        (
            "family=told-word&purpose=evaluation",
            Rollout.objects.of(run).filter(group__task_version__task__family="told-word", group__purpose="evaluation"),
        ),
    ):
        page = client.get(f"/runs/{run.pk}/rollouts?{query}").content.decode()
        shown = {int(part.split('"')[0]) for part in page.split('class="name" href="/rollouts/')[1:]}
        wanted = set(expected.order_by("-id").values_list("pk", flat=True).distinct()[:50])
        assert shown == wanted, query


def test_a_filter_that_is_no_number_finds_nothing(client: Client) -> None:
    run = _signed_in(client)
    assert "No rollout matches" in client.get(f"/runs/{run.pk}/rollouts?version=latest").content.decode()


def test_pages_follow_each_other_without_gap_or_repeat(client: Client) -> None:
    run = _signed_in(client)
    address, seen = f"/runs/{run.pk}/rollouts", []
    while address:
        page = client.get(address).content.decode()
        seen += [int(part.split('"')[0]) for part in page.split('class="name" href="/rollouts/')[1:]]
        more = page.split("before=")[1:] if "Older" in page else []
        address = f"/runs/{run.pk}/rollouts?before={more[0].split(chr(34))[0]}" if more else ""
    assert seen == list(Rollout.objects.of(run).order_by("-id").values_list("pk", flat=True))


def test_the_table_asks_the_same_number_of_queries_for_any_page(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = _signed_in(client)
    with django_assert_max_num_queries(10):
        client.get(f"/runs/{run.pk}/rollouts")


def test_every_round_stands_there_with_who_wrote_it(client: Client) -> None:
    run = _signed_in(client)
    trajectory = Trajectory.objects.of(run).filter(rounds=2, counts=True, rollout__group__purpose="train").first()
    assert trajectory is not None
    page = client.get(f"/rollouts/{trajectory.rollout_id}").content.decode()
    assert page.count('<article class="round"') == 2
    assert "cat note.txt" in page
    assert f"policy {trajectory.newest_version}" in page
    assert "out.txt holds the word" in page
    assert "Graded in a fresh box" in page


def test_ending_and_verdict_stand_apart(client: Client) -> None:
    run = _signed_in(client)
    trajectory = Trajectory.objects.of(run).filter(ending_kind="limit").first()
    assert trajectory is not None
    page = client.get(f"/rollouts/{trajectory.rollout_id}").content.decode()
    assert "Unsolved" in page
    assert "Limit: rounds" in page


def test_the_token_view_shows_the_ids_exactly(client: Client) -> None:
    run = _signed_in(client)
    trajectory = Trajectory.objects.of(run).filter(counts=True, rollout__group__purpose="train").first()
    assert trajectory is not None
    ids = trajectory.load(object_store()).rounds[0].sampled_ids
    page = client.get(f"/rollouts/{trajectory.rollout_id}?view=tokens").content.decode()
    assert " ".join(map(str, ids)) in page


def test_what_the_agent_and_the_task_wrote_is_inert(client: Client) -> None:
    run = _signed_in(client)
    rollout = _play(run, solved=False, output=HOSTILE)
    for view in ("transcript", "tokens"):
        page = client.get(f"/rollouts/{rollout.pk}?view={view}").content.decode()
        assert "<script>alert" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in client.get(f"/rollouts/{rollout.pk}").content.decode()


def test_what_is_not_in_the_buffer_is_said_as_it_is(client: Client) -> None:
    run = _signed_in(client)
    group = run.groups.get(purpose="train", state="open")
    rollout = group.rollouts.filter(state="planned")[0]
    address = f"/rollouts/{rollout.pk}"
    assert "Not in the buffer yet." in client.get(address).content.decode()
    Run.objects.filter(pk=run.pk).update(state="finished")
    assert "It never came into the buffer, and the run has ended." in client.get(address).content.decode()
    Group.objects.filter(pk=group.pk).update(purpose="reference")
    assert "A reference trace does not go through the buffer" in client.get(address).content.decode()


def test_an_infra_attempt_is_ours_and_has_no_reward(client: Client) -> None:
    run = _signed_in(client)
    rollout = _play(run, solved=None, output="")
    page = client.get(f"/rollouts/{rollout.pk}").content.decode()
    assert "We broke at the box, not the agent." in page
    assert "none: we broke, which is never a reward" in page


def test_the_tabs_stay_at_the_attempt_that_was_asked_for(client: Client) -> None:
    run = _signed_in(client)
    rollout = Rollout.objects.of(run)[:1].get()
    page = client.get(f"/rollouts/{rollout.pk}?attempt=1").content.decode()
    assert 'href="?view=tokens&amp;attempt=1"' in page
    assert 'href="?view=tokens"' in client.get(f"/rollouts/{rollout.pk}").content.decode()
    assert client.get(f"/rollouts/{rollout.pk}?attempt=77").status_code == 404


@pytest.mark.parametrize(
    ("state", "digest", "words"),
    [
        ("admitted", "", "the digest that was proven"),
        ("quarantined", "", "the digest of this version, which is quarantined"),
        ("admitted", "f" * 64, "Other task content"),
    ],
)
def test_the_content_that_was_played_is_held_against_the_task_s(
    client: Client, state: str, digest: str, words: str
) -> None:
    run = _signed_in(client)
    rollout = Rollout.objects.of(run).filter(state="recorded")[:1].get()
    version = TaskVersion.objects.filter(pk=rollout.group.task_version_id)
    version.update(state=state, digest=digest or version.get().digest)
    page = client.get(f"/rollouts/{rollout.pk}").content.decode()
    assert words in page
    assert ("Same task content" in page) == (not digest)


def test_a_record_that_is_gone_leaves_the_grade(client: Client) -> None:
    run = _signed_in(client)
    trajectory = Trajectory.objects.of(run).filter(counts=True).first()
    assert trajectory is not None
    object_store().delete(trajectory.segment_id)
    page = client.get(f"/rollouts/{trajectory.rollout_id}").content.decode()
    assert "The transcript is gone." in page
    assert "out.txt holds the word" in page


def test_a_rollout_not_played_yet_says_so(client: Client) -> None:
    run = _signed_in(client)
    rollout = Rollout.objects.of(run).filter(state="planned").first()
    assert rollout is not None
    assert "Not played yet" in client.get(f"/rollouts/{rollout.pk}").content.decode()


def test_an_unseen_rollout_is_the_same_as_none(client: Client) -> None:
    run = small_run(make_user("ana", "operator"))
    rollout = Rollout.objects.of(run).first()
    assert rollout is not None
    client.force_login(make_user("eve", "admin", Project.objects.create(slug="other", name="Other")))
    assert client.get(f"/rollouts/{rollout.pk}").status_code == 404


def test_a_run_without_rollouts_says_when_they_come(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user)
    client.force_login(user)
    assert "No rollouts yet" in client.get(f"/runs/{run.pk}/rollouts").content.decode()


def _signed_in(client: Client) -> Run:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    return run


def _play(run: Run, *, solved: bool | None, output: str) -> Rollout:
    """One recorded try whose command printed this."""
    task = run.task_set.versions("train").filter(round_limit=2).first()
    assert task is not None
    group = Group.objects.create(run=run, task_version=task, purpose="train", size=1, state="complete")
    rollout = Rollout.objects.create(run=run, group=group, index=0, state="recorded", attempt=1, fence=1)
    at = run.created_at
    builder = Builder(run, run.config, object_store(), Random(1), at)
    builder.open_segment()
    outcome = make_outcome(
        Random(1),
        rollout_id=rollout.pk,
        run_id=run.pk,
        solved=solved,
        rounds=2,
        version=1,
        started_at=at.timestamp(),
        output=output,
    )
    spoken = msgspec.structs.replace(outcome.rounds[0], message=HOSTILE)
    builder.keep(rollout, msgspec.structs.replace(outcome, rounds=(spoken, *outcome.rounds[1:])), at)
    builder.close_segment()
    return rollout


def test_a_box_that_was_isolated_less_is_no_reason_for_trust(client: Client) -> None:
    run = _signed_in(client)
    attempt = Attempt.objects.of(run).filter(state="recorded")[:1].get()
    address = f"/rollouts/{attempt.rollout_id}?attempt={attempt.number}"
    assert "less than by default" not in client.get(address).content.decode()
    Worker.objects.filter(incarnation=attempt.incarnation).delete()
    make_worker(attempt.incarnation, weaker="no user namespaces", gone="stopped")
    page = client.get(address).content.decode()
    assert '<li data-tone="warn">' in page
    assert "Isolation, less than by default" in page
    assert "no user namespaces" in page
