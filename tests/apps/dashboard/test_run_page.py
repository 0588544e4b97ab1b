"""The run page against a run with real rows."""

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from apps.accounts.models import Project, User
from apps.alerts.models import Alert
from apps.buffer.ledger import ledger, recorded_tokens
from apps.dashboard import words
from apps.dashboard.badges import ALERTS
from apps.dashboard.queries.events import newest
from apps.dashboard.queries.runs import Wanted, run_list
from apps.dashboard.queries.steps import evaluations, live_step_rows, step_table, train_table
from apps.dashboard.queries.tiles import paired, points_interval, tiles
from apps.evaluation.compare import compare
from apps.evaluation.models import Evaluation
from apps.fleet.models import Worker
from apps.lifecycle.announce import announce
from apps.pipeline.look_after import watch
from apps.rollouts.models import Attempt, Group, Rollout
from apps.runs.models import Run
from apps.runs.states import STATES
from apps.tasks.models import TaskVersion
from apps.trajectories.models import Grade, Trajectory
from apps.trajectories.store import object_store
from tests.apps.dashboard.factory import make_run, small_run
from tests.apps.dashboard.people import make_task_set, make_user

pytestmark = pytest.mark.django_db


def test_the_answer_stands_first_with_its_comparison(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}").content.decode()
    answer = re.sub("<[^>]+>", "", page.split('<p class="answer">')[1].split("</p>")[0])
    assert re.match(r"Held-out completion (rose|fell|did not change beyond doubt:) from", answer)
    assert "paired on 8 tasks" in answer
    assert "after 2 SFT steps and 3 GRPO steps" in answer


