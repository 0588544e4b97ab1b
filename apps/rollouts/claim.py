"""Claim planned rollouts: fence up, attempt row, deadline, in one statement. Commit before anything is sent."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from apps.runs.models import Run
from apps.tasks.models import AGENT_SECONDS, VERIFIER_SECONDS

GRACE_SECONDS = 600.0
"""On top of the task's own limits: waiting in a worker, restarts of the policy server."""


@dataclass(frozen=True)
class Claim:
    """One claimed rollout with what its request needs."""

    rollout_id: int
    fence: int
    attempt: int
    group_id: int
    policy_version: int | None
    deadline: datetime


# Scripts come first: they need no policy server, and the warm start waits for them. Then evaluations: they pin one.
_CLAIM = """
WITH picked AS (
    SELECT r.id, r.fence + 1 AS fence, r.attempt + 1 AS attempt, g.id AS group_id,
           CASE WHEN g.script <> '' THEN NULL ELSE coalesce(g.pinned_version, %(version)s) END AS version,
           %(now)s + make_interval(secs => %(grace)s + coalesce((t.settings->>'agent_seconds')::float8, %(agent)s)
               + coalesce((t.settings->>'verifier_seconds')::float8, %(verifier)s)
               + coalesce((t.settings->>'build_seconds')::float8, 0)) AS deadline
    FROM rollouts_rollout r JOIN rollouts_group g ON g.id = r.group_id
    JOIN tasks_taskversion t ON t.id = g.task_version_id
    WHERE r.run_id = %(run)s AND r.state = 'planned'
      AND (g.script <> '' OR coalesce(g.pinned_version, %(version)s) = ANY(%(live)s))
    ORDER BY (g.script <> '') DESC, (g.purpose = 'evaluation') DESC, r.id
    LIMIT %(limit)s
    FOR UPDATE OF r SKIP LOCKED
), claimed AS (
    UPDATE rollouts_rollout r
    SET state = 'queued', fence = p.fence, attempt = p.attempt, policy_version = p.version, incarnation = '',
        claimed_at = %(now)s, deadline = p.deadline, config_revision = %(revision)s
    FROM picked p WHERE r.id = p.id
    RETURNING r.id, r.fence, r.attempt, r.group_id, r.policy_version, r.deadline
), attempts AS (
    INSERT INTO rollouts_attempt
        (run_id, rollout_id, number, fence, state, policy_version, incarnation, claimed_at, ending_kind,
         ending_detail, reason)
    SELECT %(run)s, id, attempt, fence, 'active', policy_version, '', %(now)s, '', '', '' FROM claimed
)
SELECT id, fence, attempt, group_id, policy_version, deadline FROM claimed ORDER BY id
"""


def claim_rollouts(run: Run, *, limit: int, live_versions: set[int], now: datetime, revision: int) -> list[Claim]:
    """Up to limit planned rollouts whose policy version is served, evaluations first."""
    if limit <= 0:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "run": run.pk,
                "version": run.policy_version,
                "live": sorted(live_versions),
                "limit": limit,
                "now": now,
                "grace": GRACE_SECONDS,
                "agent": AGENT_SECONDS,
                "verifier": VERIFIER_SECONDS,
                "revision": revision,
            },
        )
        return [Claim(*row) for row in cursor.fetchall()]
