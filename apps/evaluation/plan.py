"""Held-out tries pinned to one policy version: at the start, after the warm start, every k versions, at the end."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from apps.evaluation import states
from apps.evaluation.collect import evaluation_tries
from apps.evaluation.measure import measure
from apps.evaluation.models import Evaluation
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Rollout
from apps.rollouts.plan import plan_groups
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.training.models import live_steps


@dataclass(frozen=True)
class Due:
    """An evaluation that the state of a run asks for."""

    version: int
    why: str
    tries: int


def plan_evaluations(run: Run, config: RunConfig, *, now: datetime) -> None:
    """Start what is due, finish what is done; a queued one that a newer supersedes keeps its row."""
    finish_evaluations(run, now=now)
    due = due_evaluation(run, config)
    if due is not None:
        _plan(run, due, now)


def due_evaluation(run: Run, config: RunConfig) -> Due | None:
    """What the newest version is due for, if it has no evaluation yet."""
    version = run.policy_version
    if Evaluation.objects.of(run).filter(version=version).exclude(state=states.SUPERSEDED).exists():
        return None
    sft, grpo = live_steps(run, "sft"), live_steps(run, "grpo")
    if sft + grpo == 0:
        return Due(version, "first", config.evaluation_tries)
    if run.training_ended:
        return Due(version, "last", config.evaluation_tries)
    if grpo == 0:
        return Due(version, "warm", config.evaluation_tries) if sft == config.sft_steps else None
    if config.evaluation_every and grpo % config.evaluation_every == 0 and grpo < config.grpo_steps:
        return Due(version, "interim", config.interim_tries)
    return None


def finish_evaluations(run: Run, *, now: datetime) -> int:
    """Evaluations whose tries have all ended get their numbers; the number finished."""
    finished = 0
    for evaluation in Evaluation.objects.of(run).filter(state=states.RUNNING):
        rollouts = Rollout.objects.of(run).filter(
            group__purpose="evaluation",
            group__pinned_version=evaluation.version,
            group__suite=evaluation.suite,
        )
        if rollouts.exclude(state__in=rollout_states.DONE).exists():
            continue
        tries = evaluation_tries(run, evaluation.version, evaluation.suite)
        with transaction.atomic():
            evaluation.keep_result(measure(tries, planned=rollouts.count()), now)
            evaluation.move(states.FINISHED, reason=_sentence(evaluation))
        finished += 1
    return finished


def pinned_versions(run: Run) -> set[int]:
    """Versions that open evaluations need served."""
    return set(Evaluation.objects.of(run).open().values_list("version", flat=True))


def cancel_evaluations(run: Run) -> None:
    for evaluation in Evaluation.objects.of(run).open():
        evaluation.move(states.CANCELLED)


def best_version(run: Run) -> int | None:
    """Of the finished held-out evaluations; the newer of equals."""
    best = Evaluation.objects.of(run).finished().filter(suite="held-out").exclude(estimate=None)
    found = best.order_by("-estimate", "-version").first()
    return found.version if found else None


def _plan(run: Run, due: Due, now: datetime) -> None:
    for suite in states.SUITES:
        tasks = list(run.task_set.versions(suite))
        if not tasks:
            continue
        with transaction.atomic():
            evaluation = Evaluation.objects.create(
                run=run, version=due.version, suite=suite, tries=due.tries, why=due.why, planned_at=now
            )
            plan_groups(run, tasks, purpose="evaluation", size=due.tries, suite=suite, pinned_version=due.version)
            evaluation.begin(now)


def _sentence(evaluation: Evaluation) -> str:
    if evaluation.estimate is None:
        return f"{evaluation.suite} at version {evaluation.version}: n/a"
    low, high = evaluation.low, evaluation.high
    interval = "" if low is None or high is None else f" [{low * 100:.1f}, {high * 100:.1f}]"
    return (
        f"{evaluation.suite} at version {evaluation.version}: {evaluation.estimate * 100:.1f} %{interval}, "
        f"{evaluation.tasks} tasks x {evaluation.tries}"
    )
