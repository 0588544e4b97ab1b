"""The socket, through the real ASGI application and the real channel layer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.test import Client

from apps.accounts.models import Membership, Project, User
from apps.lifecycle.announce import announce, hint
from apps.runs.models import Run
from controlplane.asgi import application
from tests.apps.dashboard.factory import make_run
from tests.apps.dashboard.people import make_user
from tests.apps.dashboard.sockets import Socket

pytestmark = pytest.mark.django_db(transaction=True)

HOME = b"http://localhost"


async def test_a_page_gets_what_it_missed_and_then_what_happens() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, opened):
        assert opened
        first = await socket.receive()
        assert first["prev_seq"] == 0
        seq = await sync_to_async(announce)(run.stream(), "run.revised", "a longer clip")
        second = await socket.receive()
        assert second["prev_seq"] == first["seq"]
        assert second["seq"] == seq
        assert [one["text"] for one in second["events"]] == ["a longer clip"]


async def test_many_hints_make_few_messages() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        for number in range(20):
            last = await sync_to_async(announce)(run.stream(), "run.revised", str(number))
        received = 0
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1]["seq"] < last:
            message = await socket.receive()
            received += 1
            seen += message["events"]
        assert received < 10
        assert [one["text"] for one in seen] == [str(number) for number in range(20)]


async def test_a_ping_is_answered() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        await socket.send('{"type":"ping"}')
        assert await socket.receive() == {"type": "pong"}


async def test_nonsense_changes_nothing() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        await socket.send("{{{ not json")
        assert await socket.receive() == {"type": "pong"}


async def test_another_origin_is_refused() -> None:
    user, run = await _run()
    async with _connected(run.pk, user, origin=b"https://evil.example") as (_, opened):
        assert not opened


async def test_nobody_is_refused() -> None:
    _, run = await _run()
    async with _connected(run.pk, None) as (_, opened):
        assert not opened


async def test_an_unseen_run_is_the_same_as_none() -> None:
    _, run = await _run()
    stranger = await sync_to_async(_stranger)()
    answers = []
    for key in (run.pk, 999_999):
        async with _connected(key, stranger) as (_, opened):
            answers.append(opened)
    assert answers == [False, False]


async def test_a_reader_who_may_not_see_it_any_more_is_cut_off() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        await Membership.objects.filter(user=user).adelete()
        await sync_to_async(announce)(run.stream(), "run.revised", "secret")
        closing = await socket.receive()
        assert (closing["type"], closing["code"]) == ("websocket.close", 4404)


def _sign_out(user: User) -> None:
    Session.objects.all().delete()


def _change_password(user: User) -> None:
    user.set_password("shut sesame")
    user.save(update_fields=["password"])


@pytest.mark.parametrize("leave", [_sign_out, _change_password])
async def test_a_reader_who_is_signed_in_no_more_is_cut_off(leave: Callable[[User], None]) -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        await sync_to_async(leave)(user)
        await sync_to_async(announce)(run.stream(), "run.revised", "secret")
        closing = await socket.receive()
        assert (closing["type"], closing["code"]) == ("websocket.close", 4404)


async def test_a_link_that_cannot_be_fed_is_closed_so_that_the_page_comes_back() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        await sync_to_async(_rename)("runs_run", "runs_gone")
        try:
            await sync_to_async(hint)(run.stream())
            closing = await socket.receive()
        finally:
            await sync_to_async(_rename)("runs_gone", "runs_run")
        assert (closing["type"], closing["code"]) == ("websocket.close", 1011)


async def test_a_link_that_reads_for_long_keeps_nobody_else_waiting() -> None:
    user, run = await _run()
    async with _connected(run.pk, user) as (socket, _):
        await socket.receive()
        with _locked("evaluation_evaluation"):
            await sync_to_async(hint)(run.stream())
            await asyncio.sleep(1.5)  # until it reads, and waits for the lock
            assert await asyncio.wait_for(sync_to_async(User.objects.count)(), 5) == 1
        await socket.receive()


def _rename(table: str, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {name}")


@contextmanager
def _locked(table: str) -> Iterator[None]:
    """Nobody reads the table: another connection holds it."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table}")
            held.set()
            done.wait(30)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(10)
        yield
    finally:
        done.set()
        holder.join()


async def _run() -> tuple[User, Run]:
    return await sync_to_async(_make)()


def _make() -> tuple[User, Run]:
    user = make_user("ana", "viewer")
    return user, make_run(user)


def _stranger() -> User:
    return make_user("eve", "admin", Project.objects.create(slug="other", name="Other"))


def _cookie(user: User | None) -> bytes:
    client = Client()
    if user is not None:
        client.force_login(user)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items()).encode()


@asynccontextmanager
async def _connected(key: int, user: User | None, origin: bytes = HOME) -> AsyncIterator[tuple[Socket, bool]]:
    headers = [(b"origin", origin), (b"cookie", await sync_to_async(_cookie)(user))]
    socket = Socket(application, f"/ws/runs/{key}", "since=0", headers)
    opened = await socket.open()
    try:
        yield socket, opened
    finally:
        await socket.close()
