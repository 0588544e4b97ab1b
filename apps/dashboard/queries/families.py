"""Completion by family, start and now, drawn as a forest; families that allow more rounds, and unseen ones, apart."""

from dataclasses import dataclass
from typing import Any

from apps.dashboard import marks, words
from apps.dashboard.queries.steps import Evaluations
from apps.evaluation.models import Evaluation


@dataclass(frozen=True)
class ForestRow:
    name: str
    now: str
    ci: str
    gain: str
    tries: str
    start_x: str
    """Empty without a start."""
    now_x: str
    low_x: str
    high_x: str
    says: str
    why: str
    """Why a bound is missing, or what a reader must know of it."""


@dataclass(frozen=True)
class Forest:
    title: str
    note: str
    rows: list[ForestRow]
    total: ForestRow | None


def forests(found: Evaluations) -> list[Forest]:
    """One for each part that has families; nothing before the first evaluation."""
    held = _parts(found.held_out)
    unseen = _parts(found.unseen)
    wanted = [
        _forest("By family, one round allowed", "held-out", held, two_rounds=False, total="one_round"),
        _forest(
            "By family, more rounds allowed",
            "held-out: tasks that allow more than one round; "
            "in the bundled ones the first command only shows what to do",
            held,
            two_rounds=True,
            total="two_rounds",
        ),
        _forest("Unseen families", "never trained on, always shown apart", unseen, two_rounds=None, total="completion"),
    ]
    return [forest for forest in wanted if forest is not None]


def _parts(suite: list[Evaluation]) -> tuple[Evaluation | None, Evaluation | None]:
    """First (None if there is no other) and last."""
    if not suite:
        return None, None
    return (suite[0] if len(suite) > 1 else None), suite[-1]


def _forest(
    title: str, note: str, parts: tuple[Evaluation | None, Evaluation | None], *, two_rounds: bool | None, total: str
) -> Forest | None:
    first, last = parts
    if last is None:
        return None
    families = last.result.get("by_family", {})
    chosen = {
        name: row for name, row in families.items() if two_rounds is None or bool(row.get("two_rounds")) == two_rounds
    }
    if not chosen:
        return None
    before = first.result.get("by_family", {}) if first else {}
    rows = [_row(name, row, before.get(name)) for name, row in chosen.items()]
    whole = last.result.get(total)
    start = first.result.get(total) if first else None
    counted = {"solved": last.solved, "started": last.started}
    together = _row(f"all {len(rows)} families", {**counted, **whole}, start) if whole else None
    measured = f"version {last.version}, {words.plural(last.tries, 'try', 'tries')} a task, 95 % interval"
    return Forest(title, f"{note}; {measured}", rows, together)


def _row(name: str, now: dict[str, Any], start: dict[str, Any] | None) -> ForestRow:
    estimate, low, high = now.get("estimate"), now.get("low"), now.get("high")
    began = start.get("estimate") if start else None
    known = estimate if estimate is not None else 0.0
    says = f"{name}: now {words.percent(estimate)} %, interval {words.percent(low)} to {words.percent(high)} %"
    if began is not None:
        says = f"{name}: {words.percent(began)} % at start, {says.partition(': ')[2]}"
    gain = words.NOT_DEFINED if began is None or estimate is None else words.points(estimate - began, 0)
    return ForestRow(
        name=name,
        now=words.percent(estimate, 0),
        ci=words.interval(low, high, 0),
        gain=gain,
        tries=f"{now.get('solved', 0)} of {now.get('started', 0)}",
        start_x="" if began is None else marks.pct(began),
        now_x=marks.pct(known),
        low_x=marks.pct(low if low is not None else known),
        high_x=marks.pct(high if high is not None else known),
        says=says,
        why=now.get("why", ""),
    )
