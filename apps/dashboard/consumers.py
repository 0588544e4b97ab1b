"""Relays what changed in a run to one page: join, coalesce hints, read again with the reader's own permission, send.

Hints may be lost: the page asks for gaps by their numbers, and each message says what it continues.
"""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs

import msgspec
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import User
from apps.dashboard.queries.live import Message, live_message
from apps.runs.models import Run

log = logging.getLogger(__name__)

COALESCE_SECONDS = 0.5
REST = 4.0
"""A link rests so many times as long as its last message took: it never has more than a fifth of a connection."""
LOOK_SECONDS = 30.0
"""Without any hint: permission is checked again, and what a lost hint would have told is sent."""
NOT_FOUND = 4404
BROKEN = 1011
"""We broke: the page comes back by itself."""

_readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="live")
"""Of all links of this process together: one long run keeps neither the others nor the pages waiting."""


class RunConsumer(AsyncWebsocketConsumer):
    """One page's link to one run. A run that the user may not see is the same as none."""

    async def connect(self) -> None:
        self.run_id = int(self.scope["url_route"]["kwargs"]["pk"])
        self.seq = _since(self.scope["query_string"])
        self.group = f"run.{self.run_id}"
        self.hinted = asyncio.Event()
        self.sender: asyncio.Task[None] | None = None
        if await self._read() is None:
            await self.close(NOT_FOUND)
            return
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()
        self.sender = asyncio.create_task(self._send_news())

    async def disconnect(self, code: int) -> None:
        if self.sender is not None:
            self.sender.cancel()
        await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A page only ever asks whether the link is alive."""
        await self.send('{"type":"pong"}')

    async def run_hint(self, event: dict[str, Any]) -> None:
        self.hinted.set()

    async def _send_news(self) -> None:
        """Until the reader may see no more; a link that cannot be fed any more is closed, never left to look live."""
        try:
            while (took := await self._send_message()) is not None:
                await self._wait()
                await asyncio.sleep(max(COALESCE_SECONDS, REST * took))
            await self.close(NOT_FOUND)
        except Exception:  # nobody awaits this task: what it breaks at is said here, or nowhere
            log.exception("the live link to run %d broke", self.run_id)
            await self.close(BROKEN)

    async def _send_message(self) -> float | None:
        """The seconds that it took to make; None if there is nothing to see."""
        self.hinted.clear()  # before reading: what is hinted from here on may not be in the message
        began = time.monotonic()
        message = await self._read()
        took = time.monotonic() - began
        if message is None:
            return None
        self.seq = message["seq"]
        await self.send(msgspec.json.encode(message).decode())
        return took

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self.hinted.wait(), LOOK_SECONDS)
        except TimeoutError:
            return

    async def _read(self) -> Message | None:
        read = database_sync_to_async(self._message, thread_sensitive=False, executor=_readers)
        message: Message | None = await read()
        return message

    def _message(self) -> Message | None:
        """None for what the reader may not, or no longer, see."""
        reader = _signed_in(self.scope["session"].session_key)
        if reader.is_anonymous:
            return None
        try:
            return live_message(reader, self.run_id, self.seq, timezone.now())
        except Run.DoesNotExist:
            return None


def _signed_in(session_key: str | None) -> User | AnonymousUser:
    """Who the session belongs to by now: nobody after a sign-out, a change of password, or once deactivated."""
    request = HttpRequest()
    request.session = SessionStore(session_key)
    return get_user(request)


def _since(query: bytes) -> int:
    text = parse_qs(query.decode("latin-1")).get("since", ["0"])[0]
    return int(text) if text.isdecimal() and len(text) < 18 else 0