def test_the_ledger_of_a_whole_run_balances(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert "Balanced" in page
    assert "Does not balance" not in page


def test_a_ledger_that_does_not_balance_says_so(client: Client) -> None:
    run = _signed_in(client)
    run.batches.filter(kind="grpo").update(tokens=1)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert "Does not balance" in page
    assert "sampled tokens:" in page


def test_families_of_more_rounds_and_unseen_ones_stand_apart(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}").content.decode()
    one, two = page.split("By family, one round allowed")[1].split("By family, more rounds allowed")
    two, unseen = two.split("<h2>Unseen families</h2>")
    assert "told-word" not in one
    assert "told-word" in two
    assert "rename-all" in unseen


def test_the_charts_start_from_the_numbers_in_the_page(client: Client) -> None:
    run = _signed_in(client)
    data = _data(client, run)
    assert [row[0] for row in data["series"]["steps"]["rows"]] == [1, 2, 3, 4, 5]
    assert [row[0] for row in data["series"]["held_out"]["rows"]] == [0, 2, 5]
    assert data["series"]["phases"]["rows"][1][:2] == [2, "GRPO"]
    assert data["live"] is True


def test_an_empty_run_says_what_it_waits_for(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state="queued")
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert "The run waits in the queue." in page
    assert "no evaluation has finished yet" in page
    assert "n/a" in page


def test_a_broken_run_says_why(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state="failed")
    Run.objects.filter(pk=run.pk).update(failure="loss is not finite at step 12")
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert "loss is not finite at step 12" in page
    assert "data-open-dialog" not in page
    assert _data(client, run)["live"] is False


def test_a_name_is_never_markup(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, name="<img src=x>\u202etxt")
    client.force_login(user)
    for address in (f"/runs/{run.pk}", "/", f"/runs/{run.pk}/rollouts", "/search?q=img"):
        page = client.get(address).content.decode()
        assert "<img" not in page
        assert "&lt;img src=x&gt;" in page


def test_an_unseen_run_is_the_same_as_none(client: Client) -> None:
    run = make_run(make_user("ana", "operator"))
    client.force_login(make_user("eve", "admin", Project.objects.create(slug="other", name="Other")))
    for part in ("", "/live", "/rollouts", "/events", "/config", "/series.json"):
        unseen, none = client.get(f"/runs/{run.pk}{part}"), client.get(f"/runs/999999{part}")
        assert (unseen.status_code, none.status_code) == (404, 404)
        assert _without_token(unseen.content) == _without_token(none.content)
    assert client.post(f"/runs/{run.pk}/pause").status_code == 404


def test_a_verb_is_carried_out_once_and_told(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user)
    client.force_login(user)
    page = client.post(f"/runs/{run.pk}/pause", {"reason": "node swap"}, follow=True).content.decode()
    assert run.reread().state == "paused"
    assert "by ana: node swap" in page
    assert "Nothing changed" in client.post(f"/runs/{run.pk}/pause", follow=True).content.decode()


def test_a_verb_that_comes_too_late_says_what_is_so(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state="finished")
    client.force_login(user)
    assert "there is nothing in flight" in client.post(f"/runs/{run.pk}/cancel", follow=True).content.decode()


def test_a_viewer_sees_the_verbs_with_the_role_they_take(client: Client) -> None:
    run = make_run(make_user("ana", "operator"))
    client.force_login(make_user("vera", "viewer"))
    assert 'disabled title="needs the role operator"' in client.get(f"/runs/{run.pk}").content.decode()
    answer = client.post(f"/runs/{run.pk}/pause")
    assert answer.status_code == 403
    assert "needs the role operator" in answer.content.decode()
    assert run.reread().state == "running"


def test_a_verb_needs_the_form_s_token() -> None:
    client = Client(enforce_csrf_checks=True)
    user = make_user("ana", "operator")
    run = make_run(user)
    client.force_login(user)
    answer = client.post(f"/runs/{run.pk}/cancel")
    assert answer.status_code == 403
    assert "out of date" in answer.content.decode()
    assert run.reread().state == "running"


def test_the_number_of_queries_does_not_grow_with_the_rollouts(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    run = _signed_in(client)
    group = run.groups.filter(purpose="train").first()
    Rollout.objects.bulk_create(Rollout(run=run, group=group, index=100 + i) for i in range(300))
    client.get(f"/runs/{run.pk}")
    with django_assert_max_num_queries(75):
        client.get(f"/runs/{run.pk}")


def test_events_are_paged_by_number(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}/events?before=3").content.decode()
    assert "Evaluation finished" in page
    assert page.count("<time") == 2


def test_the_config_shows_every_setting_and_its_revisions(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}/config").content.decode()
    assert "Staleness limit" in page
    assert "launched" in page


def _signed_in(client: Client) -> Run:
    user = make_user("ana", "operator")
    run = small_run(user)
    client.force_login(user)
    return run


def _data(client: Client, run: Run) -> Any:
    page = client.get(f"/runs/{run.pk}").content.decode()
    return json.loads(page.split('id="run-data" type="application/json">')[1].split("</script>")[0])


def _without_token(page: bytes) -> bytes:
    return re.sub(rb'value="[A-Za-z0-9]{64}"', b"", page)


@pytest.mark.parametrize(
    ("kind", "words"), [("admission", "This run proves tasks."), ("evaluation", "No evaluation has finished yet.")]
)
def test_runs_of_every_kind_have_a_page(client: Client, kind: str, words: str) -> None:
    user = make_user("ana", "operator")
    run = make_run(user)
    Run.objects.filter(pk=run.pk).update(kind=kind, policy=None, endpoint=None)
    client.force_login(user)
    assert words in client.get(f"/runs/{run.pk}").content.decode()
    assert client.get(f"/runs/{run.pk}/live").status_code == 200
    assert client.get("/").status_code == 200


def test_an_admission_run_counts_its_tasks_and_shows_nothing_of_a_training(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, task_set=make_task_set(Project.default(), object_store(), train=1, held_out=1, unseen=1))
    Run.objects.filter(pk=run.pk).update(kind="admission", policy=None, endpoint=None)
    versions = list(TaskVersion.objects.filter(entries__task_set=run.task_set).order_by("pk"))
    for version, state in zip(versions, ("rejected", "linted", "linted", "controls", "retired"), strict=False):
        TaskVersion.objects.filter(pk=version.pk).update(state=state)
    Group.objects.create(run=run, task_version=versions[1], purpose="control", script="nothing", size=1)
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}").content.decode()
    shown = re.sub(r"<[^>]+>", " ", page.split('aria-label="Key numbers"')[1].split("</section>")[0])
    for said in (
        "Admitted 13 of 18 tasks 1 task in other states",
        "Rejected 1 of 18 tasks",
        "Without a verdict 1 of 18 tasks",
        "Still to come 2 of 18 tasks",
    ):
        assert said in " ".join(shown.split())
    assert f'href="/tasks?set={run.task_set_id}&amp;state=rejected"' in page
    for absent in ("data-chart=", "Staleness", "evaluation of version 0", 'id="h-l"', 'id="h-eval"', "plotly"):
        assert absent not in page, absent
    assert client.get(f"/runs/{run.pk}/live").json()["tiles"]["rejected"]["value"] == "1"


def test_an_evaluation_run_shows_nothing_of_a_training(client: Client) -> None:
    user = make_user("ana", "operator")
    run = make_run(user)
    Run.objects.filter(pk=run.pk).update(kind="evaluation")
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}").content.decode()
    for absent in ("Staleness", "Train completion", 'data-chart="reward"', 'id="h-l"', "learner has not stepped"):
        assert absent not in page, absent
    for shown in ("Held-out completion", 'data-chart="completion"', 'data-chart="unseen"', 'id="h-eval"'):
        assert shown in page


