"""Segments of outcomes become rows: once, in one statement, whatever is repeated, late or lost.

The gate is the compare-and-set on (rollout, fence, in flight): every other insert hangs off what it returns.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import DataError, connection, transaction

from apps.lifecycle.announce import announce, hint
from apps.rollouts.dispatch import outcome_prefix
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.trajectories.models import Segment
from apps.trajectories.verdict import ruled
from sandbox_worker.messages import Outcome, decode_segment
from wire.store import Store

log = logging.getLogger(__name__)

_RECORD = """
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS g(
        id bigint, fence bigint, "offset" bigint, length int, incarnation text, counts boolean, last boolean,
        ending_kind text, ending_detail text, evidence text, rounds int, prompt_tokens int, sampled_tokens int,
        oldest int, newest int, splits int, waited float8, start float8, agent float8, grade float8,
        sandbox float8, boxes int, failures int, started_at timestamptz, finished_at timestamptz,
        verdict text, score float8, checks jsonb, error text, ends jsonb)
), locked AS (
    SELECT r.id FROM rollouts_rollout r JOIN given g ON g.id = r.id AND g.fence = r.fence
    WHERE r.run_id = %(run)s AND r.state IN ('queued', 'active') ORDER BY r.id FOR UPDATE OF r
), won AS (
    UPDATE rollouts_rollout r
    SET state = CASE WHEN g.counts THEN 'recorded' WHEN g.last OR r.attempt >= %(cap)s THEN 'parked' ELSE 'planned' END,
        parked_reason = CASE WHEN NOT g.counts AND (g.last OR r.attempt >= %(cap)s) THEN g.evidence ELSE '' END,
        finished_at = CASE WHEN g.counts OR g.last OR r.attempt >= %(cap)s THEN g.finished_at END,
        incarnation = g.incarnation, deadline = NULL
    FROM given g, locked l
    WHERE r.id = g.id AND l.id = g.id AND r.fence = g.fence AND r.state IN ('queued', 'active')
    RETURNING r.id, g.fence
), attempts AS (
    UPDATE rollouts_attempt a
    SET state = 'recorded', ended_at = g.finished_at, incarnation = g.incarnation,
        ending_kind = g.ending_kind, ending_detail = g.ending_detail, reason = g.evidence
    FROM won w JOIN given g ON g.id = w.id AND g.fence = w.fence
    WHERE a.rollout_id = w.id AND a.fence = w.fence AND a.state = 'active'
    RETURNING a.id, a.rollout_id, a.fence
), trajectories AS (
    INSERT INTO trajectories_trajectory (
        attempt_id, rollout_id, run_id, segment_id, "offset", length, counts, ending_kind, ending_detail, rounds,
        prompt_tokens, sampled_tokens, oldest_version, newest_version, splits, waited_seconds, start_seconds,
        agent_seconds, grade_seconds, sandbox_seconds, boxes_started, box_failures, started_at, finished_at,
        recorded_at)
    SELECT a.id, g.id, %(run)s, %(key)s, g."offset", g.length, g.counts, g.ending_kind, g.ending_detail, g.rounds,
        g.prompt_tokens, g.sampled_tokens, g.oldest, g.newest, g.splits, g.waited, g.start,
        g.agent, g.grade, g.sandbox, g.boxes, g.failures, g.started_at, g.finished_at, %(now)s
    FROM attempts a JOIN given g ON g.id = a.rollout_id AND g.fence = a.fence
), grades AS (
    INSERT INTO trajectories_grade (trajectory_id, verdict, score, checks, error)
    SELECT a.id, g.verdict, g.score, g.checks, g.error
    FROM attempts a JOIN given g ON g.id = a.rollout_id AND g.fence = a.fence
), ends AS (
    INSERT INTO trajectories_commandends AS known (run_id, "end", count)
    SELECT %(run)s, e.key, sum(e.value::bigint)
    FROM attempts a JOIN given g ON g.id = a.rollout_id AND g.fence = a.fence, jsonb_each_text(g.ends) e
    GROUP BY e.key ORDER BY e.key
    ON CONFLICT (run_id, "end") DO UPDATE SET count = known.count + excluded.count
)
SELECT count(*) FROM won
"""


class DamagedSegmentError(Exception):
    """A segment that is not what its writer said."""


def record_segment(run: Run, key: str, data: bytes, *, sha256: str, cap: int, now: datetime) -> int:
    """Turn one segment into rows; the number recorded. A second call changes nothing.

    Raises DamagedSegmentError."""
    if not key.startswith(f"{outcome_prefix(run)}/"):
        raise DamagedSegmentError(f"{key}: not below {outcome_prefix(run)}")
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedSegmentError(f"{key}: its SHA-256 is not {sha256}")
    try:
        outcomes = decode_segment(data)
        rows = _rows(run, outcomes)
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise DamagedSegmentError(f"{key}: {error}") from error
    try:
        with transaction.atomic():
            if not _enter(run, key, hashlib.sha256(data).hexdigest(), len(outcomes), now):
                return 0
            recorded = _record(run, key, rows, cap=cap, now=now)
            Segment.objects.filter(key=key).update(recorded=recorded)
            hint(run.stream())
    except DataError as error:  # a number that no column can hold
        raise DamagedSegmentError(f"{key}: {error}") from error
    if recorded < len(outcomes):
        log.info("%s: %d of %d outcomes were late or repeated", key, len(outcomes) - recorded, len(outcomes))
    return recorded


def sweep_segments(run: Run, store: Store, *, cap: int, now: datetime) -> int:
    """Record what lies in the store and no message told of; the number recorded."""
    if not Rollout.objects.of(run).in_flight().exists():
        return 0  # nothing that lies there could count
    known = set(Segment.objects.filter(run=run).values_list("key", flat=True))
    recorded = 0
    for key in store.list(outcome_prefix(run)):
        if key in known:
            continue
        try:
            recorded += record_segment(run, key, store.get(key), sha256="", cap=cap, now=now)
        except DamagedSegmentError as error:
            _set_aside(run, key, str(error), now)
    return recorded


def _set_aside(run: Run, key: str, why: str, now: datetime) -> None:
    """A damaged segment is told of once; its rollouts expire and are tried again."""
    with transaction.atomic():
        if _enter(run, key, "", 0, now):
            announce(run.stream(), "segment.damaged", _text(why))
            log.error(why)


_ENTER = """
INSERT INTO trajectories_segment (key, run_id, sha256, outcomes, recorded, at) VALUES (%s, %s, %s, %s, 0, %s)
ON CONFLICT DO NOTHING
"""


def _enter(run: Run, key: str, sha256: str, outcomes: int, now: datetime) -> bool:
    """The row comes first: a second recorder of the same segment waits for it here, then finds it and leaves."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTER, [key, run.pk, sha256, outcomes, now])
        return bool(cursor.rowcount == 1)


