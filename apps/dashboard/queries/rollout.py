"""One rollout whole: every round, the grade with its evidence, attempts, timings, and where its tokens went."""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser
from django.db.models import F, FilteredRelation, Q

from apps.accounts.models import User
from apps.buffer.models import Sample
from apps.dashboard import marks, words
from apps.dashboard.badges import ATTEMPTS, ENDINGS, ROLLOUTS, VERDICTS, Badge, badge
from apps.dashboard.queries.rounds import RoundView, round_views
from apps.fleet.models import Worker
from apps.rewards.models import Reward
from apps.rollouts.models import Attempt, Rollout
from apps.runs.models import Run
from apps.trajectories.models import Grade, Trajectory
from sandbox_worker.messages import Outcome
from wire.store import MissingObjectError, Store


@dataclass(frozen=True)
class AttemptView:
    attempt: Attempt
    badge: Badge
    ending: Badge | None
    trajectory: Trajectory | None
    seconds: float | None
    chosen: bool


@dataclass(frozen=True)
class Lane:
    name: str
    spans: list[marks.Span]
    total: str
    says: str


@dataclass(frozen=True)
class Sibling:
    pk: int
    verdict: Badge
    chosen: bool


@dataclass(frozen=True)
class RolloutPage:
    run: Run
    rollout: Rollout
    state: Badge
    attempts: list[AttemptView]
    trajectory: Trajectory | None
    outcome: Outcome | None
    missing: str
    weaker: str
    """Why its box was isolated less than by default; else empty."""
    verdict: Badge | None
    ending: Badge | None
    grade: Grade | None
    rewards: list[Reward]
    sample: Sample | None
    rounds: list[RoundView]
    lanes: list[Lane]
    ticks: list[tuple[str, str]]
    siblings: list[Sibling]

    @property
    def solved_in_group(self) -> int:
        return sum(one.verdict.word == "Solved" for one in self.siblings)

    @property
    def place(self) -> int:
        return next((i for i, one in enumerate(self.siblings, start=1) if one.chosen), 0)

    @property
    def earlier(self) -> Sibling | None:
        return self.siblings[self.place - 2] if self.place > 1 else None

    @property
    def later(self) -> Sibling | None:
        return self.siblings[self.place] if 0 < self.place < len(self.siblings) else None

    @property
    def checks_passed(self) -> int:
        return sum(bool(check.get("passed")) for check in self.grade.checks) if self.grade else 0


def rollout_page(user: User | AnonymousUser, rollout_id: int, attempt: int | None, store: Store) -> RolloutPage:
    """The attempt asked for, else the one that counts, else the last. Raises Rollout's and Attempt's DoesNotExist."""
    related = ("run", "run__policy", "group", "group__task_version", "group__task_version__task")
    seen = Rollout.objects.filter(run__in=Run.objects.visible_to(user)).select_related(*related)
    rollout = seen.get(pk=rollout_id)
    rows = list(rollout.attempts.select_related("trajectory", "trajectory__grade").order_by("number", "id"))
    chosen = _chosen(rows, attempt)
    trajectory = _trajectory(chosen)
    outcome, missing = _load(trajectory, store)
    lanes, total = _lanes(outcome)
    grade = getattr(trajectory, "grade", None)
    return RolloutPage(
        run=rollout.run,
        rollout=rollout,
        state=badge(ROLLOUTS, rollout.state),
        attempts=[_attempt(row, row is chosen) for row in rows],
        trajectory=trajectory,
        outcome=outcome,
        missing=missing,
        weaker=_weaker(chosen),
        verdict=badge(VERDICTS, grade.verdict) if grade else None,
        ending=_ending(trajectory),
        grade=grade,
        rewards=list(trajectory.rewards.order_by("formula")) if trajectory else [],
        sample=Sample.objects.select_related("batch").filter(trajectory=trajectory).first() if trajectory else None,
        rounds=round_views(outcome) if outcome else [],
        lanes=lanes,
        ticks=[(x, f"{at:g} s") for x, at in marks.ticks(total)],
        siblings=_siblings(rollout),
    )


