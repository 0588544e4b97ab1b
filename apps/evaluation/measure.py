"""The numbers of one evaluation: three denominators, families, rounds; an interval on every rate."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from apps.evaluation.collect import EvaluationTry
from apps.evaluation.statistics.denominators import completion_of
from apps.evaluation.statistics.interval import Interval
from apps.evaluation.statistics.rounds import rounds_to_success, solved_within


def measure(tries: Sequence[EvaluationTry], *, planned: int) -> dict[str, Any]:
    """The fields of an Evaluation."""
    found = completion_of([one.ended() for one in tries], planned)
    counts = found.counts
    return {
        "tasks": len({one.task for one in tries}),
        "started": counts.started,
        "reached_verdict": counts.reached_verdict,
        "solved": counts.solved,
        "attempts": counts.attempts_started,
        "infra": counts.infra,
        "estimate": found.intent_to_treat.estimate,
        "low": found.intent_to_treat.low,
        "high": found.intent_to_treat.high,
        "result": {
            "completion": plain(found.intent_to_treat),
            "valid": plain(found.valid),
            "infra": plain(found.infra),
            "by_family": _families(tries),
            "rounds": _rounds(tries),
            "rounds_two": _rounds([one for one in tries if one.two_rounds]),
            "two_rounds": _part([one for one in tries if one.two_rounds]),
            "one_round": _part([one for one in tries if not one.two_rounds]),
        },
    }


def plain(interval: Interval) -> dict[str, Any]:
    """As JSON values."""
    return asdict(interval)


def _part(tries: Sequence[EvaluationTry]) -> dict[str, Any] | None:
    if not tries:
        return None
    found = completion_of([one.ended() for one in tries], len(tries))
    return {"solved": found.counts.solved, "started": found.counts.started, **plain(found.intent_to_treat)}


def _families(tries: Sequence[EvaluationTry]) -> dict[str, dict[str, Any]]:
    parts: dict[str, list[EvaluationTry]] = {}
    for one in tries:
        parts.setdefault(one.family, []).append(one)
    # Within one family each task is a unit of its own: there is nothing above it to cluster by.
    rows = {}
    for family, part in sorted(parts.items()):
        found = completion_of([replace(one.ended(), family=one.task) for one in part], len(part))
        rows[family] = {
            "solved": found.counts.solved,
            "started": found.counts.started,
            "two_rounds": part[0].two_rounds,
            **plain(found.intent_to_treat),
        }
    return rows


def _rounds(tries: Sequence[EvaluationTry]) -> dict[str, Any] | None:
    if not tries:
        return None
    graded = [one.rounds_try() for one in tries]
    cap = max(max(one.round_limit, one.rounds) for one in tries)
    within = solved_within(graded, cap)
    median = rounds_to_success(graded, cap)
    return {
        "cap": cap,
        "within": [
            {"rounds": row.rounds, "solved": row.solved, "tries": row.tries, **plain(row.rate)} for row in within
        ],
        "median": median.median,
        "why": median.why,
        "censored": median.censored,
        "tries": median.tries,
    }
