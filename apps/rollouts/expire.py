"""Attempts whose worker is gone, or whose deadline has passed, are lost; their rollouts are planned again."""

from datetime import datetime, timedelta

from django.db import connection, transaction

from apps.fleet.models import Worker
from apps.rollouts.models import Rollout
from apps.runs.models import Run

UNHELD_AFTER = timedelta(seconds=25)
"""A claimed rollout that no worker holds after two heartbeats was lost with its message, or by its worker."""

_HELD = """
UPDATE rollouts_rollout r SET state = 'active', incarnation = %(incarnation)s
FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS held(id, fence)
WHERE r.id = held.id AND r.fence = held.fence AND r.state = 'queued' AND r.run_id = %(run)s
"""

_LOSE = """
WITH lost AS (
    SELECT r.id, r.fence, r.attempt FROM rollouts_rollout r
    WHERE r.id = ANY(%(ids)s) AND r.state IN ('queued', 'active') ORDER BY r.id FOR UPDATE
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


def expire_attempts(run: Run, *, cap: int, now: datetime) -> int:
    """Give up on attempts that cannot come back; the number lost. Outcomes in the store are recorded first."""
    Worker.objects.declare_gone(now)
    note_held(run, now=now)
    return sum(_lose(ids, reason, cap, now) for reason, ids in _hopeless(run, now).items() if ids)


def _hopeless(run: Run, now: datetime) -> dict[str, list[int]]:
    rows = (
        Rollout.objects.of(run).in_flight().values_list("id", "fence", "state", "incarnation", "claimed_at", "deadline")
    )
    present = {worker.incarnation: worker for worker in Worker.objects.of_kind("sandbox").present()}
    held = {entry for worker in present.values() for entry in worker.holding}
    found: dict[str, list[int]] = {"its worker is gone": [], "no worker holds it": [], "past its deadline": []}
    for rollout_id, fence, _state, incarnation, claimed_at, deadline in rows:
        if deadline is not None and deadline < now:
            found["past its deadline"].append(rollout_id)
        elif incarnation and incarnation not in present:
            found["its worker is gone"].append(rollout_id)
        elif f"{rollout_id}:{fence}" not in held and claimed_at is not None and claimed_at < now - UNHELD_AFTER:
            if _has_beaten_since(present, incarnation, claimed_at + UNHELD_AFTER):
                found["no worker holds it"].append(rollout_id)
    return found


def _has_beaten_since(present: dict[str, Worker], incarnation: str, moment: datetime) -> bool:
    """True if the holder (or, before one is known, any worker) has spoken late enough to be believed."""
    if incarnation:
        return present[incarnation].heartbeat_at > moment
    return any(worker.heartbeat_at > moment for worker in present.values())


def _lose(ids: list[int], reason: str, cap: int, now: datetime) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOSE, {"ids": ids, "reason": reason, "cap": cap, "now": now})
        return cursor.rowcount