def _record(run: Run, key: str, rows: list[dict[str, Any]], *, cap: int, now: datetime) -> int:
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_RECORD, {"rows": json.dumps(rows), "run": run.pk, "key": key, "cap": cap, "now": now})
        return int(cursor.fetchone()[0])


def _rows(run: Run, outcomes: Iterable[tuple[int, int, Outcome]]) -> list[dict[str, Any]]:
    # Within one statement an update would pick one of two equal rows at random: the first written counts.
    rows: dict[tuple[int, int], dict[str, Any]] = {}
    for offset, length, outcome in outcomes:
        if outcome.run_id == run.pk:
            rows.setdefault((outcome.rollout_id, outcome.fence), _row(offset, length, ruled(outcome)))
    return list(rows.values())


def _row(offset: int, length: int, outcome: Outcome) -> dict[str, Any]:
    versions = [found.policy_version for found in outcome.rounds if found.policy_version is not None]
    return {
        "id": outcome.rollout_id,
        "fence": outcome.fence,
        "offset": offset,
        "length": length,
        "incarnation": _text(outcome.incarnation)[:40],
        "counts": outcome.grade.verdict != "none",
        # What is wrong with a task is wrong with it at every attempt.
        "last": outcome.ending.kind == "infra" and outcome.ending.detail == "task",
        "ending_kind": outcome.ending.kind,
        "ending_detail": _text(outcome.ending.detail)[:40],
        "evidence": _text(outcome.ending.evidence),
        "rounds": len(outcome.rounds),
        "prompt_tokens": outcome.use.prompt_tokens,
        "sampled_tokens": sum(len(found.sampled_ids) for found in outcome.rounds) or outcome.use.sampled_tokens,
        "oldest": min(versions, default=None),
        "newest": max(versions, default=None),
        "splits": outcome.splits,
        "waited": outcome.phases.waited,
        "start": outcome.phases.start,
        "agent": outcome.phases.agent,
        "grade": outcome.phases.grade,
        "sandbox": outcome.use.sandbox_seconds,
        "boxes": outcome.use.boxes_started,
        "failures": outcome.use.box_failures,
        "started_at": datetime.fromtimestamp(outcome.started_at, UTC).isoformat(),
        "finished_at": datetime.fromtimestamp(outcome.finished_at, UTC).isoformat(),
        "verdict": outcome.grade.verdict,
        "score": outcome.grade.score,
        "checks": [
            {"name": _text(check.name), "passed": check.passed, "detail": _text(check.detail)}
            for check in outcome.grade.checks
        ],
        "error": _text(outcome.grade.error),
        "ends": Counter(_text(played.end)[:20] for played in outcome.rounds if played.end),
    }


def _text(value: str) -> str:
    """PostgreSQL text refuses NUL."""
    return value.replace("\0", "\ufffd")
