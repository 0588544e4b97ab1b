"""The run page whole: the answer first, then state, key numbers, charts, families, ledger, events."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import User
from apps.alerts.models import Alert
from apps.checkpoints.models import Checkpoint
from apps.dashboard.badges import EVALUATIONS, RUNS, SEVERITIES, Badge, alert_words, badge
from apps.dashboard.queries import events, stages
from apps.dashboard.queries.answer import answer
from apps.dashboard.queries.endings import Endings, endings
from apps.dashboard.queries.families import Forest, forests
from apps.dashboard.queries.figures import Figure, figures
from apps.dashboard.queries.ledger import LedgerView, ledger_view
from apps.dashboard.queries.runs import Progress, method, training_progress
from apps.dashboard.queries.steps import Evaluations, Table, evaluations, series
from apps.dashboard.queries.tiles import Tiles, tiles
from apps.evaluation.models import Evaluation
from apps.lifecycle.models import Event
from apps.rollouts.models import Rollout
from apps.rollouts.states import DONE, IN_FLIGHT
from apps.runs.config import RunConfig
from apps.runs.models import Run

SMALLS = (
    ("loss", "Loss", "", ""),
    ("grad_norm", "Gradient norm", "max_grad_norm", "clip"),
    ("entropy", "Entropy, nats", "", ""),
    ("kl", "KL to sampler", "", ""),
    ("tokens_per_second", "Tokens /s", "", ""),
    ("mismatch", "Sampler mismatch", "", ""),
    ("effective_sample", "Effective sample", "", ""),
    ("flat_share", "Flat groups", "", ""),
    ("waited", "Waited, s", "", ""),
)


@dataclass(frozen=True)
class Small:
    """One small chart of the learner."""

    column: str
    title: str
    now: float | None
    limit: float | None
    limit_words: str

    @property
    def rate(self) -> bool:
        return self.column in ("effective_sample", "flat_share")


@dataclass(frozen=True)
class Verb:
    """A control of the run; disabled with its reason."""

    name: str
    reason: str

    @property
    def allowed(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class AlertView:
    alert: Alert
    badge: Badge

    @property
    def about(self) -> str:
        return alert_words(self.alert.kind)


@dataclass(frozen=True)
class RunPage:
    run: Run
    config: RunConfig
    badge: Badge
    phase: str
    method: str
    progress: Progress
    strong: str
    rest: str
    pause: Verb
    resume: Verb
    cancel: Verb
    in_flight: int
    checkpoints: int
    rollouts: int
    events_total: int
    alerts: list[AlertView]
    strip: stages.Strip
    tiles: Tiles
    series: dict[str, Table]
    figures: dict[str, Figure]
    smalls: list[Small]
    forests: list[Forest]
    evaluations: list[tuple[Evaluation, Badge]]
    evaluated: Evaluations
    ledger: LedgerView
    endings: Endings
    events: list[events.EventView]
    seq: int


def visible_run(user: User | AnonymousUser, run_id: int) -> Run:
    """Raises Run.DoesNotExist, also for what the user may not see."""
    seen = Run.objects.visible_to(user).select_related("project", "policy", "task_set", "endpoint", "created_by")
    return seen.get(pk=run_id)


def run_page(user: User | AnonymousUser, run_id: int, now: datetime) -> RunPage:
    run = visible_run(user, run_id)
    seq = events.newest_seq(run)
    config = run.config
    found = evaluations(run)
    drawn = series(run, found, config.sft_steps)
    sft, grpo = step_counts(drawn["steps"])
    strong, rest = answer(run, found, sft=sft, grpo=grpo)
    may = run.project.allows(user, "operator")
    strip = stages.strip(run, config, now)
    return RunPage(
        run=run,
        config=config,
        badge=badge(RUNS, run.state),
        phase=phase(run, config, found, sft, grpo),
        method=method(run, config),
        progress=progress(run, config, sft + grpo),
        strong=strong,
        rest=rest,
        pause=verb("pause", run, may),
        resume=verb("resume", run, may),
        cancel=verb("cancel", run, may),
        in_flight=Rollout.objects.of(run).filter(state__in=IN_FLIGHT).count(),
        checkpoints=Checkpoint.objects.of(run).stored().count(),
        rollouts=Rollout.objects.of(run).count(),
        events_total=Event.objects.filter(stream=run.stream()).count(),
        alerts=alerts(run, strip),
        strip=strip,
        tiles=tiles(run, config, found, drawn["train"], drawn["steps"], now),
        series=drawn,
        figures=figures(drawn, run.formula),
        smalls=smalls(config, drawn["steps"]),
        forests=forests(found),
        evaluations=[(one, badge(EVALUATIONS, one.state)) for one in found.every],
        evaluated=found,
        ledger=ledger_view(run),
        endings=endings(run),
        events=events.newest(run),
        seq=seq,
    )


def alerts(run: Run, strip: stages.Strip) -> list[AlertView]:
    """Newest first, without what the sentence of the strip says already."""
    rows = Alert.objects.open().filter(run=run).exclude(text=strip.waiting.sentence).order_by("-raised_at", "-pk")
    return [AlertView(one, badge(SEVERITIES, one.severity)) for one in rows]


def step_counts(steps: Table) -> tuple[int, int]:
    """(SFT steps, GRPO steps) on the live branch."""
    kind = steps["columns"].index("kind")
    kinds = [row[kind] for row in steps["rows"]]
    return kinds.count("sft"), kinds.count("grpo")


def phase(run: Run, config: RunConfig, found: Evaluations, sft: int, grpo: int) -> str:
    """What part of its life the run is in, in words."""
    if run.state == "queued":
        return "not begun"
    if run.ended or run.kind != "training":
        return run.kind
    if run.training_ended:
        return "closing evaluation"
    if grpo:
        return "GRPO"
    if sft < config.sft_steps:
        return "baseline" if found.first is None and not sft else "warm start (SFT)"
    return "warm evaluation" if sft else "baseline" if found.first is None else "GRPO"


def progress(run: Run, config: RunConfig, steps: int) -> Progress:
    if run.kind == "training":
        return training_progress(run, config, steps)
    every = Rollout.objects.of(run)
    return Progress(every.filter(state__in=DONE).count(), every.count(), "tries")


_POSSIBLE = {
    "pause": (("queued", "running", "draining"), "Only a queued or running run can be paused"),
    "resume": (("paused",), "The run is not paused"),
    "cancel": (("draft", "queued", "running", "paused", "draining"), "Nothing is left to cancel"),
}


def verb(name: str, run: Run, may: bool) -> Verb:
    """Disabled where the state has no such edge or the role is too low."""
    possible, reason = _POSSIBLE[name]
    if run.state not in possible:
        return Verb(name, reason)
    return Verb(name, "" if may else "needs the role operator")


def smalls(config: RunConfig, steps: Table) -> list[Small]:
    """Newest value of each number that the learner reported at least once."""
    made: list[Small] = []
    limits: dict[str, Any] = {"max_grad_norm": config.max_grad_norm}
    for column, title, limit, limit_words in SMALLS:
        at = steps["columns"].index(column)
        known = [row[at] for row in steps["rows"] if row[at] is not None]
        if known:
            bound = limits.get(limit)
            made.append(Small(column, title, known[-1], bound, f"{limit_words} {bound:g}" if bound is not None else ""))
    return made
