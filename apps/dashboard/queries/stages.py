"""The wait-for strip: what the run waits for in one sentence, and how full each stage of the loop is."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from apps.checkpoints.models import Checkpoint
from apps.dashboard import marks, words
from apps.evaluation.models import Evaluation
from apps.fleet.models import Worker
from apps.pipeline.waiting import Waiting, waiting
from apps.rollouts.models import Group, Rollout
from apps.rollouts.states import DONE, IN_FLIGHT
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.training.models import LearnerStep

_HOLDS = {"sandbox worker": "sandboxes", "policy server": "sandboxes", "traces": "sandboxes", "sampler": "buffer"}
_HOLDS |= {"learner": "learner", "evaluation": "evaluation", "itself": "learner", "object store": "learner"}
_FLEET = ("sandbox worker", "policy server", "learner")


@dataclass(frozen=True)
class Stage:
    name: str
    words: str
    share: str
    """Of the stage's room, as a width."""
    hold: bool
    """The others wait for it."""

    @property
    def state(self) -> str:
        return "hold" if self.hold else "free"


@dataclass(frozen=True)
class Strip:
    waiting: Waiting
    stages: list[Stage]

    @property
    def link(self) -> str:
        """Words of the link to the fleet, where it is at fault."""
        return "" if self.waiting.healthy or self.waiting.on not in _FLEET else "Look at the fleet"

    @property
    def tone(self) -> str:
        """Of the sentence: ours to mend, or the run's own."""
        if self.waiting.healthy:
            return ""
        return "broken" if self.waiting.on in (*_FLEET, "object store") else "warn"


def strip(run: Run, config: RunConfig, now: datetime) -> Strip:
    held = waiting(run, now)
    holds = _HOLDS.get(held.on, "") if not held.healthy or held.on in ("sampler", "learner", "evaluation") else ""
    parts = [_plan(run), _sandboxes(run, now), *_learning(run, config, now)]
    if run.kind != "admission":
        parts.append(_evaluation(run))
    return Strip(held, [Stage(name, text, marks.pct(share), name == holds) for name, text, share in parts])


def _plan(run: Run) -> tuple[str, str, float]:
    planned = Rollout.objects.of(run).filter(state="planned").count()
    return "plan", f"{planned:,} waiting", min(1.0, planned / 200)


def _sandboxes(run: Run, now: datetime) -> tuple[str, str, float]:
    in_flight = Rollout.objects.of(run).filter(state__in=IN_FLIGHT).count()
    slots = sum(Worker.objects.ready(now).of_kind("sandbox").values_list("capacity", flat=True))
    return "sandboxes", f"{in_flight:,} in flight" if slots else "no worker", in_flight / slots if slots else 0.0


def _learning(run: Run, config: RunConfig, now: datetime) -> list[tuple[str, str, float]]:
    if run.kind != "training":
        return []
    ready = Group.objects.of(run).filter(purpose="train", state="admitted").count()
    step = LearnerStep.objects.of(run).filter(state="handed").first()
    working = f"step {step.number}, {words.seconds((now - step.sent_at).total_seconds())}" if step else "idle"
    newest = Checkpoint.objects.of(run).order_by("-version").first()
    published = "none yet" if newest is None else f"version {newest.version}, {newest.state}"
    return [
        (
            "buffer",
            f"{ready} of {words.plural(config.groups_per_step, 'group')}",
            min(1.0, ready / config.groups_per_step),
        ),
        ("learner", working, 1.0 if step else 0.0),
        ("publish", published, 1.0 if newest is not None and newest.state == "live" else 0.0),
    ]


def _evaluation(run: Run) -> tuple[str, str, float]:
    opened = list(Evaluation.objects.of(run).open())
    if not opened:
        return "evaluation", "none open", 0.0
    wanted = Q()
    for one in opened:
        wanted |= Q(group__pinned_version=one.version, group__suite=one.suite)
    counted = (
        Rollout.objects.of(run)
        .filter(wanted, group__purpose="evaluation")
        .aggregate(n=Count("pk"), done=Count("pk", filter=Q(state__in=DONE)))
    )
    share = counted["done"] / counted["n"] if counted["n"] else 0.0
    return "evaluation", f"{counted['done']} of {counted['n']} tries", share
