"""What stands in the way of a run is said with what to do about it."""

import pytest

from apps.accounts.models import Project
from apps.runs.config import RunConfig
from apps.runs.launch import LaunchError, launch_run
from apps.runs.models import Run
from apps.tasks.models import TaskSet
from tests.apps.making import make_policy, make_project, make_task, make_task_set

pytestmark = pytest.mark.django_db

WAIT = "Wait for their controls to finish; `manage.py import_tasks` plays them where none run."


def refused(task_set: TaskSet, project: Project | None = None) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        launch_run(task_set.project, None, "run", task_set, make_policy(project), RunConfig())
    assert not Run.objects.exists()
    return caught.value


def set_of(**states: str) -> TaskSet:
    entries = [(make_task(name, state=state), "train") for name, state in states.items()]
    return TaskSet.freeze(Project.default(), "mixed", entries)


def test_tasks_that_wait_and_tasks_that_never_will_do_are_told_apart() -> None:
    task_set = set_of(a="linted", b="controls", c="rejected", d="quarantined", e="retired", f="admitted")
    waiting, never = refused(task_set).way_out.split(f" {WAIT} ")
    assert waiting.startswith("2 of its 6 tasks: not proven yet")
    assert never == ("3 of its 6 tasks: rejected, quarantined or retired. Make a new version of the set without them.")


def test_where_all_wait_nothing_is_to_be_taken_out() -> None:
    error = refused(set_of(a="linted", b="admitted"))
    assert error.way_out.endswith(WAIT)
    assert "without them" not in error.way_out


def test_an_empty_set_wants_a_new_version() -> None:
    error = refused(TaskSet.freeze(Project.default(), "empty", []))
    assert (error.field, error.way_out) == (
        "task_set",
        "This task set is empty. Make a new version with tasks in it.",
    )


def test_a_policy_of_another_project_is_refused() -> None:
    error = refused(make_task_set(), make_project("other"))
    assert (error.field, error.value) == ("policy", "small")
    assert "another project" in error.way_out
