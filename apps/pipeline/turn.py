"""One step of a pass: its own transaction, under an advisory lock.

Two passes never do the same thing at once.
"""

import zlib
from collections.abc import Callable
from typing import TypeVar

from django.db import connection, transaction

from apps.runs.models import Run

T = TypeVar("T")


def take_turn(run: Run, step: str, work: Callable[[], T], *, within: frozenset[str]) -> T | None:
    """Do the work if nobody else is at this step of this run; None if somebody is, or if the run left these states.

    The run's row is locked, and read again under the lock: a step never decides by what another has just changed."""
    with transaction.atomic():
        if not _ask("SELECT pg_try_advisory_xact_lock(%s, %s)", run, step):
            return None
        run.refresh_from_db(from_queryset=Run.objects.select_for_update(no_key=True))
        return work() if run.state in within else None


def take_long_turn(run: Run, step: str, work: Callable[[], T]) -> T | None:
    """The same for work that waits on the network: each of its writes is a transaction of its own."""
    if not _ask("SELECT pg_try_advisory_lock(%s, %s)", run, step):
        return None
    try:
        return work()
    finally:
        _ask("SELECT pg_advisory_unlock(%s, %s)", run, step)


def _ask(statement: str, run: Run, step: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [zlib.crc32(step.encode()) & 0x7FFFFFFF, run.pk])
        return bool(cursor.fetchone()[0])
