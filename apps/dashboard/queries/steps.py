"""The numbers behind the charts of a run: learner steps, tries to learn from, evaluations, staleness."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, Q, QuerySet

from apps.buffer.models import Sample
from apps.evaluation.models import Evaluation
from apps.rewards.models import Reward
from apps.runs.models import Run
from apps.training.models import LearnerStep
from apps.trajectories.models import Trajectory

Table = dict[str, Any]

METRICS = (
    "loss",
    "entropy",
    "grad_norm",
    "kl",
    "tokens_per_second",
    "mismatch",
    "effective_sample",
    "truncated_fraction",
)
STEP_COLUMNS = ("version", "parent", "kind", *METRICS, "flat_share", "waited")
TRAIN_COLUMNS = ("version", "solved", "tries", "rate", "reward")
EVALUATION_COLUMNS = ("version", "rate", "low", "high", "solved", "tries")
ROUNDS_COLUMNS = ("k", "rate", "low", "high", "solved", "tries")


@dataclass(frozen=True)
class Evaluations:
    """Finished evaluations of a run by suite, oldest first."""

    held_out: list[Evaluation]
    unseen: list[Evaluation]
    every: list[Evaluation]
    """Of all states, newest first."""

    @property
    def warm(self) -> Evaluation | None:
        """The one right after the warm start."""
        return next((one for one in self.held_out if one.why == "warm"), None)

    @property
    def first(self) -> Evaluation | None:
        return self.held_out[0] if self.held_out else None

    @property
    def last(self) -> Evaluation | None:
        return self.held_out[-1] if self.held_out else None


def evaluations(run: Run) -> Evaluations:
    every = list(Evaluation.objects.of(run).order_by("-version", "suite"))
    finished = [one for one in reversed(every) if one.state == "finished" and one.estimate is not None]
    return Evaluations(
        held_out=[one for one in finished if one.suite == "held-out"],
        unseen=[one for one in finished if one.suite == "unseen"],
        every=every,
    )


MOST_ROWS = 2000
"""Drawn at once; more are means of 2^k versions, and the chart says so."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, whole: bool = False) -> Table:
    return {"columns": list(columns), "rows": [list(row) for row in rows], "whole": whole}


