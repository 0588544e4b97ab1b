"""One step of a pass: its own transaction, under an advisory lock.

Two passes never do the same thing at once.
"""

import zlib
from collections.abc import Callable
from typing import TypeVar

from django.db import connection, transaction

from apps.runs.models import Run

T = TypeVar("T")


def take_turn(run: Run, step: str, work: Callable[[], T]) -> T | None:
    """Do the work if nobody else is at this step of this run; None if somebody is."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", [zlib.crc32(step.encode()) & 0x7FFFFFFF, run.pk])
            if not cursor.fetchone()[0]:
                return None
        return work()
