"""Tear down what is in flight: mark it cancelled, order the workers to stop, and know when nothing is left."""

from datetime import datetime

import msgspec
from django.db import connection, transaction

from apps.fleet.models import Worker
from apps.rollouts import states
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from wire.incarnation import Orders, orders_key
from wire.store import Store

_CANCEL = """
WITH going AS (
    SELECT id, fence FROM rollouts_rollout
    WHERE run_id = %(run)s AND state IN ('planned', 'queued', 'active') ORDER BY id FOR UPDATE
), attempts AS (
    UPDATE rollouts_attempt a SET state = 'cancelled', ended_at = %(now)s, reason = %(reason)s
    FROM going WHERE a.rollout_id = going.id AND a.fence = going.fence AND a.state = 'active'
)
UPDATE rollouts_rollout r SET state = 'cancelled', finished_at = %(now)s, deadline = NULL
FROM going WHERE r.id = going.id
"""


def cancel_rollouts(run: Run, *, reason: str, now: datetime) -> int:
    """Cancel every undone rollout of a run; the number cancelled. The workers are ordered to stop in the same pass."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_CANCEL, {"run": run.pk, "reason": reason, "now": now})
        return int(cursor.rowcount)


def order_stops(store: Store) -> int:
    """Order each worker to stop the attempts that no longer count: cancelled, or claimed again. The number ordered."""
    ordered = 0
    for worker in Worker.objects.of_kind("sandbox").present():
        useless = _useless(worker.holding)
        if useless:
            store.put(orders_key(worker.incarnation), msgspec.json.encode(Orders(cancelled=frozenset(useless))))
            ordered += len(useless)
    return ordered


def held_anywhere(run: Run) -> int:
    """Attempts of this run that present workers still hold."""
    entries = [entry for worker in Worker.objects.of_kind("sandbox").present() for entry in worker.holding]
    ids = {rollout for rollout, _ in _pairs(entries)}
    return Rollout.objects.of(run).filter(pk__in=ids).count()


def _useless(holding: list[str]) -> list[str]:
    pairs = _pairs(holding)
    # What is recorded already is only finishing; it needs no order.
    counting = Rollout.objects.filter(state__in=[*states.IN_FLIGHT, states.RECORDED])
    live = set(counting.filter(pk__in={rollout for rollout, _ in pairs}).values_list("pk", "fence"))
    return [f"{rollout}:{fence}" for rollout, fence in pairs if (rollout, fence) not in live]


def _pairs(holding: list[str]) -> list[tuple[int, int]]:
    """Rollouts with their fences: a worker may hold one under two."""
    return [(int(rollout), int(fence)) for rollout, fence in (entry.split(":") for entry in holding)]
