"""Typed events, numbered per stream, told on commit. The channel layer carries hints only: losing one harms nothing."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import connection, transaction

from apps.lifecycle.models import Event

log = logging.getLogger(__name__)

_NEXT = """
INSERT INTO lifecycle_stream (name, seq) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET seq = lifecycle_stream.seq + EXCLUDED.seq RETURNING seq
"""

HINT_SECONDS = 0.25
_lock = threading.Lock()
_last_hint: dict[str, float] = {}
_due: set[str] = set()
"""Streams whose next hint waits for its time."""


def run_stream(run_id: int) -> str:
    return f"run:{run_id}"


def next_seq(stream: str, count: int = 1) -> int:
    """Reserve count numbers; the last of them. Take it late in a transaction: it locks the stream until commit."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [stream, count])
        return int(cursor.fetchone()[0])


def announce(stream: str, kind: str, text: str = "", payload: Mapping[str, Any] | None = None) -> int:
    """Record one event and hint the live pages on commit; its number."""
    with transaction.atomic():
        seq = next_seq(stream)
        Event.objects.create(stream=stream, seq=seq, kind=kind, text=text, payload=dict(payload or {}))
        hint(stream)
    return seq


def hint(stream: str) -> None:
    """On commit, tell whoever watches the stream to look again; at most four times a second a process."""
    transaction.on_commit(lambda: _hint_in_time(stream), robust=True)


def _hint_in_time(stream: str) -> None:
    """Now, or as soon as the pace allows: the last of a burst is told too."""
    with _lock:
        if stream in _due:
            return
        wait = _last_hint.get(stream, 0.0) + HINT_SECONDS - time.monotonic()
        if wait > 0:
            _due.add(stream)
            later = threading.Timer(wait, _send_hint, [stream])
            later.daemon = True
            later.start()
            return
    _send_hint(stream)


def _send_hint(stream: str) -> None:
    with _lock:  # before it is sent: what is announced from here on needs a hint of its own
        _due.discard(stream)
        _last_hint[stream] = time.monotonic()
    layer = get_channel_layer()
    if layer is None:
        return
    group = stream.replace(":", ".")
    try:
        async_to_sync(layer.group_send)(group, {"type": "run.hint"})
    except Exception:  # the broker may be away; the pages poll then
        log.warning("hint for %s not sent", stream, exc_info=True)
