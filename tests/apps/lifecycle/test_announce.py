"""Hints, through the real channel layer."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer

from apps.lifecycle.announce import hint

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("broker")]


async def test_the_last_of_a_burst_is_told_too() -> None:
    layer = get_channel_layer()
    assert layer is not None
    channel = await layer.new_channel()
    await layer.group_add("run.burst", channel)
    for _ in range(5):
        await sync_to_async(hint)("run:burst")
    assert await asyncio.wait_for(layer.receive(channel), 5) == {"type": "run.hint"}
    assert await asyncio.wait_for(layer.receive(channel), 5) == {"type": "run.hint"}
