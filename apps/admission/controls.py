"""The controls of a task: played as a run of scripts, decided by what the grades said, evidence kept.

A run plays the controls of a task once. Where it broke on us, and not at the task itself, the task is neither admitted
nor rejected: it waits for the next run of controls.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import Max, OuterRef, QuerySet, Subquery

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
    """A run that plays the controls of every task of the set not in use, also of those that earlier ones refused."""
    with transaction.atomic():
        run = launch_run(
            project,
            user,
            f"controls of {task_set}",
            task_set,
            None,
            RunConfig(grpo_steps=0, concurrency=256),
            kind="admission",
        )
        again = TaskVersion.objects.provable().exclude(state=states.LINTED)
        for task in again.filter(entries__task_set=task_set).order_by("id"):
            task.move(states.LINTED, actor=user.username if user else "assay", reason=f"run {run.pk} tries it again")
    return run


def plan_controls(run: Run) -> int:
    """Groups for every task of the set that waits for controls; the number of tasks planned."""
    tasks = list(_waiting(run).order_by("id"))
    for script in CONTROLS:
        plan_groups(run, tasks, purpose="control", size=1, script=script)
    for task in tasks:
        task.move(states.CONTROLS, reason=f"run {run.pk}")
    return len(tasks)


def decide(run: Run, *, now: datetime) -> int:
    """Admit or reject the tasks whose controls have ended; a task that got no verdict waits. The number dealt with."""
    decided = 0
    under_way = Rollout.objects.of(run).undone().values("group__task_version")
    for task in _in_controls(run).exclude(pk__in=under_way):
        evidence = {script: _control(run, task, script) for script in CONTROLS}
        task.note_evidence(run=run.pk, decided_at=now.isoformat(), **evidence)
        after, reason = _judgement(evidence)
        task.move(after, reason=reason, evidence=evidence)
        decided += 1
    return decided


def release(run: Run) -> int:
    """The run is over: tasks that it did not decide wait for other controls; their number."""
    tasks = list(_in_controls(run))
    for task in tasks:
        task.move(states.LINTED, reason=f"run {run.pk} ended before its controls")
    return len(tasks)


def undecided(run: Run) -> int:
    """Tasks of the set whose controls are still to come: in this run, or under way in any."""
    under_way = TaskVersion.objects.in_state(states.CONTROLS).filter(entries__task_set=run.task_set)
    return _waiting(run).count() + under_way.count()


def _waiting(run: Run) -> QuerySet[TaskVersion]:
    """Linted tasks of the set that this run has not played yet."""
    played = Group.objects.of(run).values("task_version")
    linted = TaskVersion.objects.in_state(states.LINTED).filter(entries__task_set=run.task_set)
    return linted.exclude(pk__in=played)


def _in_controls(run: Run) -> QuerySet[TaskVersion]:
    """Tasks whose controls this run plays, and no later one."""
    groups = Group.objects.filter(task_version=OuterRef("pk"), purpose="control").order_by("-id")
    tasks = TaskVersion.objects.in_state(states.CONTROLS).annotate(player=Subquery(groups.values("run")[:1]))
    return tasks.filter(player=run.pk).order_by("id")


def _control(run: Run, task: TaskVersion, script: str) -> dict[str, object]:
    group = Group.objects.of(run).filter(task_version=task, script=script).aggregate(id=Max("id"))["id"]
    rollout = Rollout.objects.filter(group_id=group).first()
    if rollout is None:
        return {"verdict": "none", "rollout": None, "error": "not played"}
    grades = Grade.objects.filter(trajectory__rollout=rollout, trajectory__counts=True)
    grade = grades.select_related("trajectory").first()
    if grade is None:
        ended = rollout.attempts.order_by("-number").values_list("ending_detail", flat=True).first()
        return {"verdict": "none", "rollout": rollout.pk, "error": rollout.parked_reason, "boundary": ended or ""}
    stopped = _stopped(grade.trajectory) if script == "reference" and grade.verdict == "unsolved" else ""
    return {"verdict": grade.verdict, "score": grade.score, "rollout": rollout.pk, "error": "", "stopped": stopped}


def _stopped(trajectory: Trajectory) -> str:
    """By which limit of time or number, where one ended it or its last command."""
    ends = [played.end for played in trajectory.load(object_store()).rounds if played.action is not None]
    if ends[-1:] == ["timed_out"]:
        return "its last command ran out of time"
    return f"it met its limit of {trajectory.ending_detail}" if trajectory.ending_kind == "limit" else ""


def _judgement(evidence: dict[str, dict[str, object]]) -> tuple[str, str]:
    """The state that the controls earned, and why."""
    reference, nothing = evidence["reference"], evidence["nothing"]
    for what, control in (("The solution", reference), ("Doing nothing", nothing)):
        if control["verdict"] == "none":
            why = f"{what} could not be graded: {control['error']}"
            if control.get("boundary") == "task":
                return states.REJECTED, f"{why}. Mend solution/ or tests/."
            return states.LINTED, why
    if reference["verdict"] != "solved":
        stopped = f": {reference['stopped']}" if reference["stopped"] else ""
        why = f"The solution does not pass the tests (score {reference['score']}){stopped}. Mend solution/ or tests/."
        return states.REJECTED, why
    if nothing["verdict"] == "solved":
        return states.REJECTED, "Doing nothing passes the tests. They must fail before the task is solved."
    return states.ADMITTED, ""
