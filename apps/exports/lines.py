"""The rollouts of a run as JSON lines: the first says what follows, the last how many. One cut short has no last."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec
from channels.db import database_sync_to_async
from django.db.models import QuerySet

from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.trajectories.models import Grade

SCHEMA_VERSION = 1
"""Of a line. It goes up when a field changes its meaning or goes away; readers ignore fields that they do not know."""
CHUNK = 500


async def export_lines(
    run: Run, rows: QuerySet[Rollout, dict[str, Any]], filters: dict[str, str], now: datetime
) -> AsyncIterator[bytes]:
    """rows: graded rollouts. Read in pages by key, oldest first, each with a connection that is then given back: a
    reader that stalls holds neither a transaction nor a place in the pool."""
    yield _line(
        {"kind": "export", "run": run.pk, "name": run.name, "formula": run.formula, "filters": filters, "at": now}
    )
    last, count = 0, 0
    while page := await database_sync_to_async(_page)(rows, last):
        yield b"".join(_line(row) for row in page)
        last, count = page[-1]["id"], count + len(page)
    yield _line({"kind": "end", "rollouts": count})


def _page(rows: QuerySet[Rollout, dict[str, Any]], after: int) -> list[dict[str, Any]]:
    page = list(rows.filter(id__gt=after).order_by("id")[:CHUNK])
    grades = Grade.objects.in_bulk([row["trajectory"] for row in page if row["trajectory"] is not None])
    return [{"kind": "rollout", **row, "grade": _grade(grades.get(row["trajectory"]))} for row in page]


def _grade(grade: Grade | None) -> dict[str, Any] | None:
    if grade is None:
        return None
    return {"verdict": grade.verdict, "score": grade.score, "checks": grade.checks, "error": grade.error}


def _line(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"schema_version": SCHEMA_VERSION, **fields}) + b"\n"
