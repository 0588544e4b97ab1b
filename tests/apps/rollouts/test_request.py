import pytest

from apps.rollouts.models import Group
from apps.rollouts.plan import plan_groups
from apps.rollouts.request import build_requests
from apps.tasks.models import TaskVersion
from tests.apps.factories import CONFIG, claim, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_a_command_of_a_policy_has_the_runs_time_and_one_of_a_script_the_tasks() -> None:
    config = CONFIG.changed(command_seconds=2.5)
    run = running(config)
    TaskVersion.objects.update(settings={"agent_seconds": 900})
    tasks = run.task_set.versions("train")[:1]
    plan_groups(run, tasks, purpose="train", size=1)
    for script in ("reference", "nothing"):
        plan_groups(run, tasks, purpose="control", size=1, script=script)
    claims = claim(run)
    scripts = dict(Group.objects.values_list("pk", "script"))
    requests = build_requests(run, config, claims)
    found = {scripts[one.group_id]: request.limits for one, request in zip(claims, requests, strict=True)}
    assert {script: limits.command_seconds for script, limits in found.items()} == {
        "": 2.5,
        "reference": 900.0,
        "nothing": 900.0,
    }
    assert {limits.agent_seconds for limits in found.values()} == {900.0}
