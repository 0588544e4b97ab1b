"""Evaluations and a run's progress by the API."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.buffer.models import Batch
from apps.evaluation.models import Evaluation
from apps.lifecycle.announce import announce
from apps.runs.models import Run
from apps.training.models import LearnerStep
from tests.apps.making import client_of, make_run, make_user

pytestmark = pytest.mark.django_db


def make_step(run: Run, version: int, state: str = "applied") -> LearnerStep:
    batch = Batch.objects.create(run=run, kind="grpo", state="applied", base_version=0, groups=1, sequences=1, tokens=3)
    now = timezone.now()
    return LearnerStep.objects.create(
        run=run, batch=batch, kind="grpo", number=version, parent_version=version - 1, version=version, state=state,
        handed_at=now, sent_at=now,
    )  # fmt: skip


def make_evaluation(run: Run) -> Evaluation:
    evaluation = Evaluation.objects.create(run=run, version=0, suite="held-out", tries=4, why="first")
    evaluation.begin(timezone.now())
    values = {"tasks": 1, "started": 4, "reached_verdict": 3, "solved": 1, "attempts": 6, "infra": 3}
    evaluation.keep_result(values | {"estimate": 0.25, "low": 0.05, "high": 0.7}, timezone.now())
    evaluation.move("finished")
    return evaluation


def metrics(client: Client, run: Run, since: int) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/v1/runs/{run.pk}/metrics?since={since}").json()
    return found


def test_a_rate_stands_with_its_denominators_and_interval() -> None:
    run = make_run()
    evaluation = make_evaluation(run)
    found = client_of(make_user("ann", "viewer")).get(f"/api/v1/evaluations/{evaluation.pk}").json()
    assert found["completion"] == {
        "solved": 1, "started": 4, "reached_verdict": 3, "tasks": 1, "estimate": 0.25, "low": 0.05, "high": 0.7,
    }  # fmt: skip
    assert found["infra"] == {"broken": 3, "attempts": 6}


def test_progress_since_the_last_event_is_empty_and_says_so() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    first = metrics(client, run, 0)
    assert [event["kind"] for event in first["events"]] == ["run.queued"]
    again = metrics(client, run, first["seq"])
    assert (again["events"], again["steps"], again["evaluations"]) == ([], [], [])
    assert (again["seq"], again["more"]) == (first["seq"], False)


def test_progress_brings_the_steps_that_the_new_events_speak_of() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    make_step(run, 1)
    announce(run.stream(), "policy.made", "", {"version": 1})
    seen = metrics(client, run, 0)
    make_step(run, 2)
    announce(run.stream(), "policy.made", "", {"version": 2})
    assert [step["version"] for step in seen["steps"]] == [1]
    assert [step["version"] for step in metrics(client, run, seen["seq"])["steps"]] == [2]


def test_after_a_rewind_the_steps_off_the_branch_come_again() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    step = make_step(run, 1)
    seen = announce(run.stream(), "policy.made", "", {"version": 1})
    step.move("rewound")
    announce(run.stream(), "run.rewound", "", {"version": 0})
    assert [step["state"] for step in metrics(client, run, seen)["steps"]] == ["rewound"]


def test_progress_brings_evaluations_when_one_moved() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    seen = metrics(client, run, 0)["seq"]
    make_evaluation(run)
    assert [row["completion"]["estimate"] for row in metrics(client, run, seen)["evaluations"]] == [0.25]


def test_a_long_history_is_told_in_pages_without_a_gap() -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    for number in range(510):
        announce(run.stream(), "note", str(number))
    page = metrics(client, run, 0)
    assert (len(page["events"]), page["more"]) == (500, True)
    rest = metrics(client, run, page["seq"])
    seqs = [event["seq"] for event in (*page["events"], *rest["events"])]
    assert seqs == list(range(1, 512))
    assert rest["more"] is False


@pytest.mark.parametrize("query", ["since=x", "since=-1", "sinse=3", "limit=3"])
def test_what_it_does_not_know_is_refused(query: str) -> None:
    run, client = make_run(), client_of(make_user("ann", "viewer"))
    assert client.get(f"/api/v1/runs/{run.pk}/metrics?{query}").status_code == 400
