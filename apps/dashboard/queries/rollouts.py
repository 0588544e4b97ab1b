"""The rollouts of a run, newest first, narrowed by what a person looks for; pages by key, never by offset."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, F, FilteredRelation, OuterRef, Q, QuerySet

from apps.accounts.models import User
from apps.dashboard.badges import ENDINGS as ENDING_LOOKS
from apps.dashboard.badges import ROLLOUTS, VERDICTS, Badge, badge
from apps.rollouts.models import PURPOSES, Rollout
from apps.runs.models import Run
from apps.trajectories.models import ENDINGS, Trajectory

PAGE = 50


@dataclass(frozen=True)
class Wanted:
    """Filters, as the address carries them; an unknown value finds nothing rather than everything."""

    purpose: str = ""
    verdict: str = ""
    ending: str = ""
    family: str = ""
    version: str = ""
    before: str = ""

    def described(self) -> list[str]:
        named = (("purpose", self.purpose), ("verdict", self.verdict), ("ending", self.ending))
        more = (("family", self.family), ("version", self.version))
        return [f"{name} is {value}" for name, value in (*named, *more) if value]


@dataclass(frozen=True)
class RolloutRow:
    pk: int
    task: str
    family: str
    purpose: str
    suite: str
    state: Badge
    recorded: bool
    verdict: Badge | None
    ending: Badge | None
    ending_detail: str
    rounds: int | None
    versions: str
    sampled_tokens: int | None
    reward: float | None
    attempts: int
    seconds: float | None
    finished_at: datetime | None


@dataclass(frozen=True)
class RolloutList:
    run: Run
    rows: list[RolloutRow]
    total: int
    families: list[str]
    next_before: int | None
    purposes: tuple[str, ...] = PURPOSES
    verdicts: tuple[str, ...] = ("solved", "unsolved", "none")
    endings: tuple[str, ...] = ENDINGS


def rollout_list(user: User | AnonymousUser, run_id: int, wanted: Wanted) -> RolloutList:
    """Raises Run.DoesNotExist, also for what the user may not see."""
    run = Run.objects.visible_to(user).select_related("policy", "task_set").get(pk=run_id)
    every = Rollout.objects.of(run)
    page = list(_detailed(_filtered(every, wanted), run).order_by("-id")[: PAGE + 1])
    shown = page[:PAGE]
    return RolloutList(
        run=run,
        rows=[_row(one) for one in shown],
        total=every.count(),
        families=sorted(set(run.task_set.entries.values_list("family", flat=True))),
        next_before=_as_int(shown[-1]["pk"]) if len(page) > PAGE else None,
    )


def _number(text: str) -> int:
    """A number that no row has for what is none."""
    return int(text) if text.isdecimal() and len(text) < 10 else -1


def _filtered(rows: QuerySet[Rollout], wanted: Wanted) -> QuerySet[Rollout]:
    if wanted.before:
        rows = rows.filter(pk__lt=_number(wanted.before))
    if wanted.purpose:
        rows = rows.filter(group__purpose=wanted.purpose)
    if wanted.family:
        rows = rows.filter(group__task_version__task__family=wanted.family)
    tries = Trajectory.objects.filter(rollout=OuterRef("pk"))
    if wanted.verdict == "none":
        rows = rows.filter(Exists(tries)).exclude(Exists(tries.filter(counts=True)))
    elif wanted.verdict:
        rows = rows.filter(Exists(tries.filter(counts=True, grade__verdict=wanted.verdict)))
    if wanted.ending:
        rows = rows.filter(Exists(tries.filter(ending_kind=wanted.ending)))
    if wanted.version:
        version = _number(wanted.version)
        written = Exists(tries.filter(oldest_version__lte=version, newest_version__gte=version))
        rows = rows.filter(written | Q(policy_version=version))
    return rows


def _detailed(rows: QuerySet[Rollout], run: Run) -> QuerySet[Rollout, dict[str, object]]:
    """With the attempt that counts and its reward under the run's formula."""
    counted = FilteredRelation("trajectories", condition=Q(trajectories__counts=True))
    scored = FilteredRelation("counted__rewards", condition=Q(counted__rewards__formula=run.formula))
    return (
        rows.annotate(counted=counted)
        .annotate(scored=scored)
        .values(
            "pk",
            "state",
            "attempt",
            "policy_version",
            "finished_at",
            task=F("group__task_version__task__name"),
            family=F("group__task_version__task__family"),
            purpose=F("group__purpose"),
            suite=F("group__suite"),
            script=F("group__script"),
            verdict=F("counted__grade__verdict"),
            ending=F("counted__ending_kind"),
            ending_detail=F("counted__ending_detail"),
            rounds=F("counted__rounds"),
            oldest=F("counted__oldest_version"),
            newest=F("counted__newest_version"),
            sampled=F("counted__sampled_tokens"),
            agent=F("counted__agent_seconds"),
            reward=F("scored__value"),
        )
    )


def _row(one: dict[str, object]) -> RolloutRow:
    fields: dict[str, object] = one
    verdict, ending = fields["verdict"], fields["ending"]
    return RolloutRow(
        pk=_as_int(fields["pk"]) or 0,
        task=str(fields["task"]),
        family=str(fields["family"]),
        purpose=str(fields["purpose"]),
        suite=str(fields["suite"]),
        state=badge(ROLLOUTS, str(fields["state"])),
        recorded=fields["state"] == "recorded",
        verdict=badge(VERDICTS, str(verdict)) if verdict else None,
        ending=badge(ENDING_LOOKS, str(ending)) if ending else None,
        ending_detail=str(fields["ending_detail"] or ""),
        rounds=_as_int(fields["rounds"]),
        versions=_versions(fields),
        sampled_tokens=_as_int(fields["sampled"]),
        reward=_as_float(fields["reward"]),
        attempts=_as_int(fields["attempt"]) or 0,
        seconds=_as_float(fields["agent"]),
        finished_at=fields["finished_at"] if isinstance(fields["finished_at"], datetime) else None,
    )


def _as_int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _as_float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _versions(fields: dict[str, object]) -> str:
    """Who wrote it: one version, a span of two, or a script."""
    if fields["script"]:
        return f"script {fields['script']}"
    oldest, newest = fields["oldest"], fields["newest"]
    if newest is None:
        return "" if fields["policy_version"] is None else str(fields["policy_version"])
    return str(newest) if oldest == newest else f"{oldest} to {newest}"