def _chosen(rows: list[Attempt], number: int | None) -> Attempt | None:
    if number is not None:
        asked_for = [row for row in rows if row.number == number]
        if not asked_for:
            raise Attempt.DoesNotExist(f"there is no attempt {number}")
        return asked_for[0]
    counting = [row for row in rows if (found := _trajectory(row)) is not None and found.counts]
    recorded = [row for row in rows if _trajectory(row) is not None]
    best = counting or recorded or rows
    return best[-1] if best else None


def _trajectory(attempt: Attempt | None) -> Trajectory | None:
    found = getattr(attempt, "trajectory", None)
    return found if isinstance(found, Trajectory) else None


def _load(trajectory: Trajectory | None, store: Store) -> tuple[Outcome | None, str]:
    if trajectory is None:
        return None, ""
    try:
        return trajectory.load(store), ""
    except MissingObjectError as error:
        return None, f"Its record is no longer in the object store ({error.key}); the numbers of the grade stay."


def _weaker(attempt: Attempt | None) -> str:
    """As the worker that held the attempt said."""
    if attempt is None or not attempt.incarnation:
        return ""
    said = Worker.objects.filter(incarnation=attempt.incarnation).values_list("weaker", flat=True).first()
    return said or ""


def _ending(trajectory: Trajectory | None) -> Badge | None:
    if trajectory is None:
        return None
    look = badge(ENDINGS, trajectory.ending_kind)
    detail = f": {trajectory.ending_detail}" if trajectory.ending_detail else ""
    return Badge(f"{look.word}{detail}", look.tone, look.icon)


def _attempt(attempt: Attempt, chosen: bool) -> AttemptView:
    look = badge(ENDINGS, attempt.ending_kind) if attempt.ending_kind else None
    passed = (attempt.ended_at - attempt.claimed_at).total_seconds() if attempt.ended_at else None
    return AttemptView(attempt, badge(ATTEMPTS, attempt.state), look, _trajectory(attempt), passed, chosen)


def _lanes(outcome: Outcome | None) -> tuple[list[Lane], float]:
    """Who worked when: one axis from the attempt's start to its end."""
    if outcome is None:
        return [], 0.0
    total = outcome.finished_at - outcome.started_at
    start = outcome.started_at
    policy = [
        (r.started_at - start, r.model_seconds, "lane-policy", _title(r.index, "policy", r.model_seconds))
        for r in outcome.rounds
    ]
    box = [
        (
            r.started_at - start + r.model_seconds,
            r.box_seconds,
            "lane-sandbox",
            _title(r.index, "sandbox", r.box_seconds),
        )
        for r in outcome.rounds
    ]
    graded = outcome.phases.grade
    grade = [(max(0.0, total - graded), graded, "lane-grader", f"grader {words.seconds(graded)}")] if graded else []
    starting = outcome.phases.start
    begin = [(0.0, starting, "lane-wait", f"box start {words.seconds(starting)}")] if starting else []
    parts = (("start", begin), ("policy", policy), ("sandbox", box), ("grader", grade))
    return [_lane(name, spans, total) for name, spans in parts], total


def _title(index: int, who: str, passed: float) -> str:
    return f"round {index}: {who} {words.seconds(passed)}"


def _lane(name: str, parts: list[tuple[float, float, str, str]], total: float) -> Lane:
    spent = sum(length for _, length, _, _ in parts)
    says = f"{name.capitalize()}: {words.seconds(spent)} in {words.plural(len(parts), 'piece')}"
    return Lane(name, marks.lane(parts, total), words.seconds(spent), says)


def _siblings(rollout: Rollout) -> list[Sibling]:
    counted = FilteredRelation("trajectories", condition=Q(trajectories__counts=True))
    rows = (
        Rollout.objects.filter(group=rollout.group_id)
        .annotate(counted=counted)
        .annotate(verdict=F("counted__grade__verdict"))
        .order_by("index")
        .values_list("pk", "state", "verdict")
    )
    return [
        Sibling(pk, badge(VERDICTS, verdict) if verdict else badge(ROLLOUTS, state), pk == rollout.pk)
        for pk, state, verdict in rows
    ]