@pytest.mark.parametrize("state", sorted(STATES))
def test_runs_of_every_state_have_a_page(client: Client, state: str) -> None:
    user = make_user("ana", "operator")
    run = make_run(user, state=state, task_set=make_task_set(Project.default(), object_store(), train=1, held_out=0))
    client.force_login(user)
    assert client.get(f"/runs/{run.pk}").status_code == 200
    assert client.get(f"/runs/{run.pk}/live").status_code == 200


def test_grpo_alone_stands_beside_the_whole_difference(client: Client) -> None:
    run = _signed_in(client)
    held_out = Evaluation.objects.filter(run=run, suite="held-out")
    warm, last = held_out.get(why="warm"), held_out.order_by("version").last()
    assert last is not None
    alone = compare(last, warm).interval
    page = client.get(f"/runs/{run.pk}").content.decode()
    change = f"{words.points(alone.estimate)} points"
    interval = points_interval(alone)
    assert f"{interval} by GRPO alone, against warm version 2" in page
    assert f"GRPO alone: {change} {interval}, against version 2 after the warm start." in page
    assert "against version 0" in page


def test_before_grpo_was_measured_nothing_is_said_of_it_alone(client: Client) -> None:
    run = _signed_in(client)
    Evaluation.objects.filter(run=run, version__gt=2).delete()
    assert "GRPO alone" not in client.get(f"/runs/{run.pk}").content.decode()


def test_an_evaluation_that_finished_again_with_more_tries_is_compared_anew(client: Client) -> None:
    run = _signed_in(client)
    first, last = evaluations(run).first, evaluations(run).last
    assert first is not None
    assert last is not None
    paired(evaluations(run))
    played = {"group__purpose": "evaluation", "group__suite": "held-out", "group__pinned_version": last.version}
    tries = list(run.rollouts.filter(**played).values_list("pk", flat=True))
    graded = Trajectory.objects.of(run).filter(rollout__in=tries, counts=True).values_list("pk", flat=True)
    Grade.objects.filter(pk__in=list(graded)).update(verdict="solved")  # key by key: one statement may be planned badly
    last.keep_result({}, timezone.now())
    assert paired(evaluations(run)) == compare(last, first)
    assert compare(last, first).better > 0


def test_tokens_of_reference_traces_are_not_sampled(client: Client) -> None:
    run = _signed_in(client)
    version = run.task_set.versions("train")[0]
    group = Group.objects.create(run=run, task_version=version, purpose="reference", size=1, script="solution")
    one = Trajectory.objects.of(run)[:1].get()
    Rollout.objects.filter(pk=one.rollout_id).update(group=group)
    Trajectory.objects.filter(pk=one.pk).update(sampled_tokens=900_000)
    assert recorded_tokens(run) == ledger(run).recorded_tokens
    assert _tokens_tile(run) == words.short_count(ledger(run).recorded_tokens)
    assert run_list(User.objects.get(username="ana"), Wanted()).rows[0].tokens == recorded_tokens(run)


