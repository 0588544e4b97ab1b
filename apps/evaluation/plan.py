"""Held-out tries pinned to one policy version: at the start, after the warm start, every k versions, at the end."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from apps.evaluation import states
from apps.evaluation.collect import evaluation_tries
from apps.evaluation.measure import measure
from apps.evaluation.models import Evaluation, EvaluationQuerySet
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
    """Finish what is done, queue what is due, start the queued one when no other runs."""
    finish_evaluations(run, now=now)
    due = due_evaluation(run, config)
    if due is not None:
        _queue(run, due, now)
    _top_up(run, config)
    _start_next(run, now)


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


def short_evaluations(run: Run, config: RunConfig) -> EvaluationQuerySet:
    """Interim ones of the version at which training has ended: the last number takes as many tries as the first."""
    if not run.training_ended:
        return Evaluation.objects.none()
    short = Evaluation.objects.of(run).filter(
        version=run.policy_version, why="interim", tries__lt=config.evaluation_tries
    )
    return short.exclude(state__in=[states.SUPERSEDED, states.CANCELLED])


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


def _queue(run: Run, due: Due, now: datetime) -> None:
    """One waits at most: an older one that has not begun is superseded, and keeps its row."""
    for older in Evaluation.objects.of(run).filter(state=states.PLANNED):
        older.move(states.SUPERSEDED, reason=f"version {due.version} is due")
    for suite in states.SUITES:
        if not run.task_set.versions(suite).exists():
            continue
        evaluation, new = Evaluation.objects.get_or_create(
            run=run, version=due.version, suite=suite, defaults={"tries": due.tries, "why": due.why, "planned_at": now}
        )
        if not new:
            evaluation.revive(tries=due.tries, why=due.why, planned_at=now)


def _top_up(run: Run, config: RunConfig) -> None:
    """The missing tries, as one more group a task; both suites at once, and no other version's beside them."""
    others = Evaluation.objects.of(run).filter(state=states.RUNNING).exclude(version=run.policy_version)
    if others.exists():
        return
    for evaluation in short_evaluations(run, config):
        with transaction.atomic():
            missing = config.evaluation_tries - evaluation.tries
            if evaluation.state == states.FINISHED and not evaluation.move(states.RUNNING, reason="last"):
                continue
            evaluation.extend(tries=config.evaluation_tries, why="last")
            if evaluation.state == states.RUNNING:
                _plan_tries(run, evaluation, missing)


def _start_next(run: Run, now: datetime) -> None:
    """Both suites of one version are one evaluation: they run together."""
    if Evaluation.objects.of(run).filter(state=states.RUNNING).exists():
        return
    for evaluation in Evaluation.objects.of(run).filter(state=states.PLANNED).order_by("version", "suite"):
        with transaction.atomic():
            if evaluation.begin(now):
                _plan_tries(run, evaluation, evaluation.tries)


def _plan_tries(run: Run, evaluation: Evaluation, tries: int) -> None:
    plan_groups(
        run,
        run.task_set.versions(evaluation.suite),
        purpose="evaluation",
        size=tries,
        suite=evaluation.suite,
        pinned_version=evaluation.version,
    )


def _sentence(evaluation: Evaluation) -> str:
    if evaluation.estimate is None:
        return f"{evaluation.suite} at version {evaluation.version}: n/a"
    low, high = evaluation.low, evaluation.high
    interval = "" if low is None or high is None else f" [{low * 100:.1f}, {high * 100:.1f}]"
    return (
        f"{evaluation.suite} at version {evaluation.version}: {evaluation.estimate * 100:.1f} %{interval}, "
        f"{evaluation.tasks} tasks x {evaluation.tries}"
    )
