"""Relays what changed in a run to one page: join, coalesce hints, read again with the reader's own permission, send.

Hints may be lost: the page asks for gaps by their numbers, and each message says what it continues.
"""

import asyncio
from typing import Any
from urllib.parse import parse_qs

import msgspec
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils import timezone

from apps.accounts.models import User
from apps.dashboard.queries.live import Message, live_message
from apps.runs.models import Run

COALESCE_SECONDS = 0.5
LOOK_SECONDS = 30.0
"""Without any hint: permission is checked again, and what a lost hint would have told is sent."""
NOT_FOUND = 4404


class RunConsumer(AsyncWebsocketConsumer):
    """One page's link to one run. A run that the user may not see is the same as none."""

    async def connect(self) -> None:
        self.run_id = int(self.scope["url_route"]["kwargs"]["pk"])
        self.seq = _since(self.scope["query_string"])
        self.group = f"run.{self.run_id}"
        self.hinted = asyncio.Event()
        self.sender: asyncio.Task[None] | None = None
        if await self._message() is None:
            await self.close(NOT_FOUND)
            return
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()
        self.hinted.set()
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
        while True:
            message = await self._message()
            if message is None:
                await self.close(NOT_FOUND)
                return
            self.seq = message["seq"]
            self.hinted.clear()
            await self.send(msgspec.json.encode(message).decode())
            await self._wait()
            await asyncio.sleep(COALESCE_SECONDS)

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self.hinted.wait(), LOOK_SECONDS)
        except TimeoutError:
            return

    @database_sync_to_async
    def _message(self) -> Message | None:
        """None for what the user may not, or no longer, see."""
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            return None
        fresh = User.objects.filter(pk=user.pk, is_active=True).first()
        if fresh is None:
            return None
        try:
            return live_message(fresh, self.run_id, self.seq, timezone.now())
        except Run.DoesNotExist:
            return None


def _since(query: bytes) -> int:
    text = parse_qs(query.decode("latin-1")).get("since", ["0"])[0]
    return int(text) if text.isdecimal() and len(text) < 18 else 0