def test_charts_that_are_constant_by_construction_are_not_drawn(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert "Clipped tokens" not in page
    assert "Flat groups" in page


def test_every_figure_of_the_first_rows_stands_as_a_table_too(client: Client) -> None:
    run = _signed_in(client)
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert page.count("<summary>Show as table</summary>") == 5
    for name in (
        "Held-out completion",
        "Share of graded held-out tries",
        "Tries to learn from",
        "Samples by",
        "Completion on",
    ):
        assert f'<caption class="sr">{name}' in page
    last = run.evaluations.filter(suite="unseen").order_by("version").last()
    assert last is not None
    assert f'<td class="num">{words.percent(last.estimate)} {words.interval(last.low, last.high)}</td>' in page


def test_what_broke_and_what_was_put_back_look_so(client: Client) -> None:
    run = _signed_in(client)
    for kind in ("step.failed", "segment.damaged", "run.rewound"):
        announce(run.stream(), kind, "")
    assert [(one.title, one.tone) for one in newest(run, 3)] == [
        ("Rewound", "warn"),
        ("Segment damaged", "warn"),
        ("Step failed", "broken"),
    ]
    Alert.settle(run, "policy-server", "It does not answer.", timezone.now(), severity="broken")
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert '<p class="callout" data-tone="broken">' in page
    assert "Broken: policy server." in page
    assert newest(run, 1)[0].title == "Alert: policy server"


def test_what_a_run_waits_for_is_said_once(client: Client) -> None:
    run = _signed_in(client)
    Worker.objects.of_kind("sandbox").delete()
    watch(run, now=timezone.now())
    assert Alert.objects.open().filter(run=run, kind="no-sandbox-worker").exists()
    page = client.get(f"/runs/{run.pk}").content.decode()
    assert page.split('<h2 id="h-ev">')[0].count("No sandbox worker has a fresh heartbeat") == 1
    assert '<p class="waitfor-say" data-tone="broken"' in page


def test_every_kind_of_alert_has_words() -> None:
    source = "".join(path.read_text() for path in (settings.BASE_DIR / "apps").rglob("*.py"))
    assert set(re.findall(r'Alert\.settle\(run, "([a-z-]+)"', source)) == ALERTS.keys()


def test_an_ended_run_s_starts_are_those_of_its_own_last_minutes(client: Client) -> None:
    run = _signed_in(client)
    assert "in the last 5 min; 1 worker up" in _sandbox_notes(run)
    Run.objects.filter(pk=run.pk).update(state="finished", finished_at=timezone.now())
    assert "in its last 5 min" in _sandbox_notes(run.reread())


def test_what_broke_at_its_task_is_apart_from_what_broke_on_us(client: Client) -> None:
    run = _signed_in(client)
    ended = Attempt.objects.of(run).ended()
    one = ended[0]
    Attempt.objects.of(run).exclude(pk=one.pk).filter(ending_kind="infra").update(ending_kind="submitted")
    Attempt.objects.filter(pk=one.pk).update(ending_kind="infra", ending_detail="task")
    notes = _sandbox_notes(run)
    assert any(note.startswith("infra 0.0 %") and f"of {ended.count() - 1} attempts" in note for note in notes)
    assert "1 attempt broke at the task itself, left out" in notes


def _sandbox_notes(run: Run) -> tuple[str, ...]:
    found = evaluations(run)
    made = tiles(run, run.config, found, train_table(run), step_table(live_step_rows(run)), timezone.now())
    return made.rest["sandboxes"].notes


def _tokens_tile(run: Run) -> str:
    found = evaluations(run)
    made = tiles(run, run.config, found, train_table(run), step_table(live_step_rows(run)), timezone.now())
    return made.rest["tokens"].value
