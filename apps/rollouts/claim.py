"""Claim planned rollouts: fence up, attempt row, deadline, in one statement. Commit before anything is sent."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from apps.runs.models import Run


@dataclass(frozen=True)
class Claim:
    """One claimed rollout with what its request needs."""

    rollout_id: int
    fence: int
    attempt: int
    group_id: int
    policy_version: int | None


# Scripts come first: they need no policy server, and the warm start waits for them. Then evaluations: they pin a version.
_CLAIM = """
WITH picked AS (
    SELECT r.id, r.fence + 1 AS fence, r.attempt + 1 AS attempt, g.id AS group_id,
           CASE WHEN g.script <> '' THEN NULL ELSE coalesce(g.pinned_version, %(version)s) END AS version
    FROM rollouts_rollout r JOIN rollouts_group g ON g.id = r.group_id
    WHERE r.run_id = %(run)s AND r.state = 'planned'
      AND (g.script <> '' OR coalesce(g.pinned_version, %(version)s) = ANY(%(live)s))
    ORDER BY (g.script <> '') DESC, (g.purpose = 'evaluation') DESC, r.id
    LIMIT %(limit)s
    FOR UPDATE OF r SKIP LOCKED
), claimed AS (
    UPDATE rollouts_rollout r
    SET state = 'queued', fence = p.fence, attempt = p.attempt, policy_version = p.version, incarnation = '',
        claimed_at = %(now)s, deadline = %(deadline)s, config_revision = %(revision)s
    FROM picked p WHERE r.id = p.id
    RETURNING r.id, r.fence, r.attempt, r.group_id, r.policy_version
), attempts AS (
    INSERT INTO rollouts_attempt
        (run_id, rollout_id, number, fence, state, policy_version, incarnation, claimed_at, ending_kind,
         ending_detail, reason)
    SELECT %(run)s, id, attempt, fence, 'active', policy_version, '', %(now)s, '', '', '' FROM claimed
)
SELECT id, fence, attempt, group_id, policy_version FROM claimed ORDER BY id
"""


def claim_rollouts(
    run: Run, *, limit: int, live_versions: set[int], now: datetime, deadline: datetime, revision: int
) -> list[Claim]:
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
                "deadline": deadline,
                "revision": revision,
            },
        )
        return [Claim(*row) for row in cursor.fetchall()]
