"""Rollouts with what came of them: the attempt that counts, its grade, and its reward under the run's formula."""

from typing import Any

from django.db.models import Case, F, FilteredRelation, Q, QuerySet, Value, When

from apps.rollouts.models import Rollout
from apps.rollouts.states import PARKED


def graded(rollouts: QuerySet[Rollout]) -> QuerySet[Rollout, dict[str, Any]]:
    """One plain row a rollout. Verdict and ending are None until it is done; of a parked one, none and infra."""
    counted = FilteredRelation("trajectories", condition=Q(trajectories__counts=True))
    scored = FilteredRelation("counted__rewards", condition=Q(counted__rewards__formula=F("run__formula")))
    return (
        rollouts.annotate(counted=counted)
        .annotate(scored=scored)
        .annotate(
            verdict=_or_if_parked("counted__grade__verdict", "none"),
            ending_kind=_or_if_parked("counted__ending_kind", "infra"),
        )
        .values(
            "id",
            "run",
            "group",
            "index",
            "state",
            "attempt",
            "policy_version",
            "config_revision",
            "planned_at",
            "claimed_at",
            "finished_at",
            "parked_reason",
            "verdict",
            "ending_kind",
            task=F("group__task_version__task_id"),
            task_name=F("group__task_version__task__name"),
            task_version=F("group__task_version__number"),
            task_digest=F("group__task_version__digest"),
            family=F("group__task_version__task__family"),
            purpose=F("group__purpose"),
            suite=F("group__suite"),
            script=F("group__script"),
            trajectory=F("counted__pk"),
            ending_detail=F("counted__ending_detail"),
            score=F("counted__grade__score"),
            reward=F("scored__value"),
            formula=F("run__formula"),
            rounds=F("counted__rounds"),
            prompt_tokens=F("counted__prompt_tokens"),
            sampled_tokens=F("counted__sampled_tokens"),
            oldest_version=F("counted__oldest_version"),
            newest_version=F("counted__newest_version"),
            agent_seconds=F("counted__agent_seconds"),
        )
    )


def _or_if_parked(name: str, word: str) -> Case:
    return Case(When(state=PARKED, then=Value(word)), default=F(name))