def thinned(full: Table, most: int = MOST_ROWS) -> Table:
    """Means of buckets of 2^k versions, aligned to the versions themselves so that nothing jumps as rows arrive.

    `resolution` is the bucket's width: 1 where every row is there. The newest row always stands as it is."""
    rows = full["rows"]
    width = 1
    while len(rows) > most * width:
        width *= 2
    if width == 1:
        return full | {"resolution": 1, "raw": len(rows)}
    buckets: dict[int, list[list[Any]]] = {}
    for row in rows[:-1]:
        buckets.setdefault(row[0] // width, []).append(row)
    parent = full["columns"].index("parent") if "parent" in full["columns"] else None
    means = [_mean_row(bucket, parent) for bucket in buckets.values()]
    return full | {"rows": [*means, rows[-1]], "resolution": width, "raw": len(rows)}


def _mean_row(bucket: list[list[Any]], parent: int | None) -> list[Any]:
    """From the first row's parent to the last row's version: the mean of every measure, the last of what is counted."""
    last = bucket[-1]
    means: list[Any] = [last[0]]
    for at in range(1, len(last)):
        known = [row[at] for row in bucket if isinstance(row[at], float)]
        means.append(sum(known) / len(known) if known else last[at])
    if parent is not None:
        means[parent] = bucket[0][parent]
    return means


def step_table(steps: Iterable[LearnerStep]) -> Table:
    return table(STEP_COLUMNS, (_step(step) for step in steps))


def _step(step: LearnerStep) -> list[object]:
    metrics = step.metrics or {}
    return [
        step.version,
        step.parent_version,
        step.kind,
        *(metrics.get(name) for name in METRICS),
        _flat_share(step),
        step.waited_seconds,
    ]


def _flat_share(step: LearnerStep) -> float | None:
    """Of the groups met since the batch before: if all tries got the same reward they teach nothing, and stay out."""
    looked_at = step.batch.groups + step.batch.flat_groups
    return step.batch.flat_groups / looked_at if looked_at and step.kind == "grpo" else None


def live_step_rows(run: Run, since: datetime | None = None) -> list[LearnerStep]:
    rows = LearnerStep.objects.of(run).live().select_related("batch").order_by("version")
    return list(rows.filter(finished_at__gte=since) if since else rows)


def train_table(run: Run, since: datetime | None = None) -> Table:
    """Tries to learn from that reached a verdict, by the newest version that wrote them."""
    tries = Trajectory.objects.of(run).filter(
        counts=True, rollout__group__purpose="train", newest_version__isnull=False
    )
    rewards = Reward.objects.filter(run=run, formula=run.formula, trajectory__rollout__group__purpose="train")
    if since is not None:
        touched = set(tries.filter(recorded_at__gte=since).values_list("newest_version", flat=True))
        tries = tries.filter(newest_version__in=touched)
        rewards = rewards.filter(trajectory__newest_version__in=touched)
    mean = dict(rewards.values_list("trajectory__newest_version").annotate(mean=Avg("value")))
    counted = tries.values_list("newest_version").annotate(
        n=Count("pk"), solved=Count("pk", filter=Q(grade__verdict="solved"))
    )
    rows = ([v, solved, n, solved / n, mean.get(v)] for v, n, solved in counted.order_by("newest_version"))
    return table(TRAIN_COLUMNS, rows)


def evaluation_table(found: Iterable[Evaluation]) -> Table:
    rows = ([one.version, one.estimate, one.low, one.high, one.solved, one.started] for one in found)
    return table(EVALUATION_COLUMNS, rows)


def rounds_table(evaluation: Evaluation | None, part: str = "rounds") -> Table:
    """Share solved within k rounds, at one evaluation."""
    within = ((evaluation.result.get(part) or {}) if evaluation else {}).get("within", [])
    rows = ([one["rounds"], one["estimate"], one["low"], one["high"], one["solved"], one["tries"]] for one in within)
    return table(ROUNDS_COLUMNS, rows, whole=True)


def staleness_table(run: Run) -> Table:
    return table(("versions", "samples"), staleness_counts(run), whole=True)


def staleness_counts(run: Run) -> list[tuple[int, int]]:
    """(versions behind, samples) of what a batch took."""
    used: QuerySet[Sample] = Sample.objects.of(run).filter(staleness__isnull=False)
    return list(used.values_list("staleness").annotate(n=Count("pk")).order_by("staleness"))


def phase_table(steps: Sequence[LearnerStep], sft_steps: int) -> Table:
    """Where one way of learning ends and the next begins, as versions."""
    warm = [step.version for step in steps if step.kind == "sft"]
    grpo = [step for step in steps if step.kind == "grpo"]
    rows: list[list[object]] = [[0, "base, SFT" if sft_steps else "base, GRPO", "SFT" if sft_steps else "GRPO"]]
    if warm and (grpo or len(warm) >= sft_steps):
        rows.append([max(warm), "GRPO", "GRPO"])
    return table(("from", "words", "short"), rows, whole=True)


def series(run: Run, found: Evaluations, sft_steps: int) -> dict[str, Table]:
    """Everything that the charts of the run page draw."""
    steps = live_step_rows(run)
    last = found.last
    start = found.first if found.first is not last else None
    return {
        "steps": step_table(steps),
        "train": train_table(run),
        "held_out": evaluation_table(found.held_out),
        "unseen": evaluation_table(found.unseen),
        "rounds_start": rounds_table(start),
        "rounds_now": rounds_table(last),
        "staleness": staleness_table(run),
        "phases": phase_table(steps, sft_steps),
    }


def series_since(run: Run, found: Evaluations, since: datetime, sft_steps: int) -> dict[str, Table]:
    """What may have changed since a moment; a row that did not change does no harm."""
    fresh = {
        "steps": step_table(live_step_rows(run, since)),
        "train": train_table(run, since),
        "staleness": staleness_table(run),
    }
    if any(one.finished_at is not None and one.finished_at >= since for one in found.every):
        last = found.last
        start = found.first if found.first is not last else None
        fresh |= {
            "held_out": evaluation_table(found.held_out),
            "unseen": evaluation_table(found.unseen),
            "rounds_start": rounds_table(start),
            "rounds_now": rounds_table(last),
        }
    if fresh["steps"]["rows"]:
        fresh["phases"] = phase_table(live_step_rows(run), sft_steps)
    return fresh


def drawn(tables: dict[str, Table]) -> dict[str, Table]:
    """As the charts get them at first: long tables thinned."""
    return {name: thinned(one) if name in ("steps", "train") else one for name, one in tables.items()}
