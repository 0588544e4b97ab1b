"""Attempts whose worker is gone, or whose deadline has passed, are lost; their rollouts are planned again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from apps.fleet.models import Worker
from apps.rollouts.models import Rollout
from apps.runs.models import Run

UNHELD_AFTER = timedelta(seconds=25)
"""A claimed rollout that no worker holds after two heartbeats was lost with its message, or by its worker."""

PAST_DEADLINE, WORKER_GONE, UNHELD = "past its deadline", "its worker is gone", "no worker holds it"

_HELD = """
UPDATE rollouts_rollout r SET state = 'active', incarnation = %(incarnation)s
FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS held(id, fence)
WHERE r.id = held.id AND r.fence = held.fence AND r.state = 'queued' AND r.run_id = %(run)s
"""

_LOSE = """
WITH lost AS (
    SELECT r.id, r.fence, r.attempt FROM rollouts_rollout r
    JOIN unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS hopeless(id, fence) USING (id, fence)
    WHERE r.run_id = %(run)s AND r.state IN ('queued', 'active') ORDER BY r.id FOR UPDATE OF r
), attempts AS (
    UPDATE rollouts_attempt a SET state = 'lost', ended_at = %(now)s, reason = %(reason)s
    FROM lost WHERE a.rollout_id = lost.id AND a.fence = lost.fence AND a.state = 'active'
)
UPDATE rollouts_rollout r
SET state = CASE WHEN lost.attempt >= %(cap)s THEN 'parked' ELSE 'planned' END,
    parked_reason = CASE WHEN lost.attempt >= %(cap)s THEN %(reason)s ELSE '' END,
    finished_at = CASE WHEN lost.attempt >= %(cap)s THEN %(now)s::timestamptz END,
    incarnation = '', deadline = NULL
FROM lost WHERE r.id = lost.id
"""


def note_held(run: Run, *, now: datetime) -> None:
    """Claimed rollouts that a present worker says it holds become active."""
    for worker in Worker.objects.of_kind("sandbox").present():
        pairs = [entry.split(":") for entry in worker.holding]
        if not pairs:
            continue
        with connection.cursor() as cursor:
            cursor.execute(
                _HELD,
                {
                    "incarnation": worker.incarnation,
                    "ids": [int(pair[0]) for pair in pairs],
                    "fences": [int(pair[1]) for pair in pairs],
                    "run": run.pk,
                },
            )


@dataclass(frozen=True)
class Hopeless:
    """One attempt that cannot come back."""

    rollout_id: int
    fence: int
    reason: str


def hopeless_attempts(run: Run, *, now: datetime) -> list[Hopeless]:
    """Attempts to give up on, unless their outcome lies in the store: sweep it before losing them."""
    Worker.objects.declare_gone(now)
    note_held(run, now=now)
    present = {worker.incarnation: worker for worker in Worker.objects.of_kind("sandbox").present()}
    held = {entry for worker in present.values() for entry in worker.holding}
    rows = Rollout.objects.of(run).in_flight().values_list("id", "fence", "incarnation", "claimed_at", "deadline")
    found = []
    for rollout_id, fence, incarnation, claimed_at, deadline in rows:
        reason = ""
        if deadline is not None and deadline < now:
            reason = PAST_DEADLINE
        elif incarnation and incarnation not in present:
            reason = WORKER_GONE
        elif f"{rollout_id}:{fence}" not in held and _spoken_since(present, incarnation, claimed_at):
            reason = UNHELD
        if reason:
            found.append(Hopeless(rollout_id, fence, reason))
    return found


def lose_attempts(run: Run, hopeless: Iterable[Hopeless], *, cap: int, now: datetime) -> int:
    """Those that nothing was heard of meanwhile are lost and planned again; the number lost."""
    by_reason: dict[str, list[Hopeless]] = {}
    for one in hopeless:
        by_reason.setdefault(one.reason, []).append(one)
    return sum(_lose(run, part, reason, cap, now) for reason, part in by_reason.items())


def _spoken_since(present: dict[str, Worker], incarnation: str, claimed_at: datetime | None) -> bool:
    """True if the holder (or, before one is known, any worker) has spoken late enough to be believed."""
    if claimed_at is None:
        return False
    moment = claimed_at + UNHELD_AFTER
    if incarnation:
        return present[incarnation].spoke_at > moment
    return any(worker.spoke_at > moment for worker in present.values())


def _lose(run: Run, part: list[Hopeless], reason: str, cap: int, now: datetime) -> int:
    values: dict[str, Any] = {
        "run": run.pk,
        "ids": [one.rollout_id for one in part],
        "fences": [one.fence for one in part],
        "reason": reason,
        "cap": cap,
        "now": now,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOSE, values)
        return int(cursor.rowcount)
