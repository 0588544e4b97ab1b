"""The controls of a task: played as a run of scripts, decided by what the grades said, evidence kept."""

from datetime import datetime

from django.db.models import Max, QuerySet

from apps.accounts.models import Project, User
from apps.rollouts.models import Group, Rollout
from apps.rollouts.plan import plan_groups
from apps.runs.config import RunConfig
from apps.runs.launch import launch_run
from apps.runs.models import Run
from apps.tasks import states
from apps.tasks.models import TaskSet, TaskVersion
from apps.trajectories.models import Grade, Trajectory
from apps.trajectories.store import object_store

CONTROLS = ("reference", "nothing")


def start_controls(project: Project, user: User | None, task_set: TaskSet) -> Run:
    """A run that plays the controls of every task of the set that is not proven yet."""
    return launch_run(
        project,
        user,
        f"controls of {task_set}",
        task_set,
        None,
        RunConfig(grpo_steps=0, concurrency=256),
        kind="admission",
    )


def plan_controls(run: Run) -> int:
    """Groups for every linted task of the set, once; the number of tasks under way."""
    waiting = TaskVersion.objects.in_state(states.LINTED).filter(entries__task_set=run.task_set).order_by("id")
    tasks = list(waiting)
    for script in CONTROLS:
        plan_groups(run, tasks, purpose="control", size=1, script=script)
    for task in tasks:
        task.move(states.CONTROLS, reason=f"run {run.pk}")
    return len(tasks)


def decide(run: Run, *, now: datetime) -> int:
    """Admit or reject the tasks whose controls have ended; the number decided."""
    decided = 0
    under_way = Rollout.objects.of(run).undone().values("group__task_version")
    for task in _in_controls(run).exclude(pk__in=under_way):
        evidence = {script: _control(run, task, script) for script in CONTROLS}
        task.note_evidence(run=run.pk, decided_at=now.isoformat(), **evidence)
        problem = _problem(evidence)
        if problem:
            task.move(states.REJECTED, reason=problem, evidence=evidence)
        else:
            task.move(states.ADMITTED, evidence=evidence)
        decided += 1
    return decided


def release(run: Run) -> int:
    """The run is over: tasks that it did not decide wait for other controls; their number."""
    tasks = list(_in_controls(run))
    for task in tasks:
        task.move(states.LINTED, reason=f"run {run.pk} ended before its controls")
    return len(tasks)


def undecided(run: Run) -> int:
    """Tasks of the set whose controls are still to come."""
    return TaskVersion.objects.in_state(states.LINTED, states.CONTROLS).filter(entries__task_set=run.task_set).count()


def _in_controls(run: Run) -> QuerySet[TaskVersion]:
    mine = Group.objects.of(run).values("task_version")
    return TaskVersion.objects.in_state(states.CONTROLS).filter(pk__in=mine).order_by("id")


def _control(run: Run, task: TaskVersion, script: str) -> dict[str, object]:
    group = Group.objects.of(run).filter(task_version=task, script=script).aggregate(id=Max("id"))["id"]
    rollout = Rollout.objects.filter(group_id=group).first()
    if rollout is None:
        return {"verdict": "none", "rollout": None, "error": "not played"}
    grades = Grade.objects.filter(trajectory__rollout=rollout, trajectory__counts=True)
    grade = grades.select_related("trajectory").first()
    if grade is None:
        return {"verdict": "none", "rollout": rollout.pk, "error": rollout.parked_reason}
    stopped = _stopped(grade.trajectory) if script == "reference" and grade.verdict == "unsolved" else ""
    return {"verdict": grade.verdict, "score": grade.score, "rollout": rollout.pk, "error": "", "stopped": stopped}


def _stopped(trajectory: Trajectory) -> str:
    """By which limit of time or number, where one ended it or its last command."""
    ends = [played.end for played in trajectory.load(object_store()).rounds if played.action is not None]
    if ends[-1:] == ["timed_out"]:
        return "its last command ran out of time"
    return f"it met its limit of {trajectory.ending_detail}" if trajectory.ending_kind == "limit" else ""


def _problem(evidence: dict[str, dict[str, object]]) -> str:
    reference, nothing = evidence["reference"], evidence["nothing"]
    if reference["verdict"] == "none":
        return f"The solution could not be graded: {reference['error']}"
    if nothing["verdict"] == "none":
        return f"Doing nothing could not be graded: {nothing['error']}"
    if reference["verdict"] != "solved":
        stopped = f": {reference['stopped']}" if reference["stopped"] else ""
        return f"The solution does not pass the tests (score {reference['score']}){stopped}. Mend solution/ or tests/."
    if nothing["verdict"] == "solved":
        return "Doing nothing passes the tests. They must fail before the task is solved."
    return ""
