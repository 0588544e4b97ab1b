"""The list of runs: state, progress, held-out completion with its interval, and what each cost so far."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.contrib.auth.models import AnonymousUser
from django.db.models import Count, Q, QuerySet, Sum

from apps.accounts.models import User
from apps.dashboard import marks, words
from apps.dashboard.badges import RUNS, Badge, badge
from apps.evaluation.models import Evaluation
from apps.rollouts.models import Rollout
from apps.rollouts.states import DONE
from apps.runs.config import RunConfig
from apps.runs.models import ConfigRevision, Run
from apps.runs.states import STATES
from apps.training.models import LearnerStep
from apps.trajectories.models import Trajectory

PAGE = 50
VIEWS = {
    "": ("All", None),
    "active": ("Active", ("queued", "running", "paused", "draining", "cancelling")),
    "finished": ("Finished", ("finished",)),
    "failed": ("Broken", ("failed",)),
    "cancelled": ("Cancelled", ("cancelled",)),
}


@dataclass(frozen=True)
class Wanted:
    """Filters of the list, as the address carries them."""

    text: str = ""
    state: str = ""
    before: str = ""

    @property
    def states(self) -> tuple[str, ...] | None:
        if self.state in VIEWS:
            return VIEWS[self.state][1]
        return (self.state,) if self.state in STATES else ()

    @property
    def narrowed(self) -> bool:
        return bool(self.text or self.state)


@dataclass(frozen=True)
class Progress:
    done: int
    planned: int
    unit: str
    finished: bool = False
    cut: str | None = None
    """What ended it before it was through, empty if that is not known; None if nothing did."""

    @property
    def share(self) -> float:
        if self.finished:
            return 1.0
        return min(1.0, self.done / self.planned) if self.planned else 0.0

    @property
    def words(self) -> str:
        if self.cut is not None:
            return ", ".join(part for part in (f"{self.done:,} {self.unit}", self.cut) if part)
        return f"{self.done:,} of {self.planned:,} {self.unit}" if self.planned else f"{self.done:,} {self.unit}"


@dataclass(frozen=True)
class RunRow:
    run: Run
    badge: Badge
    method: str
    progress: Progress
    first: Evaluation | None
    last: Evaluation | None
    spark: str
    spark_says: str
    tokens: int
    sandbox_seconds: float
    started: datetime | None


@dataclass(frozen=True)
class RunList:
    rows: list[RunRow]
    total: int
    matching: int
    views: list[tuple[str, str, int, bool]]
    """(address value, words, how many, chosen)."""
    next_before: int | None

    @property
    def running(self) -> int:
        return next(many for value, _, many, _ in self.views if value == "active")


def run_list(user: User | AnonymousUser, wanted: Wanted) -> RunList:
    seen = Run.objects.visible_to(user).exclude(kind="admission")
    by_state = Counter(dict(seen.values_list("state").annotate(n=Count("pk"))))
    rows = _filtered(seen, wanted)
    matching = rows.count()
    if wanted.before.isdecimal() and len(wanted.before) < 18:
        rows = rows.filter(pk__lt=int(wanted.before))
    page = list(rows.select_related("policy", "task_set").order_by("-pk")[: PAGE + 1])
    shown = page[:PAGE]
    return RunList(
        rows=_rows(shown),
        total=sum(by_state.values()),
        matching=matching,
        views=[
            (value, name, _many(by_state, states), value == wanted.state) for value, (name, states) in VIEWS.items()
        ],
        next_before=shown[-1].pk if len(page) > PAGE else None,
    )


def _many(by_state: Counter[str], states: tuple[str, ...] | None) -> int:
    return sum(by_state.values()) if states is None else sum(by_state[state] for state in states)


def _filtered(rows: QuerySet[Run], wanted: Wanted) -> QuerySet[Run]:
    if wanted.states is not None:
        rows = rows.filter(state__in=wanted.states)
    if wanted.text:
        named = Q(name__icontains=wanted.text) | Q(policy__name__icontains=wanted.text)
        rows = rows.filter(named | Q(task_set__name__icontains=wanted.text))
    return rows


def _rows(runs: list[Run]) -> list[RunRow]:
    """One query a kind of number, whatever the number of runs."""
    keys = [run.pk for run in runs]
    held_out: dict[int, list[Evaluation]] = {}
    for one in Evaluation.objects.finished().filter(run__in=keys, suite="held-out").order_by("version"):
        held_out.setdefault(one.run_id, []).append(one)
    configs = _configs(keys)
    steps = dict(LearnerStep.objects.live().filter(run__in=keys).values_list("run").annotate(n=Count("pk")))
    tries = {row["run"]: row for row in _try_counts(keys)}
    spent = {row["run"]: row for row in _spent(keys)}
    return [
        _row(
            run,
            configs.get(run.pk),
            held_out.get(run.pk, []),
            steps.get(run.pk, 0),
            tries.get(run.pk),
            spent.get(run.pk),
        )
        for run in runs
    ]


def _configs(keys: list[int]) -> dict[int, RunConfig]:
    newest = ConfigRevision.objects.filter(run__in=keys).order_by("run", "-number").distinct("run")
    return {one.run_id: msgspec.convert(one.config, RunConfig) for one in newest}


def _try_counts(keys: list[int]) -> QuerySet[Rollout, dict[str, Any]]:
    ended = Count("pk", filter=Q(state__in=DONE))
    return (
        Rollout.objects.filter(run__in=keys, run__kind="evaluation")
        .values("run")
        .annotate(planned=Count("pk"), ended=ended)
    )


def _spent(keys: list[int]) -> QuerySet[Trajectory, dict[str, Any]]:
    played = ~Q(rollout__group__purpose="reference")
    sums = {"tokens": Sum("sampled_tokens", filter=played), "sandbox": Sum("sandbox_seconds")}
    return Trajectory.objects.filter(run__in=keys).values("run").annotate(**sums)


def _row(
    run: Run,
    config: RunConfig | None,
    held_out: list[Evaluation],
    steps: int,
    tries: dict[str, Any] | None,
    spent: dict[str, Any] | None,
) -> RunRow:
    estimates = [one.estimate for one in held_out]
    says = ""
    if len(held_out) > 1:
        says = f"from {words.percent(estimates[0])} % to {words.percent(estimates[-1])} %"
    return RunRow(
        run=run,
        badge=badge(RUNS, run.state),
        method=method(run, config),
        progress=_progress(run, config, steps, tries),
        first=held_out[0] if held_out else None,
        last=held_out[-1] if held_out else None,
        spark=marks.spark(estimates, 0.0, 1.0),
        spark_says=says,
        tokens=int(spent["tokens"] or 0) if spent else 0,
        sandbox_seconds=float(spent["sandbox"] or 0) if spent else 0.0,
        started=run.started_at,
    )


def method(run: Run, config: RunConfig | None) -> str:
    """How it learns, in a word or two."""
    if run.kind != "training" or config is None:
        return run.kind
    parts = [word for word, steps in (("SFT", config.sft_steps), ("GRPO", config.grpo_steps)) if steps]
    control = ", random reward" if run.formula.startswith("coin@") else ""
    return " + ".join(parts) + control


def _progress(run: Run, config: RunConfig | None, steps: int, tries: dict[str, Any] | None) -> Progress:
    if run.kind == "training":
        return training_progress(run, config, steps)
    return Progress(tries["ended"] if tries else 0, tries["planned"] if tries else 0, "tries")


_LIMITS = {"s of GRPO is used": "time limit", "sampled tokens is used": "token limit"}
"""By what the training's own words for its end hold."""


def training_progress(run: Run, config: RunConfig | None, steps: int) -> Progress:
    """A training that a budget ended has done all its steps: no more are planned."""
    planned = config.sft_steps + config.grpo_steps if config else 0
    cut = None
    if run.training_ended and steps < planned:
        cut = next((short for words, short in _LIMITS.items() if words in run.training_ended), "")
    return Progress(steps, planned, "steps", finished=run.state == "finished", cut=cut)
