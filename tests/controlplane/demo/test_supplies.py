"""The demo waits for its tasks to be proven, and says what is wrong if they are not."""

import pytest

from apps.accounts.models import Project
from apps.admission.controls import decide, plan_controls, start_controls
from apps.runs.models import Run
from apps.tasks.models import TaskSet, TaskVersion
from controlplane.demo.supplies import DemoError, wait_for_controls
from tests.apps.factories import START, claim, make_outcome, make_task, record

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def played(verdict: str) -> Run:
    """A run of controls that has ended, with this verdict of the solution."""
    task_set = TaskSet.freeze(Project.default(), "new", [(make_task("copy-file", state="linted"), "train")])
    run = start_controls(Project.default(), None, task_set)
    run.begin(START)
    plan_controls(run)
    while claims := claim(run):
        for one in claims:
            solved = verdict if run.groups.get(pk=one.group_id).script == "reference" else "unsolved"
            record(run, [make_outcome(one, run.pk, solved, version=None)])
    decide(run, now=START)
    run.end("finished", START)
    return run


def waited(run: Run) -> list[tuple[int, int]]:
    seen: list[tuple[int, int]] = []
    wait_for_controls(run.task_set, run, lambda done, total: seen.append((done, total)))
    return seen


def test_tasks_that_are_proven_are_waited_for_no_longer() -> None:
    assert waited(played("solved")) == [(1, 1)]


def test_a_task_that_failed_its_controls_is_named() -> None:
    with pytest.raises(DemoError, match="1 bundled tasks failed their controls: copy-file v1"):
        waited(played("unsolved"))


def test_a_task_that_we_could_not_prove_is_named_with_what_broke() -> None:
    run = played("none")
    with pytest.raises(DemoError, match=r"1 bundled tasks got no verdict: copy-file v1\. That is our failure.*no disk"):
        waited(run)
    assert TaskVersion.objects.get().state == "linted"
