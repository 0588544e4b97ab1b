"""The key numbers of a run: each with unit, interval, denominator and what it is compared with, already in words."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache

from django.db.models import Count, Q, Sum

from apps.buffer.ledger import recorded_tokens
from apps.buffer.models import Sample
from apps.dashboard import marks, words
from apps.dashboard.queries.admission import admission_tiles
from apps.dashboard.queries.steps import Evaluations, Table, staleness_counts
from apps.dashboard.queries.tile import Tile
from apps.evaluation.compare import compare
from apps.evaluation.models import Evaluation
from apps.evaluation.statistics.clustered import success_rate
from apps.evaluation.statistics.interval import Interval
from apps.evaluation.statistics.paired import PairedDifference
from apps.evaluation.statistics.proportion import wilson
from apps.evaluation.statistics.tries import TaskTries
from apps.fleet.models import Worker
from apps.rollouts.models import BROKE_AT_TASK, BROKE_ON_US, Attempt
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.trajectories.models import Trajectory

WINDOW_VERSIONS = 8
"""The train tile looks at the newest so many versions."""
STARTS_WINDOW = timedelta(minutes=5)


@dataclass(frozen=True)
class HeadMark:
    """The interval drawn on a scale from 0 to 100 %."""

    start: str
    now: str
    low: str
    high: str
    says: str


@dataclass(frozen=True)
class Tiles:
    head: Tile
    mark: HeadMark | None
    rest: dict[str, Tile] = field(default_factory=dict)


Finish = tuple[int, datetime | None]
"""An evaluation, and when it finished: with more tries, it finishes again."""


@lru_cache(maxsize=256)
def _paired(after: Finish, before: Finish) -> PairedDifference:
    """Between two finishes an evaluation never changes, so their difference is computed once a process."""
    rows = Evaluation.objects.select_related("run").in_bulk([after[0], before[0]])
    return compare(rows[after[0]], rows[before[0]])


def _difference(after: Evaluation, before: Evaluation) -> PairedDifference:
    return _paired((after.pk, after.finished_at), (before.pk, before.finished_at))


def paired(found: Evaluations) -> PairedDifference | None:
    """The newest held-out evaluation against the first; None with fewer than two."""
    if found.first is None or found.last is None or found.first.pk == found.last.pk:
        return None
    return _difference(found.last, found.first)


def grpo_alone(found: Evaluations) -> PairedDifference | None:
    """The newest held-out evaluation against the one after the warm start; None while either is missing."""
    if found.warm is None or found.last is None or found.warm.pk == found.last.pk:
        return None
    return _difference(found.last, found.warm)


def direction(interval: Interval) -> str:
    """up, down, or none where the interval holds 0 or is not defined."""
    if interval.low is not None and interval.low > 0:
        return "up"
    return "down" if interval.high is not None and interval.high < 0 else "none"


def tiles(run: Run, config: RunConfig, found: Evaluations, train: Table, steps: Table, now: datetime) -> Tiles:
    """Those that a run of its kind ever has."""
    sandboxes = _sandboxes(run, now)
    if run.kind == "admission":
        head, rest = admission_tiles(run)
        return Tiles(head, None, {**rest, "sandboxes": sandboxes})
    rest = {"rounds": _rounds(found)}
    if run.kind == "training":
        rest = {"train": _train(run, train), **rest, "staleness": _staleness(run, config)}
    rest |= {"sandboxes": sandboxes, "tokens": _tokens(run, config, steps)}
    return Tiles(_head(run, found), _mark(found), rest)


def points_interval(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"({interval.why})" if interval.why else ""
    return f"[{words.points(interval.low)},{words.NO_BREAK}{words.points(interval.high)}]"


def _head(run: Run, found: Evaluations) -> Tile:
    last, difference = found.last, paired(found)
    title = "Share of tries started that solved the task, each task counting once; unseen instances of trained families"
    if last is None:
        return Tile("Held-out completion", words.NOT_DEFINED, notes=("no evaluation has finished yet",), title=title)
    shared = (
        f"{last.solved} of {last.started} tries, {last.tasks} tasks, {words.plural(last.tries, 'try', 'tries')} each"
    )
    tile = Tile(
        label=f"Held-out completion, version {last.version}",
        value=words.percent(last.estimate),
        unit="%",
        ci=words.interval(last.low, last.high),
        notes=(shared,),
        title=title,
    )
    if difference is None:
        start = ("the start; a second evaluation will show the change",) if run.kind == "training" else ()
        return replace(tile, notes=(shared, *start))
    interval = difference.interval
    against = found.first.version if found.first else 0
    tasks = interval.n
    return replace(
        _with_grpo_alone(tile, found),
        change=f"{words.points(interval.estimate)} points",
        change_class=f"delta-{direction(interval)}",
        change_note=f"{points_interval(interval)} against version {against}, paired on {tasks} tasks",
    )


def _with_grpo_alone(tile: Tile, found: Evaluations) -> Tile:
    difference = grpo_alone(found)
    if difference is None or found.warm is None:
        return tile
    interval = difference.interval
    return replace(
        tile,
        alone=f"{words.points(interval.estimate)} points",
        alone_class=f"delta-{direction(interval)}",
        alone_note=f"{points_interval(interval)} by GRPO alone, against warm version {found.warm.version}",
    )


def _mark(found: Evaluations) -> HeadMark | None:
    first, last = found.first, found.last
    if first is None or last is None or first.estimate is None or last.estimate is None:
        return None
    low = last.low if last.low is not None else last.estimate
    high = last.high if last.high is not None else last.estimate
    says = (
        f"Start {words.percent(first.estimate)} %, now {words.percent(last.estimate)} %, "
        f"interval {words.percent(low)} to {words.percent(high)} %, on a scale from 0 to 100 %"
    )
    return HeadMark(marks.pct(first.estimate), marks.pct(last.estimate), marks.pct(low), marks.pct(high), says)


def _train(run: Run, train: Table) -> Tile:
    share = "Share of tries to learn from that solved the task, each task counting once"
    title = f"{share}; by the newest version that wrote them"
    rows = train["rows"]
    if not rows:
        return Tile("Train completion", words.NOT_DEFINED, notes=("no graded try yet",), title=title)
    window = rows[-WINDOW_VERSIONS:]
    rate = _train_rate(run, [row[0] for row in window])
    solved, tries = sum(row[1] for row in window), sum(row[2] for row in window)
    rewarded = [(row[4], row[2]) for row in window if row[4] is not None]
    reward = sum(mean * n for mean, n in rewarded) / sum(n for _, n in rewarded) if rewarded else None
    return Tile(
        label="Train completion",
        value=words.percent(rate.estimate),
        unit="%",
        ci=words.interval(rate.low, rate.high),
        notes=(
            f"each task counting once; {solved:,} of {tries:,} tries, newest {words.plural(len(window), 'version')}",
            f"mean reward {words.number(reward)}",
        ),
        spark=marks.spark([row[3] for row in rows], 0.0, 1.0),
        spark_says=f"from {words.percent(rows[0][3])} % to {words.percent(rows[-1][3])} %",
        title=f"{title}. Reward by {run.formula}.",
    )


def _train_rate(run: Run, versions: list[int]) -> Interval:
    tries = Trajectory.objects.of(run).filter(counts=True, rollout__group__purpose="train", newest_version__in=versions)
    version = "rollout__group__task_version"
    counted = tries.values_list(version, f"{version}__task__family").annotate(
        n=Count("pk"), solved=Count("pk", filter=Q(grade__verdict="solved"))
    )
    tasks = [
        TaskTries(str(task), family, (1.0,) * solved + (0.0,) * (n - solved)) for task, family, n, solved in counted
    ]
    return success_rate(tasks)


def _rounds(found: Evaluations) -> Tile:
    title = "Median rounds to success over graded tries; a try that gave up stays at risk up to the cap"
    part = (found.last.result.get("rounds") or {}) if found.last else {}
    if not part:
        return Tile("Rounds to success", words.NOT_DEFINED, notes=("no evaluation has finished yet",), title=title)
    within = [
        f"within {row['rounds']}: {words.percent(row['estimate'])} % {words.interval(row['low'], row['high'])}"
        for row in part["within"][:3]
    ]
    median = part["median"]
    return Tile(
        label="Rounds to success",
        value="not reached" if median is None else str(median),
        unit="" if median is None else f" of {part['cap']}, median",
        notes=(*within, *((part["why"],) if median is None and part.get("why") else ())),
        title=title,
    )


def _staleness(run: Run, config: RunConfig) -> Tile:
    title = "Learner version at use minus the oldest version that wrote any token of the sample"
    counts = staleness_counts(run)
    total = sum(n for _, n in counts)
    stale = Sample.objects.of(run).filter(state="discarded", reason="stale").count()
    dropped = f"{stale:,} dropped as too stale"
    if not total:
        return Tile("Staleness", words.NOT_DEFINED, notes=("no sample used yet", dropped), title=title)
    p95, seen = counts[-1][0], 0
    for versions, n in counts:
        seen += n
        if seen >= 0.95 * total:
            p95 = versions
            break
    means = list(
        run.batches.filter(kind="grpo", state="applied").order_by("pk").values_list("mean_staleness", flat=True)
    )
    return Tile(
        label="Staleness, p95",
        value=str(p95),
        unit=" version" if p95 == 1 else " versions",
        notes=(f"most {counts[-1][0]}, limit {config.max_staleness}; {total:,} samples", dropped),
        spark=marks.spark(means, 0.0, float(max(1, config.max_staleness))),
        spark_says="mean staleness of each batch",
        title=title,
    )


def _sandboxes(run: Run, now: datetime) -> Tile:
    """Starts a second over the last minutes of work; the infra rate counts attempts."""
    every = Trajectory.objects.of(run)
    end = min(now, run.finished_at) if run.finished_at else now
    recent = every.filter(finished_at__gt=end - STARTS_WINDOW).aggregate(boxes=Sum("boxes_started"))["boxes"] or 0
    sums = every.aggregate(boxes=Sum("boxes_started"), failures=Sum("box_failures"))
    boxes, failures = sums["boxes"] or 0, sums["failures"] or 0
    passed = STARTS_WINDOW.total_seconds()
    if run.started_at is not None:
        passed = max(1.0, min(passed, (end - run.started_at).total_seconds()))
    return Tile(
        label="Sandbox starts",
        value=words.number(recent / passed) if boxes else words.NOT_DEFINED,
        unit=" /s" if boxes else "",
        notes=(
            _starts_when(run, now),
            f"{failures:,} of {boxes:,} starts failed",
            *_infra(run),
        ),
        title="Boxes started by this run a second; failures are ours and never count against the agent",
    )


def _starts_when(run: Run, now: datetime) -> str:
    if run.ended:
        return "in its last 5 min"
    workers = Worker.objects.ready(now).of_kind("sandbox").count()
    return f"in the last 5 min; {words.plural(workers, 'worker')} up"


def _infra(run: Run) -> tuple[str, ...]:
    """The rate of what broke on us, and apart from it what broke at its task."""
    counted = (
        Attempt.objects.of(run)
        .ended()
        .aggregate(
            n=Count("pk", filter=~BROKE_AT_TASK),
            infra=Count("pk", filter=BROKE_ON_US),
            at_task=Count("pk", filter=BROKE_AT_TASK),
        )
    )
    n, at_task = counted["n"], counted["at_task"]
    rest = (f"{words.plural(at_task, 'attempt')} broke at the task itself, left out",) if at_task else ()
    if not n:
        return rest or ("no attempt has ended yet",)
    rate = wilson(counted["infra"], n)
    share = f"{words.percent(rate.estimate)} % {words.interval(rate.low, rate.high)}"
    return (f"infra {share} of {words.plural(n, 'attempt')}", *rest)


def _tokens(run: Run, config: RunConfig, steps: Table) -> Tile:
    played = Trajectory.objects.of(run).sampled()
    prompt = played.aggregate(n=Sum("prompt_tokens"))["n"] or 0
    speed = steps["columns"].index("tokens_per_second")
    speeds = [row[speed] for row in steps["rows"]]
    known = [value for value in speeds if value is not None][-WINDOW_VERSIONS:]
    budget = (
        f"of {words.short_count(config.max_sampled_tokens)} allowed" if config.max_sampled_tokens else "no token budget"
    )
    learner = (
        f"learner {words.short_count(sum(known) / len(known))} tokens/s" if known else "learner has not stepped yet"
    )
    return Tile(
        label="Tokens sampled",
        value=words.short_count(recorded_tokens(run)),
        notes=(f"{words.short_count(prompt)} of prompts; {budget}", *((learner,) if run.kind == "training" else ())),
        spark=marks.spark(speeds, 0.0),
        spark_says="learner tokens a second, by step",
        title="Of recorded attempts, as the ledger counts them; reference traces are scripts, not sampled",
    )
